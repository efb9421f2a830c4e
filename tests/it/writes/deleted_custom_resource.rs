//! The custom resource is deleted while a plan is applied.

use serde_json::json;

use super::{CR, TestCluster};
use crate::support::fake_api::State;

fn delete_custom_resource(state: &mut State) {
    state.store.forget("skyhooks", "", CR);
}

#[test]
fn reset_succeeds_if_the_custom_resource_is_deleted_meanwhile() {
    let cluster = TestCluster::from_capture("apply-erroring");
    // Deleted with the patch of the last node, before the batch state is reset.
    cluster.fake.on("PATCH nodes").nth(3).after(delete_custom_resource);
    let ran = cluster.run("reset gpu-tune --confirm --no-pause --max-parallel 1");
    ran.expect_code(0);
    assert!(ran.stdout.starts_with("reset gpu-tune on 3 nodes: 3 changed, 1 gone\n"), "{}", ran.transcript());
    let warning = "warning: skyhook/gpu-tune was deleted in the meantime; skipped: the rollout starts again from the first batch\n";
    ran.expect_stderr(warning);
    for node in ["node-1", "node-2", "node-3"] {
        assert_eq!(cluster.keys(node), [""; 0]);
    }
    // The journal records the deletion, and `undo` restores the nodes.
    let show = cluster.run("journal show");
    show.expect_code(0);
    show.expect_stdout("skyhook/gpu-tune  gone");
    cluster.run("undo --confirm").expect_code(0);
    assert_eq!(cluster.keys("node-2").len(), 4);
}

#[test]
fn missing_resume_target_is_no_failure() {
    let cluster = TestCluster::from_capture("apply-erroring");
    cluster.fake.on("PATCH nodes").nth(3).after(delete_custom_resource);
    let ran = cluster.with_operator(|| cluster.run("reset gpu-tune --confirm --max-parallel 1 -o json"));
    ran.expect_code(0);
    let counts = json!({
        "applied": 3, "unchanged": 0, "gone": 1, "kept": 0, "skipped": 0, "failed": 0, "unknown": 0, "notReached": 0
    });
    assert_eq!(ran.json()["counts"], counts);
    ran.expect_stderr("skipped: the rollout starts again from the first batch\n");
}

/// A recreated object with the same name is not the object of the plan.
#[test]
fn recreated_custom_resource_is_not_written() {
    let cluster = TestCluster::from_capture("apply-erroring");
    cluster.fake.on("PATCH nodes").nth(3).after(|state| {
        let mut cr = state.store.find("skyhooks", "", CR).cloned().expect("the custom resource exists");
        cr["metadata"]["uid"] = json!("another");
        state.store.load(cr);
    });
    let ran = cluster.run("reset gpu-tune --confirm --no-pause --max-parallel 1 -o json");
    ran.expect_code(0);
    assert_eq!(ran.json()["counts"]["gone"], json!(1));
    assert_eq!(cluster.writes().len(), 3);
}

/// A reset of batches alone has nothing to do without the custom resource.
#[test]
fn dp_reset_fails_if_the_custom_resource_is_deleted() {
    let cluster = TestCluster::from_capture("rollout-stopped");
    cluster.fake.on("GET skyhooks").nth(1).after(delete_custom_resource);
    let ran = cluster.run("dp reset gpu-tune --confirm");
    assert_ne!(ran.code, Some(0), "{}", ran.transcript());
}
