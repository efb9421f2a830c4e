//! Times in the future, and clocks that differ.

use jiff::{SignedDuration, Timestamp};

use crate::support::run::run;
use crate::support::test_cluster::{CR, TestCluster};

const COMMANDS: [&str; 6] = [
    "status",
    "status gpu-tune",
    "node status -o wide",
    "diagnose stuck --all",
    "diagnose node node-2",
    "events",
];

/// The warning names the difference, and ages are counted by the server's clock.
#[test]
fn difference_to_the_clock_of_the_server_is_reported_and_corrected() {
    let apart = SignedDuration::from_mins(26 * 60 + 30);
    for (ahead, direction) in [(apart, "behind"), (-apart, "ahead of")] {
        let cluster = TestCluster::captured_with_operator("apply-erroring");
        cluster.fake.change(|state| state.clock_ahead = Some(ahead));
        let expected = format!(
            "warning: the clock of this machine is 26h {direction} that of the API server; ages are counted by the \
             server's clock\n"
        );
        for words in COMMANDS {
            let ran = cluster.run(words);
            assert_eq!(ran.stderr.matches(&expected).count(), 1, "{}", ran.transcript());
        }
        let taken = cluster.run("diagnose stuck -o json").json()["takenAt"].clone();
        let taken: Timestamp = taken.as_str().and_then(|at| at.parse().ok()).expect("a time");
        let difference = taken.duration_since(kubectl_skyhook::ctx::now() + ahead);
        assert!(difference.abs() < SignedDuration::from_mins(2), "{taken}");
    }
}

/// Clocks of machines always differ a little.
#[test]
fn small_difference_to_the_clock_of_the_server_is_not_reported() {
    for minutes in [-4, 4] {
        let cluster = TestCluster::captured_with_operator("apply-erroring");
        let ahead = SignedDuration::from_mins(minutes);
        cluster.fake.change(|state| state.clock_ahead = Some(ahead));
        cluster.run("status").expect_no_stderr("clock");
    }
}

/// The clock of the program that wrote these times was ahead.
#[test]
fn times_in_the_future_are_named() {
    let capture = "tests/clusters/apply-erroring";
    for words in COMMANDS {
        let ran = run(&format!("{words} --from {capture} --now 2026-11-19T00:00:00Z")).output();
        let transcript = ran.transcript();
        assert!(!transcript.contains("<invalid>"), "{transcript}");
        assert!(transcript.contains("future"), "{transcript}");
    }
    // The newest time in the capture is 16:10:01.
    for words in COMMANDS {
        let ran = run(&format!("{words} --from {capture} --now 2026-11-20T16:06:00Z")).output();
        let transcript = ran.transcript();
        assert!(!transcript.contains("<invalid>"), "{transcript}");
        assert!(!transcript.contains("future"), "{transcript}");
    }
}

/// The clock of this machine was set back after the command.
#[test]
fn journal_from_the_future_is_listed_as_such() {
    let cluster = TestCluster::captured_with_operator("complete");
    cluster.run(&format!("disable {CR} --confirm")).expect_code(0);
    let directory = cluster.state.path().join("kubectl-skyhook/journal");
    let year = kubectl_skyhook::ctx::now().strftime("\"%Y-").to_string();
    for journal in std::fs::read_dir(directory).expect("a directory") {
        let path = journal.expect("a journal").path();
        let text = std::fs::read_to_string(&path).expect("text");
        std::fs::write(&path, text.replace(&year, "\"2126-")).expect("a write");
    }
    cluster.run("journal list").expect_stdout("<future>");
    cluster.run("undo --dry-run").expect_code(0);
}
