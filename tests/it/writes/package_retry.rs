//! `package retry`: failed Jobs of the newer operator, and the rollouts that they stopped.

use std::path::Path;

use kubectl_skyhook::api::ApiFlavor;
use serde_json::json;

use super::TestCluster;
use crate::support::fake_api::FakeApi;
use crate::support::object_builder::{NODEWRIGHT, PackageRun};

#[test]
fn retry_deletes_only_the_failed_job() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clusters");
    let fake = FakeApi::new().serving(ApiFlavor::NodeWright);
    fake.load_file(&directory.join("modelled-job-given-up/cluster.json"));
    let cluster = TestCluster::serving(fake);
    let before = cluster.fake.objects().len();
    let ran = cluster.run("package retry driver --skyhook gpu --all-nodes --confirm");
    ran.expect_code(0);
    // `undo` is not offered, since it cannot recreate a deleted Job.
    ran.expect_no_stdout("undo");
    let job = "/apis/batch/v1/namespaces/nodewright/jobs/gpu-driver-2-0-1-apply-node-2";
    assert_eq!(cluster.writes(), [format!("DELETE {job}")], "{}", ran.transcript());
    assert_eq!(cluster.fake.objects().len(), before - 1);
}

/// A cluster in an upgrade: the node state has the old version, too, and the Job of the new version has
/// failed permanently.
fn failed_upgrade(deleting: bool) -> TestCluster {
    let packages = json!({"driver": {
        "version": "1.0.0", "image": "example.com/driver", "uninstall": {"enabled": true, "apply": false},
    }});
    let mut skyhook = NODEWRIGHT.skyhook("erroring", packages);
    if deleting {
        skyhook["metadata"]["deletionTimestamp"] = json!("2026-11-20T11:30:00Z");
    }
    let upgrade = PackageRun { stage: "upgrade", job: Some("gpu-driver-upgrade"), ..PackageRun::default() };
    let failed = json!({"failed": 2, "conditions": [
        {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"},
    ]});
    let entries = ["driver|0.9.0 config complete", "driver|1.0.0 upgrade erroring"];
    let fake = FakeApi::new().serving(ApiFlavor::NodeWright);
    for object in [
        skyhook,
        NODEWRIGHT.operator(),
        NODEWRIGHT.node("node-1", "erroring", &entries),
        NODEWRIGHT.job(&upgrade, failed),
    ] {
        fake.load(object);
    }
    TestCluster::serving(fake)
}

const FAILED_JOB: &str = "DELETE /apis/batch/v1/namespaces/nodewright/jobs/gpu-driver-upgrade";
const RETRY: &str = "package retry driver --skyhook gpu --node node-1";

#[test]
fn printed_retry_of_a_failed_upgrade_deletes_the_job_of_the_new_version() {
    let cluster = failed_upgrade(false);
    let found = cluster.run("diagnose stuck gpu");
    found.expect_stdout(format!("kubectl skyhook {RETRY}"));
    cluster.run(&format!("{RETRY} --confirm")).expect_code(0);
    assert_eq!(cluster.writes(), [FAILED_JOB]);
    let cluster = failed_upgrade(false);
    cluster.run("fix --up-to B2 --confirm").expect_code(0);
    assert_eq!(cluster.writes(), [FAILED_JOB]);
}

#[test]
fn retry_of_a_failed_upgrade_in_a_deletion_deletes_the_job_as_well() {
    let cluster = failed_upgrade(true);
    let ran = cluster.run(&format!("{RETRY} --confirm"));
    ran.expect_code(0);
    assert_eq!(cluster.writes(), ["PATCH /api/v1/nodes/node-1", FAILED_JOB]);
}

/// The operator does not work on packages that the deletion does not wait for, so a retry writes nothing.
#[test]
fn retry_in_a_deletion_changes_nothing_that_the_deletion_does_not_wait_for() {
    let cluster = failed_upgrade(true);
    let mut node = cluster.node("node-1");
    let key = kubectl_skyhook::api::keys::node_state(ApiFlavor::NodeWright, "gpu");
    let old = NODEWRIGHT.node("node-1", "erroring", &["driver|0.9.0 config complete"]);
    node["metadata"]["annotations"][&key] = old["metadata"]["annotations"][&key].clone();
    cluster.fake.load(node);
    let ran = cluster.run(&format!("{RETRY} --confirm"));
    assert_eq!(
        ran.parts(),
        ("", "no stage of driver has failed permanently on node-1: nothing to do\n", Some(0))
    );
    assert_eq!(cluster.writes(), [""; 0]);
}

/// A rollout whose first batch has failed, with a policy that allows no failure.
fn stopped_rollout() -> TestCluster {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clusters");
    let fake = FakeApi::new().serving(ApiFlavor::NodeWright);
    fake.load_file(&directory.join("nodewright-rollout-stopped-by-policy/cluster.json"));
    TestCluster::serving(fake)
}

const NODE: &str = "PATCH /api/v1/nodes/policy-1";

/// The request that resets the batches, which are in the status.
fn batches() -> String {
    let api = ApiFlavor::NodeWright.api_version();
    format!("PATCH /apis/{api}/nodewrights/policy/status")
}

#[test]
fn retry_in_a_stopped_rollout_restarts_the_batches_once_the_job_is_gone() {
    let job = "DELETE /apis/batch/v1/namespaces/nodewright/jobs/policy-alpha-1-0-0-apply-policy-1-f8f95b38";
    for words in ["package retry alpha --skyhook policy --node policy-1", "fix --up-to B2"] {
        let cluster = stopped_rollout();
        let ran = cluster.run(&format!("{words} --confirm"));
        ran.expect_code(0);
        ran.expect_stderr(
            "the rollout of nodewright/policy is stopped; this command restarts its batches, which also affects other nodes",
        );
        assert_eq!(cluster.writes(), [NODE, job, &batches()], "{}", ran.transcript());
        let policy = cluster.fake.get("nodewrights", "", "policy").expect("the custom resource exists");
        let batch = &policy["status"]["compartmentStatuses"]["__default__"]["batchState"];
        assert_eq!(batch["shouldStop"], json!(false));
    }
}

/// If the failed Job was deleted, the package only has to run again.
#[test]
fn fix_reruns_the_package_and_restarts_the_batches_in_one_plan() {
    let cluster = stopped_rollout();
    cluster.fake.change(|state| {
        let job = "policy-alpha-1-0-0-apply-policy-1-f8f95b38";
        state.store.forget("jobs", "nodewright", job);
        for pod in ["g8xwl", "ns48t"] {
            state.store.forget("pods", "nodewright", &format!("{job}-{pod}"));
        }
    });
    let ran = cluster.run("fix --up-to B2 --no-pause --confirm");
    ran.expect_code(0);
    assert_eq!(cluster.writes(), [NODE, NODE, &batches()], "{}", ran.transcript());
}
