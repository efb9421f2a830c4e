//! Faults of resetting nodes.

use serde_json::{Value, json};

use super::{TestCluster, complete_cluster, driver, with_operator_keys};
use crate::dropin::SKYHOOK;
use crate::support::fake_api::FakeApi;

const DONE: [&str; 1] = ["driver|1.0.0 config complete"];

/// A node cordoned by the custom resource.
fn cordoned(name: &str) -> Value {
    let mut node = with_operator_keys(name, "complete", &DONE);
    node["metadata"]["annotations"][SKYHOOK.0.key("cordon_gpu")] = json!("true");
    node["spec"] = json!({"unschedulable": true});
    node
}

#[test]
fn r1_reset_leaves_no_orphaned_cordon() {
    // Reset keeps the cordon annotation: the rerun uncordons the node.
    let cluster = TestCluster::serving(complete_cluster(driver()).with(cordoned("node-1")));
    cluster.run_ok("reset gpu -y");
    assert_eq!(cluster.node_state("node-1"), Value::Null);
    assert_eq!(cluster.node_annotation("node-1", "cordon_gpu"), json!("true"));
    assert_eq!(cluster.node("node-1")["spec"]["unschedulable"], json!(true));

    // Nothing reruns, so reset removes the cordon annotation, and uncordons nodes that no other custom
    // resource holds.
    let mut held = cordoned("node-2");
    held["metadata"]["annotations"][SKYHOOK.0.key("cordon_other")] = json!("true");
    let fake = FakeApi::new().serving(SKYHOOK.0).with(SKYHOOK.operator());
    let cluster = TestCluster::serving(fake.with(cordoned("node-1")).with(held));
    cluster.run_ok("reset gpu -y");
    for node in ["node-1", "node-2"] {
        assert_eq!(cluster.node_annotation(node, "cordon_gpu"), Value::Null, "{node}");
    }
    assert_eq!(cluster.node("node-1")["spec"]["unschedulable"], Value::Null);
    assert_eq!(cluster.node("node-2")["spec"]["unschedulable"], json!(true));
}

#[test]
fn r2_node_reset_and_reset_clear_the_same() {
    for command in ["reset gpu -y", "node reset node-1 --skyhook gpu -y"] {
        let cluster = TestCluster::serving(
            complete_cluster(driver()).with(with_operator_keys("node-1", "complete", &DONE)),
        );
        cluster.run_ok(command);
        for key in ["nodeState_gpu", "status_gpu", "version_gpu"] {
            assert_eq!(cluster.node_annotation("node-1", key), Value::Null, "{command}: {key}");
        }
        assert_eq!(cluster.node_label("node-1", "status_gpu"), Value::Null, "{command}");
    }
}

#[test]
fn r3_taint_annotation_is_kept() {
    let mut node = with_operator_keys("node-1", "complete", &DONE);
    node["metadata"]["annotations"][SKYHOOK.0.key("autoTaint_gpu")] = json!("true");
    let cluster = TestCluster::serving(complete_cluster(driver()).with(node));
    cluster.run_ok("reset gpu -y");
    assert_eq!(cluster.node_annotation("node-1", "autoTaint_gpu"), json!("true"));
}

#[test]
fn r4_all_keys_of_a_node_go_in_one_patch() {
    let cluster = TestCluster::serving(
        complete_cluster(driver()).with(with_operator_keys("node-1", "complete", &DONE)),
    );
    cluster.run_ok("node reset node-1 --skyhook gpu -y");
    assert_eq!(cluster.patched_paths(), ["/api/v1/nodes/node-1"]);
}

#[test]
fn r5_malformed_and_orphaned_state_is_removed() {
    let mut broken = with_operator_keys("node-1", "complete", &[]);
    broken["metadata"]["annotations"][SKYHOOK.0.key("nodeState_gpu")] = json!("{oops");
    let mut strip_cleanup = with_operator_keys("node-2", "complete", &[]);
    let annotations = strip_cleanup["metadata"]["annotations"].as_object_mut();
    annotations.expect("a map").remove(&SKYHOOK.0.key("nodeState_gpu"));
    let both = || complete_cluster(driver()).with(broken.clone()).with(strip_cleanup.clone());
    for command in ["reset gpu -y", "node reset node-1 node-2 --skyhook gpu -y"] {
        let cluster = TestCluster::serving(both());
        cluster.run_ok(command);
        for node in ["node-1", "node-2"] {
            for key in ["nodeState_gpu", "status_gpu", "version_gpu"] {
                assert_eq!(cluster.node_annotation(node, key), Value::Null, "{command}: {node} {key}");
            }
        }
    }
}

