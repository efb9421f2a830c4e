//! Faults of resetting batch state.

use serde_json::{Value, json};

use super::{TestCluster, driver, with_operator_keys};
use crate::dropin::SKYHOOK;
use crate::support::fake_api::FakeApi;

/// A stopped rollout.
fn stopped() -> Value {
    let mut cr = SKYHOOK.skyhook("complete", driver());
    cr["status"]["nodeOrderOffset"] = json!(7);
    cr["status"]["nodePriority"] = json!({"node-1": "2026-11-20T11:00:00Z"});
    cr["status"]["compartmentStatuses"] = json!({
        "b": {"matched": 9, "batchState": {
            "currentBatch": 4, "consecutiveFailures": 3, "completedNodes": 5, "failedNodes": 6,
            "shouldStop": true, "lastBatchSize": 8, "lastBatchFailed": true,
        }},
        "a": {"matched": 1},
    });
    cr
}

fn cluster() -> TestCluster {
    let fake = FakeApi::new().serving(SKYHOOK.0).with(stopped());
    TestCluster::serving(fake.with(SKYHOOK.operator()).with(SKYHOOK.node("node-1", "", &[])))
}

fn fresh() -> Value {
    json!({
        "currentBatch": 1, "consecutiveFailures": 0, "completedNodes": 0, "failedNodes": 0,
        "shouldStop": false, "lastBatchSize": 0, "lastBatchFailed": false,
    })
}

#[test]
fn b1_dp_reset_clears_batch_state() {
    for command in ["dp reset gpu -y", "reset gpu -y"] {
        let cluster = cluster();
        cluster.run_ok(command);
        let compartments = &cluster.gpu()["status"]["compartmentStatuses"];
        assert_eq!(compartments["b"]["batchState"], fresh(), "{command}");
        assert_eq!(compartments["b"]["matched"], json!(9));
    }
}

#[test]
fn b2_concurrent_operator_writes_are_kept() {
    let cluster = cluster();
    cluster.fake.on("PATCH skyhooks/status").nth(1).after(|state| {
        let mut cr = state.store.find("skyhooks", "", "gpu").cloned().expect("the custom resource exists");
        cr["status"]["status"] = json!("in_progress");
        cr["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
        cr["status"]["compartmentStatuses"]["b"]["completed"] = json!(2);
        cr["status"]["nodeOrderOffset"] = json!(9);
        cr["metadata"]["resourceVersion"] = json!("900");
        state.store.load(cr);
    });
    cluster.run_ok("dp reset gpu -y");
    let status = &cluster.gpu()["status"];
    assert_eq!(status["status"], json!("in_progress"));
    assert_eq!(status["conditions"][0]["type"], json!("Ready"));
    assert_eq!(status["compartmentStatuses"]["b"]["completed"], json!(2));
    assert_eq!(status["nodeOrderOffset"], json!(0));
    assert_eq!(status["compartmentStatuses"]["b"]["batchState"], fresh());
}

#[test]
fn b3_node_priority_is_reset_with_and_without_compartments() {
    for compartments in [true, false] {
        let mut cr = stopped();
        if !compartments {
            cr["status"]["compartmentStatuses"] = json!({});
        }
        let fake = FakeApi::new().serving(SKYHOOK.0).with(cr).with(SKYHOOK.operator());
        let cluster = TestCluster::serving(fake);
        cluster.run_ok("dp reset gpu -y");
        let status = &cluster.gpu()["status"];
        assert_eq!(status["nodeOrderOffset"], json!(0));
        assert_eq!(status["nodePriority"], Value::Null);
    }
}

#[test]
fn b4_batches_are_reset_without_node_state() {
    let cluster = cluster();
    cluster.run_ok("reset gpu -y");
    let status = &cluster.gpu()["status"];
    assert_eq!(status["compartmentStatuses"]["b"]["batchState"], fresh());
    assert_eq!(status["nodeOrderOffset"], json!(0));
}

#[test]
fn b5_batches_are_reset_in_one_patch_that_can_fail() {
    let cluster = cluster();
    cluster.run_ok("dp reset gpu -y");
    assert_eq!(cluster.patched_paths().len(), 1);

    let entries = ["driver|1.0.0 config complete"];
    let fake = FakeApi::new().serving(SKYHOOK.0).with(stopped());
    let node = with_operator_keys("node-1", "complete", &entries);
    let cluster = TestCluster::serving(fake.with(SKYHOOK.operator()).with(node));
    cluster.fake.on("PATCH skyhooks/status").reply(422);
    let ran = cluster.run("reset gpu -y");
    ran.expect_code(4);
    let alone = cluster.run("dp reset gpu -y");
    alone.expect_code(1);
}

#[test]
fn b6_compartments_are_sorted_and_errors_printed_once() {
    let cluster = cluster();
    let first = cluster.ok("dp reset gpu --dry-run --diff").stdout;
    for _ in 0..4 {
        assert_eq!(cluster.ok("dp reset gpu --dry-run --diff").stdout, first);
    }
    let ran = cluster.run("dp reset nope -y");
    assert_eq!(ran.parts(), ("", "error: Skyhook \"nope\" not found\nhint: existing: gpu\n", Some(1)));
}

#[test]
fn b7_help_says_the_name_is_a_custom_resource() {
    let cluster = cluster();
    let help = cluster.ok("dp reset -h").stdout;
    assert!(help.contains("The custom resource, not the policy"), "{help}");
}

#[test]
fn b8_operator_without_policies_gives_a_warning() {
    let mut operator = SKYHOOK.operator();
    operator["spec"]["template"]["spec"]["containers"][0]["image"] =
        json!("ghcr.io/nvidia/skyhook/operator:v0.7.6");
    let fake = FakeApi::new().serving(SKYHOOK.0).with(stopped());
    let old = TestCluster::serving(fake.with(operator)).ok("dp reset gpu --dry-run");
    old.expect_stdout("older than v0.8.0");
    let new = cluster().ok("dp reset gpu --dry-run");
    new.expect_no_stdout("v0.8.0");
}
