//! Secrets and ConfigMaps that packages take variables from.

use serde_json::{Value, json};

use crate::rbac::rights;
use crate::support::fake_api::FakeApi;
use crate::support::object_builder::NODEWRIGHT;
use crate::support::run::run;
use crate::support::test_cluster::TestCluster;
use kubectl_skyhook::commands::rbac::Right;

fn server() -> FakeApi {
    let object = |kind: &str, name: &str, namespace: &str| {
        json!({
            "apiVersion": "v1", "kind": kind, "data": {"mode": "c2VjcmV0"},
            "metadata": {"name": name, "namespace": namespace},
        })
    };
    FakeApi::new()
        .serving(NODEWRIGHT.0)
        .with(NODEWRIGHT.operator())
        .with(object("Secret", "present", NODEWRIGHT.namespace()))
        .with(object("Secret", "elsewhere", "default"))
        .with(object("ConfigMap", "settings", NODEWRIGHT.namespace()))
}

/// A manifest whose package takes its variables from these fields, objects and keys.
fn manifest(sources: &[(&str, &str, &str)]) -> Value {
    let env: Vec<Value> = sources
        .iter()
        .enumerate()
        .map(|(index, (field, name, key))| {
            let source = json!({"name": name, "key": key});
            json!({"name": format!("V{index}"), "valueFrom": {*field: source}})
        })
        .collect();
    let mut manifest = NODEWRIGHT.skyhook("complete", json!({}));
    manifest["metadata"] = json!({"name": "tuning"});
    manifest["spec"] = json!({
        "nodeSelectors": {"matchLabels": {"pool": "gpu"}}, "interruptionBudget": {"count": 1},
        "packages": {"driver": {"version": "1.0.0", "image": "example.com/driver", "env": env}},
    });
    manifest.as_object_mut().expect("an object").remove("status");
    manifest
}

const SECRET: &str = "secretKeyRef";
const CONFIG_MAP: &str = "configMapKeyRef";

/// The findings of the rule: their fields and messages.
fn found(report: &Value) -> Vec<(&str, &str)> {
    let findings = report["findings"].as_array().expect("findings").iter();
    let own = findings.filter(|finding| finding["code"] == "SKY875");
    own.map(|finding| {
        let text = |key: &str| finding[key].as_str().expect("a text");
        (text("path"), text("message"))
    })
    .collect()
}

#[test]
fn missing_objects_and_keys_are_found() {
    let fake = server();
    let cluster = TestCluster::serving(fake.clone());
    let text = manifest(&[
        (SECRET, "present", "any"),
        (SECRET, "elsewhere", "token"),
        (CONFIG_MAP, "settings", "mode"),
        (CONFIG_MAP, "settings", "speed"),
        (CONFIG_MAP, "missing", "mode"),
    ]);
    let output = cluster.command("lint -f - -o json").stdin(text.to_string()).output();
    let namespace = NODEWRIGHT.namespace();
    let report = output.json();
    let field =
        |index: usize, source: &str| format!("spec.packages.driver.env[{index}].valueFrom.{source}.name");
    let expected = [
        (
            field(1, SECRET),
            format!("Secret elsewhere does not exist in namespace {namespace}: pods cannot start"),
        ),
        (
            field(3, CONFIG_MAP),
            format!("ConfigMap settings in namespace {namespace} has no key \"speed\": pods cannot start"),
        ),
        (
            field(4, CONFIG_MAP),
            format!("ConfigMap missing does not exist in namespace {namespace}: pods cannot start"),
        ),
    ];
    let expected: Vec<(&str, &str)> = expected.iter().map(|(a, b)| (&**a, &**b)).collect();
    let mut found = found(&report);
    found.sort_unstable();
    assert_eq!(found, expected);
    output.expect_no_stderr("not checked");
    // Secrets are requested without their data.
    let requests = fake.requests();
    let secrets: Vec<_> = requests.iter().filter(|r| r.path.contains("/secrets")).collect();
    assert_eq!(secrets.len(), 2);
    for request in secrets {
        let accept = request.header("accept");
        assert_eq!(accept, "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1");
    }
}

#[test]
fn objects_among_the_manifests_exist() {
    let cluster = TestCluster::serving(server());
    let sealed =
        json!({"apiVersion": "bitnami.com/v1alpha1", "kind": "SealedSecret", "metadata": {"name": "new"}});
    let text = format!("{}\n---\n{sealed}\n", manifest(&[(SECRET, "new", "token")]));
    let output = cluster.command("lint -f - -o json").stdin(text).output();
    assert_eq!(found(&output.json()), []);
}

#[test]
fn unread_objects_are_announced_as_unchecked() {
    let fake = server();
    fake.on("GET secrets").reply(403);
    let cluster = TestCluster::serving(fake);
    let text = manifest(&[(SECRET, "elsewhere", "token")]).to_string();
    let output = cluster.command("lint -f - -o json").stdin(text.clone()).output();
    output.expect_code(0);
    output.expect_stderr("warning: Secret elsewhere was not checked: forbidden");
    assert_eq!(found(&output.json()), []);
    let capture = "tests/lint/no_budget/good.yaml";
    let output = run(&format!("lint -f - --from {capture} -o json")).stdin(text).output();
    output.expect_stderr(
        "warning: Secret elsewhere was not checked: the namespace of the operator is unknown\n",
    );
}

/// A capture shows missing objects and keys of the kinds that it contains.
#[test]
fn captures_show_objects_of_their_kinds() {
    let object = |kind: &str, name: &str| {
        json!({
            "apiVersion": "v1", "kind": kind, "data": {"mode": "c2VjcmV0"},
            "metadata": {"name": name, "namespace": NODEWRIGHT.namespace()},
        })
    };
    let report = |objects: &[Value]| {
        let node = NODEWRIGHT.node("node-1", "complete", &[]);
        let items: Vec<Value> = [NODEWRIGHT.operator(), node].iter().chain(objects).cloned().collect();
        let directory = tempfile::tempdir().expect("a directory");
        let capture = directory.path().join("capture.json");
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        std::fs::write(&capture, list.to_string()).expect("written");
        let text = manifest(&[
            (SECRET, "present", "mode"),
            (SECRET, "present", "token"),
            (SECRET, "missing", "token"),
            (CONFIG_MAP, "settings", "mode"),
        ]);
        run(&format!("lint -f - --from {} -o json", capture.display())).stdin(text.to_string()).output()
    };
    let namespace = NODEWRIGHT.namespace();
    let secrets = report(&[object("Secret", "present")]);
    let document = secrets.json();
    let messages: Vec<&str> = found(&document).into_iter().map(|(_, message)| message).collect();
    assert_eq!(
        messages,
        [
            format!("Secret missing does not exist in namespace {namespace}: pods cannot start"),
            format!("Secret present in namespace {namespace} has no key \"token\": pods cannot start"),
        ]
    );
    secrets.expect_stderr(
        "warning: ConfigMap settings was not checked: the capture contains no ConfigMap of namespace",
    );
    let both = report(&[object("Secret", "present"), object("ConfigMap", "settings")]);
    both.expect_no_stderr("not checked");
    assert!(!both.stdout.contains("c2VjcmV0"), "{}", both.stdout);
}

/// The general roles read no Secrets.
#[test]
fn only_the_role_of_the_command_reads_secrets() {
    assert!(rights("lint").contains(&Right::new("get", "", "secrets")));
    for role in ["viewer", "operator"] {
        run(&format!("rbac --for {role}")).output().expect_no_stdout("secrets");
    }
    run("rbac --for lint").output().expect_stdout("secrets");
}
