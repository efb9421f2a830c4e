//! Installs a generation of the operator: CRDs, roles, webhooks and the Deployment with its version. The
//! operator itself runs on the host.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};

use crate::{api::Api, control_plane::ControlPlane, servers::free_ports, tools::Tools};

pub const NAMESPACE: &str = "skyhook";
pub const VERSION: &str = "v0.17.0";
const DEPLOYMENT: &str = "skyhook-operator-controller-manager";
pub const IMAGE: &str = "ghcr.io/nvidia/skyhook/operator";
/// The operator's webhook port is fixed.
const WEBHOOK_PORT: u16 = 9443;
const WEBHOOK_SERVICE: &str = "skyhook-operator-webhook-service";

/// Installs everything but the Deployment and the running process.
pub fn install(tools: &Tools, api: &Api) -> Result<()> {
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    for file in ["skyhooks", "deploymentpolicies"] {
        let text = tools.operator_config(VERSION, &format!("crd/bases/skyhook.nvidia.com_{file}.yaml"))?;
        make(api, crds, &document(&text)?)?;
    }
    make(api, "/api/v1/namespaces", &json!({"metadata": {"name": NAMESPACE}}))?;
    let role = document(&tools.operator_config(VERSION, "rbac/role.yaml")?)?;
    make(api, "/apis/rbac.authorization.k8s.io/v1/clusterroles", &role)?;
    make(
        api,
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        &json!({
            "metadata": {"name": "operator"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role["metadata"]["name"]},
            "subjects": [{"kind": "User", "name": "operator", "apiGroup": "rbac.authorization.k8s.io"}],
        }),
    )?;
    // Without the service account no pod can be created, and the operator would start with an error.
    awaited(api, &format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"))?;
    for plural in ["skyhooks", "deploymentpolicies"] {
        established(api, &format!("{plural}.skyhook.nvidia.com"))?;
    }
    Ok(())
}

/// Creates an object in a new cluster. Accepts a conflict: an overloaded server may receive a request twice.
fn make(api: &Api, path: &str, object: &Value) -> Result<()> {
    match api.post(path, object) {
        Err(refused) if refused.code != 409 => Err(refused.into()),
        _ => Ok(()),
    }
}

/// Path of the Deployment through which clients find the operator.
pub fn deployment(namespace: &str) -> String {
    format!("/apis/apps/v1/namespaces/{namespace}/deployments/{DEPLOYMENT}")
}

/// Creates the Deployment through which clients find the operator and its version. It starts no pods here.
pub fn announce(api: &Api, namespace: &str, version: &str, image: &str) -> Result<()> {
    let mut body = of_version(version, image);
    body["metadata"]["name"] = json!(DEPLOYMENT);
    let deployments = format!("/apis/apps/v1/namespaces/{namespace}/deployments");
    api.post(&deployments, &body)?;
    let status = json!({"status": {
        "observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1,
        "conditions": [{"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"}],
    }});
    api.merge(&format!("{}/status", deployment(namespace)), &status)?;
    Ok(())
}

/// Sets another version in that Deployment.
pub fn announce_instead(api: &Api, version: &str, image: &str) -> Result<()> {
    let body = of_version(version, image);
    api.merge(&deployment(NAMESPACE), &body)?;
    Ok(())
}

fn of_version(version: &str, image: &str) -> Value {
    let labels = json!({
        "control-plane": "controller-manager",
        "app.kubernetes.io/name": "skyhook-operator",
        "app.kubernetes.io/version": version,
    });
    json!({
        "metadata": {"labels": labels},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"control-plane": "controller-manager"}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "manager", "image": format!("{image}:{version}")}]},
            },
        },
    })
}

