//! The state that a reset removes, and the state that it keeps.

use kubectl_skyhook::api::ApiFlavor;
use serde_json::{Value, json};

use super::{CR, TestCluster};

#[test]
fn reset_clears_all_state_and_undo_restores_it() {
    let cluster = TestCluster::captured_with_operator("apply-erroring");
    let before = cluster.objects();
    let ran = cluster.with_operator(|| cluster.run("reset gpu-tune --confirm"));
    ran.expect_code(0);
    assert!(ran.stdout.starts_with("reset gpu-tune on 3 nodes: 4 changed\n"), "{}", ran.transcript());
    for node in ["node-1", "node-2", "node-3"] {
        assert_eq!(cluster.keys(node), [""; 0]);
    }
    let cr = cluster.cr().expect("the custom resource exists");
    assert_eq!(cr["status"]["nodeOrderOffset"], json!(0));
    assert_eq!(cr["status"]["nodePriority"], Value::Null);
    assert_eq!(
        cr["status"]["compartmentStatuses"]["__default__"]["batchState"],
        json!({
            "currentBatch": 1, "consecutiveFailures": 0, "completedNodes": 0, "failedNodes": 0,
            "shouldStop": false, "lastBatchSize": 0, "lastBatchFailed": false,
        })
    );
    assert_eq!(cr["metadata"]["annotations"][ApiFlavor::Skyhook.key("pause")], Value::Null);
    let mut writes = cluster.writes();
    let cr_path = format!("/apis/{}/skyhooks/{CR}", ApiFlavor::Skyhook.api_version());
    assert_eq!(writes.remove(0), format!("PATCH {cr_path}"));
    assert_eq!(writes.pop(), Some(format!("PATCH {cr_path}")));
    assert_eq!(writes.pop(), Some(format!("PATCH {cr_path}/status")));
    writes.sort();
    let nodes = ["node-1", "node-2", "node-3"].map(|n| format!("PATCH /api/v1/nodes/{n}"));
    assert_eq!(writes, nodes);

    let undone = cluster.with_operator(|| cluster.run("undo --confirm"));
    undone.expect_code(0);
    let mut after = cluster.objects();
    // Ignore the status, which the simulated operator has written in the meantime.
    after[3]["status"]["status"] = before[3]["status"]["status"].clone();
    assert_eq!(after, before);

    let nothing = cluster.run("undo --confirm");
    nothing.expect_code(1);
    nothing.expect_stderr("nothing to undo");
}

#[test]
fn reset_of_one_node_keeps_other_nodes_and_batches() {
    let cluster = TestCluster::from_capture("apply-erroring");
    let before = cluster.objects();
    let ran = cluster.run("reset gpu-tune --node node-2 --confirm --no-pause");
    ran.expect_code(0);
    assert_eq!(cluster.keys("node-2"), [""; 0]);
    assert_eq!(cluster.writes(), ["PATCH /api/v1/nodes/node-2"]);
    let after = cluster.objects();
    assert_eq!((&after[0], &after[2], &after[3]), (&before[0], &before[2], &before[3]));
}

#[test]
fn reset_of_one_package_keeps_other_packages() {
    let cluster = TestCluster::from_capture("apply-erroring");
    let ran = cluster.run("reset gpu-tune --package driver --failed-only --confirm --no-pause");
    ran.expect_code(0);
    assert_eq!(cluster.writes(), ["PATCH /api/v1/nodes/node-2"]);
    let key = kubectl_skyhook::api::keys::node_state(ApiFlavor::Skyhook, CR);
    let node = cluster.node("node-2");
    let text = node["metadata"]["annotations"][key].as_str().expect("a state");
    let state: Value = serde_json::from_str(text).expect("JSON");
    let names: Vec<&String> = state.as_object().expect("a map").keys().collect();
    assert_eq!(names, ["tuning|1.2.0"]);
}

#[test]
fn changes_of_single_packages_are_refused_where_the_state_is_malformed() {
    let cluster = TestCluster::from_capture("malformed-node-state");
    for command in [
        "reset gpu-tune --package driver",
        "package rerun driver --skyhook gpu-tune --all-nodes",
        "package retry driver --skyhook gpu-tune --all-nodes",
        "update-state gpu-tune driver 2.0.1 apply complete",
    ] {
        let ran = cluster.run(&format!("{command} --confirm"));
        let error = "error: the state of gpu-tune on node-1 cannot be read; nothing was changed\n\
                     hint: restore it first, or leave the node out: kubectl skyhook reset gpu-tune --unreadable\n";
        assert_eq!(ran.parts(), ("", error, Some(3)), "{command}");
    }
    assert_eq!(cluster.writes(), [""; 0]);
}

#[test]
fn malformed_state_is_reset() {
    let cluster = TestCluster::from_capture("malformed-node-state");
    let ran = cluster.run("reset gpu-tune --node node-1 --confirm --no-pause");
    ran.expect_code(0);
    assert_eq!(cluster.keys("node-1"), [""; 0]);
    ran.expect_stderr("the state on 1 node cannot be read");
}

#[test]
fn reset_of_a_deleted_custom_resource_cleans_and_uncordons_nodes() {
    let cluster = TestCluster::from_capture("finalizer-stripped");
    assert_eq!(cluster.fake.get("skyhooks", "", CR), None, "the custom resource is gone");
    let before = cluster.node("node-1");
    assert_eq!(before["spec"]["unschedulable"], json!(true));
    let ran = cluster.run("reset gpu-tune --confirm");
    ran.expect_code(0);
    for node in ["node-1", "node-2", "node-3"] {
        assert_eq!(cluster.keys(node), [""; 0], "{node}");
        let object = cluster.node(node);
        assert_eq!(object["spec"]["unschedulable"], Value::Null, "{node}");
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        assert!(
            conditions.iter().all(|c| !c["type"].as_str().unwrap_or_default().contains(CR)),
            "{conditions:?}"
        );
    }
}

#[test]
fn reset_of_an_unknown_name_is_no_error() {
    let cluster = TestCluster::from_capture("apply-erroring");
    let ran = cluster.run("reset gpu-tun --confirm");
    ran.expect_code(0);
    assert_eq!(ran.stdout, "");
    ran.expect_stderr("did you mean gpu-tune");
    let json = cluster.run("reset gpu-tun --confirm -o json");
    json.expect_code(0);
    assert_eq!(json.json()["counts"]["applied"], json!(0));
    assert_eq!(cluster.writes(), [""; 0]);
    let unknown_node = cluster.run("reset gpu-tune --node node-9 --confirm");
    unknown_node.expect_code(1);
    unknown_node.expect_stderr(r#"node "node-9" not found"#);
}

#[test]
fn selector_that_matches_no_node_is_reported() {
    let cluster = TestCluster::from_capture("apply-erroring");
    for selection in ["-l no=such", "--node node-1 -l no=such"] {
        let ran = cluster.run(&format!("reset gpu-tune {selection} --confirm"));
        ran.expect_code(0);
        ran.expect_stderr("warning: no selected node matches -l, so no node is reset");
    }
    let ran = cluster.run("reset gpu-tune -l no=such --reset-batches --confirm");
    ran.expect_code(0);
    ran.expect_stderr("warning: no selected node matches -l");
    ran.expect_stdout("reset the batches of gpu-tune: 1 changed");
}
