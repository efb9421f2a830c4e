//! Limits apply to every kind of change, and flags without effect are refused.

use insta::assert_snapshot;
use serde_json::json;

use super::TestCluster;
use crate::support::run::run;

#[test]
fn max_nodes_counts_nodes_on_which_work_starts() {
    let cluster = TestCluster::from_capture("uninstall-complete");
    for words in ["teardown --timeout 1s -y", "teardown --dry-run", "teardown --dry-run=server"] {
        let ran = cluster.run(&format!("{words} --max-nodes 0"));
        ran.expect_code(3);
        ran.expect_stderr("--max-nodes allows 0; nothing was changed");
    }
    let cluster = TestCluster::from_capture("complete");
    let ran = cluster.run("uninstall gpu-tune driver --enable --max-nodes 2 -y");
    ran.expect_code(3);
    assert_snapshot!(ran.transcript());
    let paused = TestCluster::from_capture("apply-erroring");
    paused.run("pause gpu-tune -y").expect_code(0);
    let before = paused.writes();
    let ran = paused.run("resume gpu-tune --max-nodes 0");
    ran.expect_code(3);
    assert_snapshot!(ran.transcript());
    assert_eq!((cluster.writes(), paused.writes()), (Vec::new(), before));
}

#[test]
fn canary_and_max_failures_without_nodes_are_refused() {
    let cluster = TestCluster::from_capture("complete");
    for words in ["pause gpu-tune --canary 1 -y", "pause gpu-tune --max-failures 1 -y"] {
        let ran = cluster.run(words);
        ran.expect_code(64);
        assert_snapshot!(ran.transcript());
    }
    assert_eq!(cluster.writes(), [""; 0]);
    // With nothing to do, the flag is accepted.
    cluster.run("resume gpu-tune --canary 1").expect_code(0);
}

#[test]
fn server_dry_run_is_refused_for_files() {
    let from = "--from tests/clusters/complete";
    for words in ["pause gpu-tune", "teardown"] {
        let ran = run(&format!("{words} --dry-run=server {from}")).output();
        ran.expect_code(64);
        assert_eq!(
            (ran.stdout.as_str(), ran.stderr.as_str()),
            ("", "error: --dry-run=server cannot be used with --from\n")
        );
    }
}

#[test]
fn empty_plan_is_a_plan_without_steps() {
    let cluster = TestCluster::from_capture("complete");
    let live = cluster.run("resume gpu-tune --dry-run -o json");
    let files = run("resume gpu-tune -o json --from tests/clusters/complete").output();
    for ran in [live, files] {
        ran.expect_code(0);
        assert_eq!(ran.json()["kind"], "Plan", "{}", ran.transcript());
        assert_eq!(ran.json()["steps"], json!([]));
    }
    let done = cluster.run("resume gpu-tune -o json");
    assert_eq!(done.json()["kind"], "Outcome", "{}", done.transcript());
}
