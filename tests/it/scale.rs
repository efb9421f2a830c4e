//! Commands scan each list of a cluster a number of times that does not depend on the cluster's size.
//!
//! The program counts the items of the lists that it scans, and a child process reports the count: when a
//! cluster has twice as many objects, the count may double, and is not four times as high.

mod alike;
mod shapes;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kubectl_skyhook::cli;
use kubectl_skyhook::cluster::source::scanned_items;
use kubectl_skyhook::program::Process;
use serde_json::json;
use tempfile::TempDir;

use shapes::{ALIKE, LEFT_ON_A_NODE, PACKAGES_OF_ONE, SHAPES, Shape};

use crate::support::sample::some;

/// Objects of the smaller cluster.
const SMALL: usize = 100;
/// The capture of a child process, its command line, and the file that it writes the count to.
const CAPTURE: &str = "SCALE_CAPTURE";
const WORDS: &str = "SCALE_WORDS";
const COUNT: &str = "SCALE_COUNT";

/// Commands that read the whole cluster.
const COMMANDS: [&str; 5] = ["diagnose stuck --all", "status", "node status", "leftovers", "fix --dry-run"];

/// The cost of a command.
struct Cost {
    /// Number of scanned items.
    scanned: usize,
    /// Processor time in microseconds.
    time: u64,
    /// Peak memory in kilobytes.
    memory: u64,
}

/// The cost of a command for a capture.
fn cost(capture: &Path, words: &str) -> Cost {
    let count = capture.with_extension("count");
    let child = Command::new(std::env::current_exe().expect("the path of this test binary"))
        .args(["--exact", "scale::counts_in_a_child_process", "--nocapture"])
        .env(CAPTURE, capture)
        .env(WORDS, words)
        .env(COUNT, &count)
        .env("RUST_MIN_STACK", "16777216")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("the child process starts");
    assert!(child.success(), "{words}");
    let text = std::fs::read_to_string(&count).expect("a count");
    let numbers: Vec<u64> = text.split(' ').map(|number| number.parse().expect("a number")).collect();
    Cost { scanned: numbers[0] as usize, time: numbers[1], memory: numbers[2] }
}

/// The processor time of this process in microseconds. The sum is exact: only its parts are estimated by
/// clock ticks.
#[cfg(unix)]
fn processor_time() -> i64 {
    use nix::sys::resource::{UsageWho, getrusage};
    use nix::sys::time::TimeValLike;
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("the usage of this process");
    (usage.user_time() + usage.system_time()).num_microseconds()
}

#[cfg(not(unix))]
fn processor_time() -> i64 {
    0
}

/// The peak memory of this process in kilobytes; 0 on systems without `/proc`. The usage of the process would
/// include the memory of its parent.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0 kB");
    peak.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Runs one command and writes its count, if another test asks for it.
#[test]
fn counts_in_a_child_process() {
    let Some(words) = std::env::var_os(WORDS) else {
        return;
    };
    let words = words.into_string().expect("text");
    let mut args: Vec<std::ffi::OsString> = vec!["kubectl-skyhook".into()];
    args.extend(words.split(' ').map(Into::into));
    args.extend(["--from".into(), std::env::var_os(CAPTURE).expect("a path")]);
    args.extend(["--now".into(), "2026-11-20T12:00:00Z".into()]);
    cli::main(&Process::of(args));
    let count = std::env::var_os(COUNT).expect("a path");
    let cost = format!("{} {} {}", scanned_items(), processor_time(), peak_memory());
    std::fs::write(count, cost).expect("a write");
}

/// Writes a cluster of that shape and size.
fn capture_of(directory: &TempDir, shape: Shape, count: usize) -> PathBuf {
    let capture = directory.path().join(format!("{count}.json"));
    let list = json!({"apiVersion": "v1", "kind": "List", "items": shape(count).0});
    std::fs::write(&capture, list.to_string()).expect("a write");
    capture
}

#[test]
fn scans_do_not_multiply_with_the_objects() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut wrong = Vec::new();
    for (name, shape) in some(SHAPES, 2) {
        let [small, large] = [SMALL, 2 * SMALL].map(|count| capture_of(&directory, shape, count));
        for words in COMMANDS {
            let [few, many] = [&small, &large].map(|capture| cost(capture, words).scanned);
            // Twice as many items, plus a tenth for rounding.
            if few == 0 || many * 10 > few * 21 {
                wrong.push(format!("{words}, {name}: {few}, then {many}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The scanned lists contain neither node keys nor packages, so these tests measure the processor time:
/// four times as many may take at most eight times as long. A linear search for each would take sixteen times
/// as long.
#[cfg(unix)]
fn processor_time_does_not_multiply(shape: Shape, counts: [usize; 2]) {
    let directory = tempfile::tempdir().expect("a directory");
    let [small, large] = counts.map(|count| capture_of(&directory, shape, count));
    let mut wrong = Vec::new();
    for words in COMMANDS {
        let measured: Vec<[u64; 2]> =
            (0..3).map(|_| [&small, &large].map(|capture| cost(capture, words).time)).collect();
        // Take the minimum: other processes only add to the time.
        let [few, many] = [0, 1].map(|at| measured.iter().map(|m| m[at]).min().unwrap_or(0));
        if few == 0 || many > few * 8 {
            wrong.push(format!("{words}: {few} µs, then {many} µs"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[cfg(unix)]
#[test]
#[ignore = "slow: `tests/run --all` and --include-ignored run it"]
fn processor_time_does_not_multiply_with_the_keys_of_a_node() {
    processor_time_does_not_multiply(LEFT_ON_A_NODE, [1000, 4000]);
}

#[cfg(unix)]
#[test]
#[ignore = "slow: `tests/run --all` and --include-ignored run it"]
fn processor_time_does_not_multiply_with_equal_causes() {
    processor_time_does_not_multiply(ALIKE, [100, 400]);
}

/// Equal findings share their remedies.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "slow: `tests/run --all` and --include-ignored run it"]
fn a_finding_takes_little_memory() {
    const FEW: usize = 200;
    const MANY: usize = 600;
    let directory = tempfile::tempdir().expect("a directory");
    let captures = [FEW, MANY].map(|count| capture_of(&directory, ALIKE, count));
    // The forecasts of remedies, which names do not show, take memory for a second state of the cluster.
    for words in ["diagnose stuck -o name", "status"] {
        let [few, many] = [0, 1].map(|at| cost(&captures[at], words).memory);
        // Each custom resource fails on ten nodes.
        let each = 1024 * (many - few) / (10 * (MANY - FEW)) as u64;
        assert!(
            each > 0 && each <= 4608,
            "{words}: {each} bytes of each node with a failing custom resource"
        );
    }
}

#[cfg(unix)]
#[test]
#[ignore = "slow: `tests/run --all` and --include-ignored run it"]
fn processor_time_does_not_multiply_with_the_packages_of_a_custom_resource() {
    processor_time_does_not_multiply(PACKAGES_OF_ONE, [100, 400]);
}
