//! The user's external diff program, called as kubectl calls it.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::TestCluster;
use crate::support::run::RunOutput;

impl TestCluster {
    /// Writes a diff program that prints its arguments and the content of the directories.
    fn differ(&self, ends: i32) -> PathBuf {
        let file = self.state.path().join("differ");
        let script = format!(
            "#!/bin/sh
live=$1 merged=$2; shift 2
echo \"$(basename $live | cut -c1-5) $(basename $merged | cut -c1-7) [$*]\"
echo \"files: $(ls $live $merged | grep -v : | sort -u | tr '\\n' ' ')$(ls $live | wc -l) $(ls $merged | wc -l)\"
cd $live && grep -H . * | sed 's/^/- /'
cd $merged && grep -H . * | sed 's/^/+ /'
echo $live > {}/directories
exit {ends}
",
            self.state.path().display()
        );
        std::fs::write(&file, script).expect("a file");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).expect("a mode");
        file
    }

    fn diff(&self, program: &str, words: &str) -> RunOutput {
        self.command(words).env("KUBECTL_EXTERNAL_DIFF", program).output()
    }
}

#[test]
fn external_diff_gets_before_and_after_directories() {
    let cluster = TestCluster::from_capture("complete");
    let differ = cluster.differ(1);
    let program = format!("{} -U5 --color=always $(rm) a;b", differ.display());
    let ran = cluster.diff(&program, "pause gpu-tune --reason look --dry-run --diff");
    ran.expect_code(0);
    let shown = "\
LIVE- MERGED- [-U5 --color=always]
files:  skyhook.nvidia.com.v1alpha1.Skyhook..gpu-tune 1 1
+ skyhook.nvidia.com.v1alpha1.Skyhook..gpu-tune:metadata.annotations.kubectl-skyhook/pause-reason: look
+ skyhook.nvidia.com.v1alpha1.Skyhook..gpu-tune:metadata.annotations.skyhook.nvidia.com/pause: true
";
    assert!(ran.stdout.ends_with(shown), "{}", ran.transcript());
    ran.expect_no_stdout("--- skyhook/gpu-tune");
    let directory = std::fs::read_to_string(cluster.state.path().join("directories")).expect("the diff ran");
    assert!(!PathBuf::from(directory.trim()).exists(), "the directories are deleted");
}

#[test]
fn temporary_pause_is_not_in_the_diff() {
    let cluster = TestCluster::from_capture("apply-erroring");
    let differ = cluster.differ(0);
    let ran = cluster.diff(&differ.display().to_string(), "reset gpu-tune --node node-2 --dry-run --diff");
    ran.expect_code(0);
    ran.expect_stdout("annotation skyhook.nvidia.com/pause");
    ran.expect_stdout("\n- v1.Node..node-2:metadata.annotations.");
    ran.expect_no_stdout("Skyhook..gpu-tune");
}

#[test]
fn diff_does_not_break_json_output() {
    let cluster = TestCluster::from_capture("complete");
    let program = cluster.differ(1).display().to_string();
    let ran = cluster.diff(&program, "pause gpu-tune --dry-run --diff -o json");
    ran.expect_code(0);
    assert_eq!(ran.json()["kind"], "Plan");
    ran.expect_stderr("LIVE- MERGED- []\n");
    let done = cluster.diff(&program, "pause gpu-tune --diff --confirm");
    done.expect_code(0);
    assert!(done.stdout.starts_with("pause gpu-tune: 1 changed\n"), "{}", done.transcript());
    done.expect_stderr("LIVE- MERGED- []\n");
}

#[test]
fn failing_external_diff_prevents_writes() {
    let cluster = TestCluster::from_capture("complete");
    let program = cluster.differ(2).display().to_string();
    let ran = cluster.diff(&program, "pause gpu-tune --diff --confirm");
    ran.expect_code(1);
    ran.expect_stderr("exit status: 2; nothing was changed\n");
    let missing = cluster.diff("no-such-differ -u", "pause gpu-tune --diff --confirm");
    missing.expect_code(1);
    missing.expect_stderr("error: cannot run \"no-such-differ\": ");
    assert_eq!(cluster.writes(), [""; 0]);
    // Without `--diff` the program is not run.
    cluster.diff("no-such-differ", "pause gpu-tune --confirm").expect_code(0);
}

/// The result of a server dry run is on stdout, and the diff on stderr.
#[test]
fn server_dry_run_shows_the_diff() {
    let cluster = TestCluster::from_capture("complete");
    let words = "pause gpu-tune --dry-run=server --diff";
    let ours = cluster.run(words);
    ours.expect_code(0);
    ours.expect_stderr("+++ skyhook/gpu-tune (planned)\n");
    let program = cluster.differ(1).display().to_string();
    let theirs = cluster.diff(&program, words);
    theirs.expect_code(0);
    theirs.expect_stderr("LIVE- MERGED- []\n");
    assert_eq!(ours.stdout, theirs.stdout);
}
