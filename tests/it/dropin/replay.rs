//! The calls of upstream's own end-to-end suites, without a terminal, and their expected effects.

use serde_json::{Value, json};

use super::{TestCluster, complete_cluster, driver, with_operator_keys};
use crate::dropin::SKYHOOK;
use crate::support::fake_api::FakeApi;
use crate::support::object_builder::PackageRun;

/// A cluster with a package in progress.
fn in_progress(status: &str) -> TestCluster {
    let node = with_operator_keys("node-1", status, &["driver|1.0.0 apply in_progress"]);
    let fake = SKYHOOK.serve(driver()).with(node);
    TestCluster::serving(fake).simulating_operator()
}

#[test]
fn upstream_cli_lifecycle_suite() {
    let cluster = in_progress("in_progress");
    cluster.run_ok("pause gpu --confirm");
    assert_eq!(cluster.gpu_annotation("pause"), json!("true"));
    // Upstream's suite confirms neither `resume` nor `enable`, and asserts only that they do not fail.
    cluster.run_ok("resume gpu");
    assert_eq!(cluster.gpu_annotation("pause"), json!("true"));
    cluster.run_ok("disable gpu --confirm");
    assert_eq!(cluster.gpu_annotation("disable"), json!("true"));
    cluster.run_ok("enable gpu");
    assert_eq!(cluster.gpu_annotation("disable"), json!("true"));
    cluster.run_ok("pause gpu --confirm");
    cluster.run_ok("disable gpu --confirm");
    assert_eq!(cluster.gpu_annotation("pause"), json!("true"));
    assert_eq!(cluster.gpu_annotation("disable"), json!("true"));
    cluster.run_ok("resume gpu");
    assert_eq!(cluster.gpu_annotation("disable"), json!("true"));
    cluster.run_ok("enable gpu");
}

#[test]
fn upstream_cli_node_suite() {
    let cluster = in_progress("in_progress");
    for words in [
        "node list --skyhook gpu",
        "node list --skyhook gpu -o json",
        "node status node-1",
        "node status node-1 --skyhook gpu",
        "node status node-1 -o json",
    ] {
        cluster.run_ok(words);
    }
    // The suite does not confirm these commands, and upstream runs both.
    cluster.run_ok("node ignore node-1");
    assert_eq!(cluster.node_label("node-1", "ignore"), json!("true"));
    // `unignore` needs a confirmation: packages would run again.
    assert_eq!(cluster.run("node unignore node-1").code, Some(3));
    cluster.run_ok("node unignore node-1 -y");
    assert_eq!(cluster.node_label("node-1", "ignore"), Value::Null);
    cluster.run_ok("node reset node-1 --skyhook gpu --confirm");
    assert_eq!(cluster.node_state("node-1"), Value::Null);
    assert_eq!(cluster.gpu_annotation("pause"), Value::Null);
}

#[test]
fn upstream_cli_node_suite_before_the_operator_starts() {
    let cluster = TestCluster::serving(
        FakeApi::new()
            .serving(SKYHOOK.0)
            .with({
                let mut cr = SKYHOOK.skyhook("", driver());
                cr.as_object_mut().expect("an object").remove("status");
                cr
            })
            .with(SKYHOOK.operator())
            .with(SKYHOOK.node("node-1", "", &[])),
    );
    for words in [
        "node list --skyhook gpu",
        "node list --skyhook gpu -o json",
        "node status node-1 -o json",
        "node reset node-1 --skyhook gpu --confirm",
        "reset gpu --confirm",
        "package status driver --skyhook gpu",
        "package status driver --skyhook gpu -o json",
        "package logs driver --skyhook gpu --node node-1",
    ] {
        cluster.run_ok(words);
    }
    assert_eq!(cluster.patched_paths(), [""; 0]);
}

