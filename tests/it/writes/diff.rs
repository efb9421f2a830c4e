//! `--diff`.

use super::TestCluster;

/// The result of a server dry run is on stdout, and the diff on stderr.
#[test]
fn server_dry_run_shows_the_diff() {
    let cluster = TestCluster::from_capture("complete");
    let ran = cluster.run("pause gpu-tune --dry-run=server --diff");
    ran.expect_code(0);
    ran.expect_stderr("+++ skyhook/gpu-tune (planned)\n");
    ran.expect_no_stdout("+++");
}

#[test]
fn diff_does_not_break_json_output() {
    let cluster = TestCluster::from_capture("complete");
    let ran = cluster.run("pause gpu-tune --dry-run --diff -o json");
    ran.expect_code(0);
    assert_eq!(ran.json()["kind"], "Plan");
}
