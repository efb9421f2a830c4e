//! Faults of pausing and disabling.

use serde_json::{Value, json};

use super::{TestCluster, complete_cluster, driver};
use crate::dropin::SKYHOOK;
use crate::support::fake_api::FakeApi;

fn noting(version: &str) -> Value {
    let mut cr = SKYHOOK.skyhook("complete", driver());
    cr["metadata"]["annotations"] = json!({SKYHOOK.0.key("version"): version});
    cr
}

#[test]
fn v1_stale_version_annotation_does_not_block_pause() {
    for verb in ["pause", "disable"] {
        let fake = FakeApi::new().serving(SKYHOOK.0).with(noting("v0.7.3"));
        let cluster = TestCluster::serving(fake.with(SKYHOOK.operator()));
        cluster.run_ok(&format!("{verb} gpu -y"));
        assert_eq!(cluster.gpu_annotation(verb), json!("true"));
    }
}

#[test]
fn v1_old_operator_gives_a_warning() {
    let mut operator = SKYHOOK.operator();
    operator["spec"]["template"]["spec"]["containers"][0]["image"] =
        json!("ghcr.io/nvidia/skyhook/operator:v0.7.6");
    let fake = FakeApi::new().serving(SKYHOOK.0).with(noting("v0.7.6"));
    let cluster = TestCluster::serving(fake.with(operator));
    let ran = cluster.ok("pause gpu -y");
    assert_eq!(cluster.gpu_annotation("pause"), json!("true"));
    ran.expect_stderr("older than v0.8.0");
}

#[test]
fn v2_prerelease_operator_is_accepted() {
    let mut operator = SKYHOOK.operator();
    operator["spec"]["template"]["spec"]["containers"][0]["image"] =
        json!("ghcr.io/nvidia/skyhook/operator:v0.8.0-rc.1");
    let fake = FakeApi::new().serving(SKYHOOK.0).with(noting("v0.8.0-rc.1"));
    let cluster = TestCluster::serving(fake.with(operator));
    let ran = cluster.ok("disable gpu -y");
    ran.expect_no_stderr("v0.8.0");
    assert_eq!(cluster.gpu_annotation("disable"), json!("true"));
}

#[test]
fn v3_pause_works_without_reading_deployments_or_pods() {
    for reply in [403, 500] {
        let cluster = TestCluster::serving(complete_cluster(driver()));
        cluster.fake.on("LIST deployments").reply(reply);
        cluster.fake.on("LIST pods").reply(reply);
        cluster.run_ok("pause gpu -y");
        assert_eq!(cluster.gpu_annotation("pause"), json!("true"));
    }
}

#[test]
fn v4_output_tells_changes_and_remaining_blockers() {
    let cluster = TestCluster::serving(complete_cluster(driver()));
    let changed = cluster.ok("pause gpu -y");
    assert!(changed.stdout.starts_with("pause gpu: 1 changed\n"), "{}", changed.transcript());
    let again = cluster.ok("pause gpu -y");
    assert_eq!((again.stdout.as_str(), again.stderr.as_str()), ("", "pause gpu: nothing to do\n"));
    cluster.run_ok("disable gpu -y");
    let resumed = cluster.ok("resume gpu");
    resumed.expect_stderr(
        "skyhook/gpu is disabled as well: nothing runs until you run `kubectl skyhook enable gpu`",
    );
}

/// The editor role of the chart grants less than the commands need.
#[test]
fn v5_missing_permission_is_reported_before_any_write() {
    for (denied, words, says) in [
        ("PATCH nodes", "reset gpu -y", "missing permission: patch nodes; nothing was changed"),
        (
            "PATCH skyhooks/status",
            "reset gpu -y",
            "missing permission: patch skyhooks/status.skyhook.nvidia.com; nothing was changed",
        ),
        ("PATCH nodes", "node ignore node-1 -y", "missing permission: patch nodes; nothing was changed"),
        (
            "PATCH nodes",
            "package rerun driver --skyhook gpu --node node-1 -y",
            "missing permission: patch nodes; nothing was changed",
        ),
    ] {
        let cluster = TestCluster::with_complete_nodes(&["node-1"]);
        cluster.fake.on(denied).reply(403);
        let ran = cluster.run(words);
        ran.expect_code(1);
        ran.expect_stderr(says);
        ran.expect_stderr("kubectl auth can-i patch");
        assert_eq!(cluster.patched_paths(), [""; 0]);
    }
}