#[test]
fn upstream_cli_package_suite() {
    let pod = SKYHOOK.pod(
        "gpu-driver",
        &PackageRun::default(),
        "Pending",
        &["driver-init waiting:PodInitializing"],
    );
    let node = with_operator_keys("node-1", "complete", &["driver|1.0.0 config complete"]);
    let cluster = TestCluster::serving(complete_cluster(driver()).with(node).with(pod)).simulating_operator();
    cluster.run_ok("package logs driver --skyhook gpu --node node-1");
    cluster.run_ok("package rerun driver --skyhook gpu --node node-1 --dry-run");
    assert_eq!(cluster.patched_paths(), [""; 0]);
    cluster.run_ok("package rerun driver --skyhook gpu --node node-1 --stage apply --confirm");
    let entry = &cluster.node_state("node-1")["driver|1.0.0"];
    assert_eq!((&entry["stage"], &entry["state"]), (&json!("apply"), &json!("in_progress")));
    assert_eq!(cluster.gpu_annotation("pause"), Value::Null);
}

#[test]
fn upstream_cli_reset_suite() {
    let mut node = with_operator_keys("node-1", "complete", &["driver|1.0.0 config complete"]);
    node["metadata"]["annotations"][SKYHOOK.0.key("cordon_other")] = json!("true");
    let cluster = TestCluster::serving(complete_cluster(driver()).with(node));
    assert_eq!(cluster.gpu()["status"]["nodeOrderOffset"], Value::Null);
    cluster.run_ok("disable gpu --confirm");
    assert_eq!(cluster.gpu_annotation("disable"), json!("true"));
    cluster.run_ok("reset gpu --confirm");
    for key in ["nodeState_gpu", "cordon_gpu", "status_gpu", "version_gpu"] {
        assert_eq!(cluster.node_annotation("node-1", key), Value::Null, "{key}");
    }
    assert_eq!(cluster.node_label("node-1", "status_gpu"), Value::Null);
    assert_eq!(cluster.node_annotation("node-1", "cordon_other"), json!("true"));
    assert_eq!(cluster.gpu()["status"]["nodeOrderOffset"], json!(0));
}

#[test]
fn upstream_cli_deployment_policy_reset_suite() {
    let mut cr = SKYHOOK.skyhook("complete", driver());
    cr["status"]["compartmentStatuses"] =
        json!({"__default__": {"progressPercent": 100, "batchState": {"currentBatch": 3}}});
    let fake = FakeApi::new().serving(SKYHOOK.0).with(cr).with(SKYHOOK.operator()).with(with_operator_keys(
        "node-1",
        "complete",
        &["driver|1.0.0 config complete"],
    ));
    let cluster = TestCluster::serving(fake);
    cluster.run_ok("deployment-policy reset gpu --confirm");
    let compartment = &cluster.gpu()["status"]["compartmentStatuses"]["__default__"];
    assert_eq!(compartment["batchState"]["currentBatch"], json!(1));
    assert_eq!(compartment["progressPercent"], json!(100));
}

#[test]
fn reset_before_and_after_upstream_suites() {
    // Reset before the object exists, as in reap_old_logs, which checks the result.
    let cluster = TestCluster::serving(FakeApi::new().serving(SKYHOOK.0).with(SKYHOOK.operator()));
    cluster.run_ok("reset gpu --confirm");
    // Reset after the object was deleted.
    let cluster = TestCluster::serving(
        FakeApi::new().serving(SKYHOOK.0).with(SKYHOOK.operator()).with(with_operator_keys(
            "node-1",
            "complete",
            &["driver|1.0.0 config complete"],
        )),
    );
    cluster.run_ok("reset gpu --confirm");
    assert_eq!(cluster.node_state("node-1"), Value::Null);
    // Reset during a rollout.
    let cluster = in_progress("in_progress");
    cluster.run_ok("reset gpu --confirm");
    assert_eq!(cluster.node_state("node-1"), Value::Null);
    assert_eq!(cluster.gpu_annotation("pause"), Value::Null);
}
