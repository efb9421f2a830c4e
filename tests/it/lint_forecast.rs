//! The effects of edits in `lint`.

use std::fmt::Write;

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::support::fake_api::FakeApi;
use crate::support::object_builder::SKYHOOK;
use crate::support::run::run;
use crate::support::test_cluster::TestCluster;

const DRIVER: &str = "driver|1.0.0 config complete";

fn package(version: &str, more: &Value) -> Value {
    let mut package = json!({"version": version, "image": "example.com/driver"});
    let fields = package.as_object_mut().expect("an object");
    fields.extend(more.as_object().cloned().unwrap_or_default());
    package
}

fn spec(packages: &Value) -> Value {
    json!({
        "nodeSelectors": {"matchLabels": {"pool": "gpu"}}, "interruptionBudget": {"count": 1}, "packages": packages,
    })
}

fn driver(version: &str, more: &Value) -> Value {
    spec(&json!({"driver": package(version, more)}))
}

fn with(mut spec: Value, field: &str, value: Value) -> Value {
    spec[field] = value;
    spec
}

/// Two nodes with these entries.
fn nodes(status: &str, entries: &[&str]) -> Vec<Value> {
    let node = |number: u8| {
        let mut node = SKYHOOK.node(&format!("gpu-{number}"), status, entries);
        node["metadata"]["labels"] = json!({"pool": "gpu", "half": number.to_string()});
        node
    };
    vec![node(1), node(2)]
}

fn tainted(mut nodes: Vec<Value>) -> Vec<Value> {
    let taint = json!({"key": "skyhook.nvidia.com", "value": "runtime-required", "effect": "NoSchedule"});
    nodes.iter_mut().for_each(|node| node["spec"] = json!({"taints": [taint]}));
    nodes
}

fn object(spec: Value) -> Value {
    json!({"apiVersion": "skyhook.nvidia.com/v1alpha1", "kind": "Skyhook", "metadata": {"name": "gpu"}, "spec": spec})
}

/// Lints a manifest against a capture with the custom resource and these nodes.
fn lint(live: &Value, nodes: Vec<Value>, manifest: &Value, flags: &str) -> String {
    let states = nodes.iter().map(|node| {
        let state =
            node["metadata"]["annotations"]["skyhook.nvidia.com/nodeState_gpu"].as_str().expect("a state");
        let state: Value = serde_json::from_str(state).expect("JSON");
        (node["metadata"]["name"].as_str().expect("a name").to_owned(), state)
    });
    let mut skyhook = SKYHOOK.skyhook("complete", json!({}));
    skyhook["spec"] = live.clone();
    skyhook["status"]["nodeState"] = Value::Object(states.collect());
    let mut items = vec![SKYHOOK.operator(), skyhook];
    items.extend(nodes);
    let directory = tempfile::tempdir().expect("a directory");
    let capture = directory.path().join("capture.json");
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    std::fs::write(&capture, list.to_string()).expect("written");
    let words = format!("lint -f - --from {} {flags}", capture.display());
    run(&words).stdin(serde_json::to_string_pretty(manifest).expect("JSON")).output().stdout
}

#[test]
fn edits_and_what_stays() {
    let uninstall = |apply: bool| json!({"uninstall": {"enabled": true, "apply": apply}});
    let reboot = json!({"interrupt": {"type": "reboot"}});
    let none = json!({});
    let tuning = |more: &Value| package("1.0.0", more);
    let both = |driver: Value, tuning: Value| spec(&json!({"driver": driver, "tuning": tuning}));
    let plain = driver("1.0.0", &none);
    let complete = || nodes("complete", &[DRIVER]);
    let two = || nodes("complete", &[DRIVER, "tuning|1.0.0 config complete"]);
    let mut ignored = complete();
    ignored[1]["metadata"]["labels"]["skyhook.nvidia.com/ignore"] = "true".into();
    let mut paused = object(driver("1.1.0", &reboot));
    paused["metadata"]["annotations"] = json!({"skyhook.nvidia.com/pause": "true"});
    let uninstalling = || nodes("in_progress", &["driver|1.0.0 uninstall in_progress"]);
    let half = with(plain.clone(), "nodeSelectors", json!({"matchLabels": {"half": "1"}}));
    let required = with(plain.clone(), "runtimeRequired", json!(true));
    let after = json!({"dependsOn": {"driver": "1.0.0"}});
    let cases = [
        (
            "a configMap is added",
            &plain,
            complete(),
            object(driver("1.0.0", &json!({"configMap": {"a": "1"}}))),
        ),
        ("a newer version, with an ignored node", &plain, ignored, object(driver("1.1.0", &reboot))),
        ("a newer version, paused", &plain, complete(), paused),
        ("an older version", &plain, complete(), object(driver("0.9.0", &none))),
        ("an interrupt is added", &plain, complete(), object(driver("1.0.0", &reboot))),
        ("a package is added", &plain, complete(), object(both(package("1.0.0", &none), tuning(&none)))),
        (
            "a package is added with apply",
            &plain,
            complete(),
            object(both(package("1.0.0", &none), tuning(&uninstall(true)))),
        ),
        (
            "a package leaves the spec",
            &both(package("1.0.0", &none), tuning(&none)),
            two(),
            object(plain.clone()),
        ),
        (
            "a package leaves the spec after its uninstall",
            &both(package("1.0.0", &none), tuning(&uninstall(true))),
            complete(),
            object(plain.clone()),
        ),
        (
            "a dependency is uninstalled",
            &both(package("1.0.0", &uninstall(false)), tuning(&after)),
            two(),
            object(both(package("1.0.0", &uninstall(true)), tuning(&after))),
        ),
        (
            "a newer version during the uninstall",
            &driver("1.0.0", &uninstall(true)),
            uninstalling(),
            object(driver("1.1.0", &uninstall(true))),
        ),
        (
            "a newer version after the uninstall",
            &driver("1.0.0", &uninstall(true)),
            nodes("complete", &[]),
            object(driver("1.1.0", &uninstall(true))),
        ),
        (
            "a newer version, the uninstall canceled",
            &driver("1.0.0", &uninstall(true)),
            uninstalling(),
            object(driver("1.1.0", &uninstall(false))),
        ),
        ("a narrower selector", &plain, tainted(complete()), object(half)),
        ("a required runtime", &plain, tainted(complete()), object(required.clone())),
        (
            "a required runtime, installing",
            &required,
            tainted(nodes("in_progress", &["driver|1.0.0 apply in_progress"])),
            object(required.clone()),
        ),
        (
            "an interrupt is removed in progress",
            &driver("1.0.0", &reboot),
            nodes("in_progress", &["driver|1.0.0 interrupt in_progress"]),
            object(plain.clone()),
        ),
        (
            "an interrupt is removed before it starts",
            &driver("1.0.0", &reboot),
            nodes("in_progress", &["driver|1.0.0 apply in_progress"]),
            object(plain.clone()),
        ),
    ];
    let mut outputs = String::new();
    let mut data = String::new();
    for (what, live, nodes, manifest) in cases {
        writeln!(outputs, "== {what}\n{}", lint(live, nodes.clone(), &manifest, "")).expect("written");
        let document: Value = serde_json::from_str(&lint(live, nodes, &manifest, "-o json")).expect("JSON");
        for package in document["effects"].as_array().expect("effects") {
            writeln!(data, "{what}: {} {} {}", package["package"], package["change"], package["stages"])
                .expect("written");
        }
        let rollout = &document["rollouts"][0];
        for field in ["deselected", "interruptedUncordoned", "untainted"] {
            if !rollout[field].is_null() {
                writeln!(data, "{what}: {field} {}", rollout[field]).expect("written");
            }
        }
    }
    assert_snapshot!("text", outputs);
    assert_snapshot!("data", data);
}