#[test]
fn r6_node_changed_in_the_meantime_is_skipped() {
    let cluster = TestCluster::with_complete_nodes(&["node-1"]);
    let moved = json!({"driver|2.0.0": {"name": "driver", "version": "2.0.0", "image": "example.com/driver",
        "stage": "apply", "state": "in_progress"}});
    let text = moved.to_string();
    cluster.fake.on("PATCH nodes").nth(1).after(move |state| {
        let mut node = state.store.find("nodes", "", "node-1").cloned().expect("the node exists");
        node["metadata"]["annotations"][SKYHOOK.0.key("nodeState_gpu")] = json!(text);
        state.store.load(node);
    });
    let ran = cluster.run("node reset node-1 --skyhook gpu -y --no-pause");
    assert_ne!(ran.code, Some(0), "{}", ran.transcript());
    assert_eq!(cluster.node_state("node-1"), moved);
}

#[test]
fn r7_missing_state_is_explained() {
    let packages = json!({"driver": {
        "version": "1.0.0", "image": "example.com/driver",
        "uninstall": {"enabled": true}, "interrupt": {"type": "reboot"},
        "configInterrupts": {}, "configMap": {},
    }});
    let entries = ["driver|1.0.0 post-interrupt complete"];
    let cluster = TestCluster::serving(
        complete_cluster(packages).with(with_operator_keys("node-1", "complete", &entries)),
    );
    cluster.run_ok("pause gpu -y");
    let ran = cluster.ok("reset gpu --dry-run");
    for says in [
        "driver counts as uninstalled",
        "cordoned and drained, 1 rebooted",
        "skyhook/gpu is paused: nothing runs until you run `kubectl skyhook resume gpu`",
    ] {
        let text = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(says), "{}", ran.transcript());
    }
}

#[test]
fn r8_conditions_are_removed_with_the_state() {
    let mut node = with_operator_keys("node-1", "complete", &DONE);
    let conditions = node["status"]["conditions"].as_array_mut().expect("a list");
    conditions.push(json!({"type": SKYHOOK.0.key("gpu/NotReady"), "status": "True"}));
    let fake = FakeApi::new().serving(SKYHOOK.0).with(SKYHOOK.operator());
    let cluster = TestCluster::serving(fake.with(node));
    cluster.run_ok("reset gpu -y");
    assert_eq!(cluster.node("node-1")["status"]["conditions"], json!([{"type": "Ready", "status": "True"}]));
}

#[test]
fn r9_reset_accepts_nodes_and_labels() {
    let mut labelled = with_operator_keys("node-2", "complete", &DONE);
    labelled["metadata"]["labels"]["pool"] = json!("a");
    let cluster = TestCluster::serving(
        complete_cluster(driver())
            .with(with_operator_keys("node-1", "complete", &DONE))
            .with(labelled)
            .with(with_operator_keys("node-3", "complete", &DONE)),
    );
    cluster.run_ok("reset gpu --node node-1 --confirm");
    assert_eq!(cluster.patched_paths(), ["/api/v1/nodes/node-1"]);
    cluster.run_ok("reset gpu -l pool=a --confirm");
    assert_eq!(cluster.patched_paths()[1..], ["/api/v1/nodes/node-2"]);
}

#[test]
fn r10_unknown_name_gets_a_suggestion() {
    let cluster = TestCluster::with_complete_nodes(&["node-1"]);
    for words in ["node list --skyhook gpuu", "node reset node-1 --skyhook gpuu -y"] {
        let ran = cluster.run(words);
        assert_eq!(
            ran.parts(),
            ("", "error: Skyhook \"gpuu\" not found\nhint: did you mean gpu?\n", Some(1))
        );
    }
}
