//! Commands that are repeated after all or almost all of their work is done: they exit with 0.

use std::path::Path;

use kubectl_skyhook::api::ApiFlavor;
use serde_json::json;

use super::TestCluster;
use crate::support::fake_api::FakeApi;
use crate::support::run::Child;

/// The canary is killed after all nodes are reset: the remaining steps change no node.
#[test]
fn killed_canary_is_finished_by_repeating_the_command() {
    let cluster = TestCluster::captured_with_operator("apply-erroring");
    let reset = "reset gpu-tune --canary 1 --pause-between 100ms --max-failures 3 --max-parallel 1 --confirm";
    let child = Child::default();
    let last = cluster.fake.on("PATCH nodes node-3");
    last.after(child.kill());
    let killed = cluster.with_operator(|| cluster.command(reset).child(&child).output());
    assert_eq!(killed.code, None, "{}", killed.transcript());
    cluster.fake.heal();
    for node in ["node-1", "node-2", "node-3"] {
        assert_eq!(cluster.keys(node), [""; 0]);
    }
    assert_eq!(cluster.cr_annotation("pause"), json!("true"));

    let again = cluster.with_operator(|| cluster.run(reset));
    again.expect_code(0);
    assert_eq!(cluster.cr_annotation("pause"), json!(null));
    let once_more = cluster.with_operator(|| cluster.run(reset));
    once_more.expect_code(0);
    once_more.expect_stderr("nothing to do");
}

/// The only remaining step is the restart of the batches.
#[test]
fn canary_is_accepted_where_only_batches_are_left() {
    let cluster = TestCluster::from_capture("apply-erroring");
    let mut cr = cluster.cr().expect("the custom resource exists");
    cr["status"]["nodeOrderOffset"] = json!(2);
    cluster.fake.load(cr);
    cluster.run("reset gpu-tune --skip-batch-reset --no-pause --confirm").expect_code(0);
    let ran = cluster.run("reset gpu-tune --canary 1 --no-pause --confirm");
    ran.expect_code(0);
    ran.expect_stdout("reset the batches of gpu-tune: 1 changed");
    let mut cr = cluster.cr().expect("the custom resource exists");
    assert_eq!(cr["status"]["nodeOrderOffset"], json!(0));
    // `--canary` is refused for a restart of batches alone, whose pace the operator sets.
    cr["status"]["nodeOrderOffset"] = json!(2);
    cluster.fake.load(cr);
    let policy = cluster.run("deployment-policy reset gpu-tune --canary 1 --confirm");
    policy.expect_code(64);
    let cr = cluster.cr().expect("the custom resource exists");
    assert_eq!(cr["status"]["nodeOrderOffset"], json!(2), "{}", policy.transcript());
}

/// Explicit zeros have the same meaning for the operator as absent fields.
#[test]
fn defaults_made_explicit_do_not_count_as_a_change() {
    let cluster = TestCluster::from_capture("apply-erroring");
    let mut cr = cluster.cr().expect("the custom resource exists");
    cr["status"] = json!({"status": "in_progress"});
    cluster.fake.load(cr);
    let ran = cluster.run("reset gpu-tune --no-pause --confirm -o json");
    ran.expect_code(0);
    let steps = ran.json()["steps"].as_array().expect("steps").clone();
    let status = steps.iter().find(|step| step["target"] == "skyhook/gpu-tune");
    let status = status.expect("the batches are reset");
    assert_eq!(
        (&status["changes"][0], &status["result"]),
        (&json!("only writes defaults that already apply"), &json!("unchanged")),
        "{status:#}"
    );
    assert_eq!(ran.json()["counts"]["applied"], json!(3));
}

#[test]
fn retry_is_repeated() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clusters");
    let fake = FakeApi::new().serving(ApiFlavor::NodeWright);
    fake.load_file(&directory.join("modelled-job-given-up/cluster.json"));
    let cluster = TestCluster::serving(fake);
    let retry = "package retry driver --skyhook gpu --node node-2 --confirm";
    cluster.run(retry).expect_code(0);
    let writes = cluster.writes();
    let again = cluster.run(retry);
    let says = "no stage of driver has failed permanently on node-2: nothing to do\n";
    assert_eq!(again.code, Some(0), "{}", again.transcript());
    again.expect_stderr(says);
    assert_eq!(cluster.writes(), writes);
}
