//! Ignored nodes: the headline, the preview and the remedies.

use std::path::Path;

use insta::assert_snapshot;
use kubectl_skyhook::api::ApiFlavor;
use serde_json::{Value, json};

use crate::support::run::run;
use crate::support::test_cluster::TestCluster;

/// Sets a label of the operator on a node.
fn set_label(cluster: &TestCluster, name: &str, key: &str) {
    let mut node = cluster.node(name);
    node["metadata"]["labels"][ApiFlavor::Skyhook.key(key)] = json!("true");
    cluster.fake.load(node);
}

#[test]
fn headline_reports_work_that_needs_intervention() {
    let headline = |cluster: &TestCluster| {
        let ran = cluster.run("diagnose stuck");
        ran.stdout.lines().next().unwrap_or_default().to_owned()
    };
    let blocked = "No errors, but some work is blocked until someone intervenes";
    let cluster = TestCluster::captured_with_operator("in-progress");
    cluster.fake.started_now();
    assert!(!headline(&cluster).starts_with(blocked), "{}", headline(&cluster));
    for node in ["node-1", "node-2", "node-3"] {
        set_label(&cluster, node, "ignore");
    }
    assert!(headline(&cluster).starts_with(blocked), "{}", headline(&cluster));
}

/// A preview names nodes that stay cordoned and deletions that wait for the nodes.
#[test]
fn previews_name_cordons_and_waiting_deletions() {
    for [capture, node] in
        [["deleted-while-erroring", "node-2"], ["uninstall-interrupt-in-progress", "node-2"]]
    {
        let ran = run(&format!("node ignore {node} --dry-run --from tests/clusters/{capture}")).output();
        assert_snapshot!(format!("ignore_{capture}"), ran.transcript());
    }
}

/// Ignoring a node does not fix its refused drain, so the blocker must be removed before the node is
/// unignored.
#[test]
fn unignore_is_not_suggested_for_a_node_with_a_refused_drain() {
    let cluster = TestCluster::captured_with_operator("drain-blocked");
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clusters/drain-blocked");
    cluster.fake.load_file(&directory.join("extra.json"));
    let drain = cluster.run("diagnose stuck --rule SKY401 -o json").json();
    let node = drain["findings"][0]["subject"]["node"].as_str().expect("a node");
    set_label(&cluster, node, "ignore");
    let report = cluster.run("diagnose stuck --rule SKY304 -o json").json();
    let remedies = report["causes"][0]["remedies"].as_array().expect("remedies");
    let argvs: Vec<String> = remedies
        .iter()
        .map(|r| {
            r["argv"]
                .as_array()
                .expect("a command")
                .iter()
                .filter_map(Value::as_str)
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect();
    assert!(argvs[0].starts_with("kubectl edit poddisruptionbudget"), "{argvs:?}");
    let last = argvs.last().expect("a remedy");
    assert_eq!(*last, format!("kubectl skyhook node unignore {node}"));
    assert!(argvs.iter().all(|a| !a.contains("node ignore")), "{argvs:?}");
}

/// The numbers of a preview count only nodes that are not ignored.
#[test]
fn ignored_nodes_are_not_counted() {
    let capture = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "nodewright.nvidia.com/v1alpha1", "kind": "NodeWright", "metadata": {"name": "tuning", "uid": "u"},
         "spec": {"nodeSelectors": {"matchLabels": {"pool": "gpu"}}, "interruptionBudget": {"count": 1},
                  "packages": {"tuned": {"version": "0.10.0", "image": "example.com/tuned", "interrupt": {"type": "reboot"}}}},
         "status": {"status": "in_progress", "observedGeneration": 1}},
        node("gpu-1", json!({"nodewright.nvidia.com/status_tuning": "in_progress", "nodewright.nvidia.com/cordon_tuning": "true",
                             "nodewright.nvidia.com/drainStart_tuning": "2026-11-25T10:40:00Z"})),
        node("gpu-2", json!({"nodewright.nvidia.com/status_tuning": "waiting"})),
    ]});
    let ran = run("node ignore gpu-1 --dry-run --from - --now 2026-11-25T10:41:00Z")
        .stdin(capture.to_string().as_bytes())
        .output();
    assert_snapshot!(ran.transcript());
}

fn node(name: &str, annotations: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"pool": "gpu"}, "annotations": annotations},
           "spec": {"unschedulable": name == "gpu-1"},
           "status": {"conditions": [{"type": "Ready", "status": "True"}]}})
}
