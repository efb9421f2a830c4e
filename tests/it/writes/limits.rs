//! Limits apply to every kind of change, and flags without effect are refused.

use insta::assert_snapshot;
use serde_json::json;

use super::TestCluster;
use crate::support::object_builder::SKYHOOK;
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

/// Packages on different nodes: the limit counts the union of the nodes.
#[test]
fn max_nodes_counts_the_nodes_of_all_packages() {
    let package = |name: &str| {
        json!({
            "version": "1.0.0", "image": format!("example.com/{name}"), "uninstall": {"enabled": true, "apply": false},
        })
    };
    let fake = SKYHOOK
        .serve(json!({"driver": package("driver"), "tuning": package("tuning")}))
        .with(SKYHOOK.node("node-1", "in_progress", &["driver|1.0.0 config complete"]))
        .with(SKYHOOK.node("node-2", "in_progress", &["tuning|1.0.0 config complete"]))
        .with(SKYHOOK.node("node-3", "in_progress", &["tuning|1.0.0 config complete"]));
    let cluster = TestCluster::serving(fake);
    let ran = cluster.run("teardown --timeout 1s -y --max-nodes 2");
    ran.expect_code(3);
    assert_eq!(
        ran.stderr,
        "error: the plan would start work on 3 nodes, but --max-nodes allows 2; nothing was changed\n"
    );
    assert_eq!(cluster.writes(), [""; 0]);
    assert_eq!(cluster.run("teardown --dry-run -o json").json()["consequences"]["nodes"], 3);
}

/// The limit counts the nodes that start work because of a plan, beside those that it changes.
#[test]
fn max_nodes_counts_nodes_that_are_freed_and_all_merged_plans() {
    for (words, plan, does) in [
        (
            "node ignore gpu-1 --max-nodes 1",
            "node-ignore-gives-up-a-slot",
            "touch or start work on 2 nodes, but --max-nodes allows 1",
        ),
        (
            "fix --up-to B4 --max-nodes 3",
            "fix-of-two-custom-resources",
            "start work on 4 nodes, but --max-nodes allows 3",
        ),
    ] {
        let ran = run(&format!("{words} --dry-run --from tests/plans/{plan}/before.yaml")).output();
        assert_eq!(
            (ran.stderr, ran.code),
            (format!("error: the plan would {does}; nothing was changed\n"), Some(3))
        );
    }
}

/// The operator sets the pace of changes to custom resources.
#[test]
fn changes_without_nodes_have_no_flags_for_their_pace() {
    let cluster = TestCluster::from_capture("complete");
    for command in [
        "pause gpu-tune",
        "resume gpu-tune",
        "disable gpu-tune",
        "enable gpu-tune",
        "uninstall gpu-tune driver",
    ] {
        for flag in ["--canary 1", "--max-failures 1"] {
            let ran = cluster.run(&format!("{command} {flag} -y"));
            ran.expect_code(64);
            ran.expect_stderr("unexpected argument");
        }
    }
    assert_eq!(cluster.writes(), [""; 0]);
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