/// Starts the operator; with webhooks, returns when the API server uses them.
pub fn start(
    plane: &mut ControlPlane,
    tools: &Tools,
    webhooks: bool,
    settings: &[(&'static str, &str)],
) -> Result<()> {
    let [probe] = free_ports();
    let mut env = BTreeMap::from([
        ("NAMESPACE", NAMESPACE.to_owned()),
        ("KUBECONFIG", plane.kubeconfig("operator").display().to_string()),
        ("METRICS_PORT", "0".to_owned()),
        ("PROBE_PORT", format!("127.0.0.1:{probe}")),
        ("LEADER_ELECTION", "false".to_owned()),
        ("ENABLE_WEBHOOKS", webhooks.to_string()),
        // The shortest accepted interval, so that tests can wait for the retries of an idle operator.
        ("DEFAULT_INTERVAL", "1m".to_owned()),
        ("LOG_LEVEL", "info".to_owned()),
        ("LOG_ENCODER", "console".to_owned()),
        ("AGENT_IMAGE", "ghcr.io/nvidia/skyhook/agent:v6.4.0".to_owned()),
        // The operator writes its serving certificate below TMPDIR.
        ("TMPDIR", plane.servers.dir().display().to_string()),
    ]);
    let settings = settings.iter();
    env.extend(settings.map(|(name, value)| (*name, (*value).to_owned())));
    plane.servers.start("operator", &tools.program(&format!("operator-{VERSION}")), &[], &env)?;
    if webhooks {
        let admin = plane.user("admin")?;
        serve_webhooks(&admin).map_err(|error| error.context(plane.servers.log_tail("operator", 20)))?;
    }
    Ok(())
}

/// Creates the webhook objects of the Helm chart; the operator fills in the certificate. The Service points
/// to localhost, where the operator runs.
pub fn prepare_webhooks(api: &Api) -> Result<()> {
    api.post(
        &format!("/api/v1/namespaces/{NAMESPACE}/services"),
        &json!({
            "metadata": {"name": WEBHOOK_SERVICE},
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        }),
    )?;
    let group = "/apis/admissionregistration.k8s.io/v1";
    for (verb, kind, delete) in [("validate", "validating", true), ("mutate", "mutating", false)] {
        let hooks: Vec<_> =
            [("skyhook", "skyhooks", false), ("deploymentpolicy", "deploymentpolicies", delete)]
                .map(|(singular, plural, delete)| {
                    let operations = if delete {
                        json!(["CREATE", "UPDATE", "DELETE"])
                    } else {
                        json!(["CREATE", "UPDATE"])
                    };
                    json!({
                        "name": format!("{verb}-{singular}.nvidia.com"),
                        "admissionReviewVersions": ["v1"],
                        "sideEffects": "None",
                        "failurePolicy": "Fail",
                        "clientConfig": {"service": {
                            "name": WEBHOOK_SERVICE, "namespace": NAMESPACE, "port": WEBHOOK_PORT,
                            "path": format!("/{verb}-skyhook-nvidia-com-v1alpha1-{singular}"),
                        }},
                        "rules": [{
                            "apiGroups": ["skyhook.nvidia.com"], "apiVersions": ["v1alpha1"],
                            "operations": operations, "resources": [plural],
                        }],
                    })
                })
                .into();
        let body =
            json!({"metadata": {"name": format!("skyhook-operator-{kind}-webhook")}, "webhooks": hooks});
        api.post(&format!("{group}/{kind}webhookconfigurations"), &body)?;
    }
    Ok(())
}

fn serve_webhooks(api: &Api) -> Result<()> {
    // Only a response of the webhook proves that the API server has the certificate.
    let path = "/apis/skyhook.nvidia.com/v1alpha1/skyhooks?dryRun=All";
    let bad = json!({
        "apiVersion": "skyhook.nvidia.com/v1alpha1", "kind": "Skyhook", "metadata": {"name": "probe"},
        "spec": {"packages": {"probe": {"version": "not-a-version", "image": "example.com/probe"}}},
    });
    let begun = Instant::now();
    loop {
        let answer = api.post(path, &bad).err().map(|refused| refused.message).unwrap_or_default();
        if answer.contains("denied the request") {
            return Ok(());
        }
        if begun.elapsed() > Duration::from_secs(120) {
            bail!("the webhooks do not answer: {answer}");
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

pub fn awaited(api: &Api, path: &str) -> Result<()> {
    let begun = Instant::now();
    while api.find(path)?.is_none() {
        if begun.elapsed() > Duration::from_secs(20) {
            bail!("{path} does not appear");
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    Ok(())
}

pub fn document(yaml: &str) -> Result<Value> {
    serde_saphyr::from_str(yaml).map_err(|error| anyhow!("{error}"))
}

/// Waits until objects of a CRD can be listed: condition Established comes slightly earlier.
pub fn established(api: &Api, name: &str) -> Result<()> {
    let (plural, group) = name.split_once('.').context("a CRD is called PLURAL.GROUP")?;
    let path = format!("/apis/{group}/v1alpha1/{plural}");
    let begun = Instant::now();
    while let Err(refused) = api.get(&path) {
        if begun.elapsed() > Duration::from_secs(120) {
            bail!("{name} is not served: {refused}");
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    Ok(())
}