/// The operator was rolled back to v0.17: what is applied to NodeWrights has no effect.
#[test]
fn after_a_rollback_of_the_operator() {
    let mut outputs = String::new();
    for (api, kind) in
        [("skyhook.nvidia.com/v1alpha1", "Skyhook"), ("nodewright.nvidia.com/v1alpha1", "NodeWright")]
    {
        for version in ["2.0.1", "2.1.0"] {
            let mut manifest = object(driver(version, &json!({})));
            (manifest["apiVersion"], manifest["kind"]) = (api.into(), kind.into());
            manifest["spec"]["nodeSelectors"] = json!({"matchLabels": {"kubernetes.io/os": "linux"}});
            let lint = run("lint -f - --from tests/clusters/v0.17-rolled-back");
            let output = lint.stdin(serde_json::to_string_pretty(&manifest).expect("JSON")).output();
            writeln!(outputs, "== {kind} {version}\n{}", output.stdout).expect("written");
        }
    }
    assert_snapshot!("rolled_back", outputs);
}

/// A dry run on the server finds what no rule knows, and asks only about manifests without errors.
#[test]
fn a_dry_run_on_the_server() {
    let fake = FakeApi::new().serving(SKYHOOK.0).with(SKYHOOK.operator());
    let mut live = SKYHOOK.skyhook("complete", json!({}));
    live["spec"] = driver("1.0.0", &json!({}));
    let fake = fake.with(live);
    let cluster = TestCluster::serving(fake.clone());
    let mut new = object(driver("1.0.0", &json!({})));
    new["metadata"]["name"] = "new".into();
    let mut broken = object(driver("latest", &json!({})));
    broken["metadata"]["name"] = "broken".into();
    let changed = object(driver("1.0.0", &json!({"env": [{"name": "MODE", "value": "fast"}]})));
    let text = [&new, &broken, &changed]
        .map(|object| serde_json::to_string_pretty(object).expect("JSON"))
        .join("\n");
    let lint = |text: &str| cluster.command("lint -f - --server-dry-run").stdin(text.to_owned()).output();
    let output = lint(&text);
    output.expect_no_stdout("SKY829");
    assert_eq!(fake.get("skyhooks", "", "new"), None);
    let writes: Vec<String> =
        fake.writes().iter().map(|write| format!("{} {}", write.method, write.path)).collect();
    assert_eq!(
        writes,
        [
            "POST /apis/skyhook.nvidia.com/v1alpha1/skyhooks",
            "PATCH /apis/skyhook.nvidia.com/v1alpha1/skyhooks/gpu",
        ]
    );
    fake.on("CREATE skyhooks").reply(422);
    let output = lint(&text);
    output.expect_code(2);
    output.expect_stdout("error SKY829: Skyhook new: denied by the admission webhook");
    fake.heal();
    fake.on("CREATE skyhooks").reply(403);
    let new = serde_json::to_string_pretty(&new).expect("JSON");
    let output = lint(&new);
    output.expect_code(1);
    output.expect_stderr("warning: skyhook/new was not checked by the server: ");
    run("lint -f - --offline --server-dry-run").output().expect_code(64);
}
