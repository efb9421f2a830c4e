//! Object names that would be parsed as flags in printed commands.

use kubectl_skyhook::api::{ApiFlavor, keys};
use serde_json::{Value, json};

use crate::support::object_builder::SKYHOOK;
use crate::support::run::{RunOutput, run};
use crate::support::test_cluster::{CR, TestCluster};

const FLAG: &str = "--insecure-skip-tls-verify";

fn expect_no_command(ran: &RunOutput) {
    let printed = [&ran.stdout, &ran.stderr];
    let mut lines = printed.into_iter().flat_map(|text| text.lines());
    let command = lines.find(|line| line.contains(FLAG) && line.contains("kubectl"));
    assert_eq!(command, None, "{}", ran.transcript());
}

/// Everyone who may annotate nodes can write such keys.
#[test]
fn node_keys_of_impossible_names_are_ignored() {
    let cluster = TestCluster::captured_with_operator("complete");
    let mut node = cluster.node("node-1");
    for word in ["nodeState", "status", "cordon", "version", "drainStart"] {
        let key = ApiFlavor::Skyhook.key(&format!("{word}_{FLAG}"));
        node["metadata"]["annotations"][key] = json!("true");
    }
    let condition = ApiFlavor::Skyhook.key(&format!("{FLAG}/NotReady"));
    let conditions = node["status"]["conditions"].as_array_mut();
    let condition = json!({"type": condition, "status": "True"});
    conditions.expect("a list").push(condition);
    node["spec"]["unschedulable"] = json!(true);
    cluster.fake.load(node);
    for words in [
        "status",
        "diagnose stuck --all",
        "diagnose node node-1",
        "node status",
        "leftovers",
        "leftovers -o json",
        "cordon list",
    ] {
        let ran = cluster.run(words);
        assert!(!ran.stdout.contains(FLAG), "{}", ran.transcript());
        expect_no_command(&ran);
    }
}

#[test]
fn packages_of_impossible_names_are_in_no_command() {
    let cluster = TestCluster::captured_with_operator("complete");
    let mut node = cluster.node("node-1");
    let entry = json!({format!("{FLAG}|1.0.0"): {"name": FLAG, "version": "1.0.0",
        "image": "example.com/driver", "stage": "apply", "state": "erroring"}});
    let key = keys::node_state(ApiFlavor::Skyhook, CR);
    node["metadata"]["annotations"][key] = json!(entry.to_string());
    cluster.fake.load(node);
    let mut cr = cluster.cr().expect("the custom resource exists");
    cr["spec"]["packages"][FLAG] = json!({"version": "1.0.0", "image": "example.com/driver"});
    cluster.fake.load(cr);
    for words in [
        "status",
        "diagnose stuck --all",
        "diagnose stuck --all -o json",
        "diagnose node node-1",
        "node status",
        "package status --skyhook gpu-tune",
        "status gpu-tune",
    ] {
        let ran = cluster.run(words);
        assert!(ran.code.is_some_and(|code| code <= 2), "{}", ran.transcript());
        expect_no_command(&ran);
        let remedies = serde_json::from_str::<Value>(&ran.stdout).unwrap_or_default();
        let mut findings = remedies["findings"].as_array().into_iter().flatten();
        assert!(findings.all(|f| !f["remedies"].to_string().contains(FLAG)), "{}", ran.transcript());
    }
}

/// The API server rejects such names, but files may contain them.
#[test]
fn objects_of_impossible_names_are_unreadable() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("cluster.json");
    let items = json!([
        SKYHOOK.skyhook("in_progress", json!({})),
        SKYHOOK.operator(),
        SKYHOOK.node(FLAG, "erroring", &["driver|1.0.0 apply erroring"]),
    ]);
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    std::fs::write(&file, list.to_string()).expect("a file");
    for words in ["status", "diagnose stuck --all", "node status"] {
        let ran = run(&format!("{words} --from {}", file.display())).output();
        assert_ne!(ran.code, Some(0), "{}", ran.transcript());
        assert!(
            ran.stderr.contains("the name is invalid") || ran.stdout.contains("the name is invalid"),
            "{}",
            ran.transcript()
        );
        expect_no_command(&ran);
    }
}
