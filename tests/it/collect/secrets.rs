//! Secrets are in none of the captured files.

use serde_json::json;

use super::Scene;
use crate::support::clusters;

const CANARY: &str = "canary-5f2a";

/// Plants a secret in every place where secrets occur.
#[test]
fn capture_contains_no_planted_secret() {
    let fake = clusters::named("nodewright-apply-erroring").served();
    let env = json!([{"name": "REGISTRY", "value": format!("{CANARY}-env")}]);
    let applied = json!({"spec": {"packages": {"driver": {"env": env.clone(),
        "configMap": {"a.conf": format!("{CANARY}-applied")}}}}});
    let flavor = kubectl_skyhook::api::ApiFlavor::NodeWright;
    fake.load(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
        "name": "aerr-alpha", "namespace": flavor.default_namespace(),
        "labels": {flavor.key("name"): "aerr"},
    }}));
    let mut planted = 0;
    for mut object in fake.objects() {
        match object["kind"].as_str() {
            Some("NodeWright") => {
                object["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] =
                    applied.to_string().into();
                let packages = object["spec"]["packages"].as_object_mut();
                for (_, package) in packages.into_iter().flatten() {
                    package["env"] = env.clone();
                    package["configMap"] = json!({"a.conf": format!("{CANARY}-inline")});
                }
            }
            Some("Pod") => {
                for containers in ["initContainers", "containers"] {
                    let containers = object["spec"][containers].as_array_mut();
                    for container in containers.into_iter().flatten() {
                        container["env"] = env.clone();
                        container["args"] = json!(["--api-token", format!("{CANARY}-arg")]);
                    }
                }
            }
            Some("Job") => {
                object["metadata"]["annotations"]["nodewright.nvidia.com/last-logs"] =
                    format!("curl -H 'Authorization: Bearer {CANARY}-bearer'\npassword={CANARY}-kept\n")
                        .into();
            }
            Some("ConfigMap") => {
                object["data"] = json!({"a.conf": format!("key = {CANARY}-data")});
                object["binaryData"] = json!({"b": format!("{CANARY}-binary")});
            }
            Some("Deployment") => {
                let containers = object.pointer_mut("/spec/template/spec/containers");
                for container in containers.and_then(|c| c.as_array_mut()).into_iter().flatten() {
                    container["env"] = env.clone();
                }
            }
            Some("Node") => {
                object["metadata"]["annotations"]["example.com/login"] =
                    format!("https://me:{CANARY}-url@example.com").into();
            }
            Some("Event") => {
                object["message"] = format!("failed with token={CANARY}-event").into();
            }
            _ => continue,
        }
        planted += 1;
        fake.load(object);
    }
    assert!(planted > 8, "{planted}");
    let log = format!(
        "2026-11-20T10:00:00Z it begins\n2026-11-20T10:00:01Z export REGISTRY={CANARY}-env\n2026-11-20T10:00:02Z \
         SECRET: {CANARY}-log\n2026-11-20T10:00:03Z key = {CANARY}-data\n"
    );
    let pods: Vec<_> = fake.objects().into_iter().filter(|o| o["kind"] == "Pod").collect();
    fake.change(|state| {
        for pod in &pods {
            let name = pod["metadata"]["name"].as_str().expect("a name");
            for statuses in ["initContainerStatuses", "containerStatuses"] {
                for status in pod["status"][statuses].as_array().into_iter().flatten() {
                    let container = status["name"].as_str().expect("a name");
                    state.logs.write(name, container, &log);
                    state.logs.write_previous(name, container, &log);
                }
            }
        }
    });
    let scene = Scene::of(&fake);
    let collected = scene.collect("");
    collected.expect_code(0);
    let files = scene.files();
    for (name, text) in &files {
        let at = text.find(CANARY).map(|at| &text[at.saturating_sub(80)..(at + 40).min(text.len())]);
        assert_eq!(at, None, "{name}");
    }
    let logs: Vec<_> = files.iter().filter(|(name, _)| name.starts_with("logs/")).collect();
    assert!(!logs.is_empty(), "{:?}", files.keys());
    assert!(logs.iter().all(|(_, text)| text.contains("Z it begins")), "{logs:?}");
    // Equal values get equal masks.
    let masked = |name: &str| {
        let text = &files[name];
        let (_, rest) = text.split_once(r#""name":"REGISTRY","value":"#).expect("the variable");
        rest.split('}').next().expect("a value").to_owned()
    };
    assert_eq!(masked("pods.json"), masked("deployments.apps.json"));
    assert!(masked("pods.json").starts_with("\"<masked:"), "{}", masked("pods.json"));
}
