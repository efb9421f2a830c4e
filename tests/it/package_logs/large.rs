//! Logs are streamed: memory does not grow with their size.

use super::{SKYHOOK, driver};
use crate::support::fake_api::{FakeApi, Problem};
use crate::support::object_builder::PackageRun;
use crate::support::run::{Run, RunOutput};

/// The address space of a run in KiB: far less than all log lines would take in memory.
const MEMORY: u64 = 400 << 10;
const LINES: usize = 800_000;

fn logs(fake: &FakeApi, words: &str) -> RunOutput {
    let served = fake.serve();
    let command = format!("package logs driver --skyhook gpu {words}");
    let limited = format!("ulimit -v {MEMORY}; exec \"$0\" {command}");
    Run::program("sh", ["-c", &limited, env!("CARGO_BIN_EXE_kubectl-skyhook")])
        .kubeconfig(&served.kubeconfig())
        .output()
}

/// A cluster whose pods have each written this many lines, the numbers from 0.
fn pods_with_lines(nodes: &[&str], lines: usize) -> FakeApi {
    let mut fake = SKYHOOK.serve(driver());
    for node in nodes {
        let place = PackageRun { node, ..PackageRun::default() };
        let containers = ["driver-init done", "driver-apply running"];
        fake = fake
            .with(SKYHOOK.node(node, "in_progress", &["driver|1.0.0 apply in_progress"]))
            .with(SKYHOOK.pod(&format!("pod-{node}"), &place, "Running", &containers));
    }
    let text: String = (0..lines).map(|n| format!("2026-11-20T11:51:{:02}Z {n}\n", n * 60 / lines)).collect();
    fake.change(|it| {
        for node in nodes {
            it.logs.write(&format!("pod-{node}"), "driver-apply", &text);
        }
    });
    fake
}

#[test]
fn one_large_log_is_streamed() {
    let ran = logs(&pods_with_lines(&["node-1"], LINES), "");
    assert_eq!((ran.stderr.as_str(), ran.code), ("node-1 driver-apply:\n", Some(0)));
    let mut lines = ran.stdout.lines();
    assert!((0..LINES).all(|n| lines.next() == Some(n.to_string().as_str())));
    assert_eq!(lines.next(), None);
}

#[test]
fn large_logs_of_several_nodes_are_merged_on_disk() {
    let half = LINES / 2;
    let ran = logs(&pods_with_lines(&["node-1", "node-2"], half), "--timestamps");
    assert_eq!((ran.stderr.as_str(), ran.code), ("", Some(0)));
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines.len(), LINES);
    let time = |line: &&str| line.split(" │ ").nth(1).map(|text| text[..20].to_owned());
    assert!(lines.is_sorted_by_key(time));
    for node in ["node-1", "node-2"] {
        let own = lines.iter().filter(|line| line.starts_with(node));
        let numbers = own.filter_map(|line| line.rsplit(' ').next());
        assert!(numbers.eq((0..half).map(|n| n.to_string())), "{node}");
    }
}

/// An error response in place of a log: the log counts as unread, not as empty.
#[test]
fn kubelet_that_cannot_be_reached_is_an_error() {
    for (code, reason, message) in [
        (404, "NotFound", "nodes \"node-1\" not found"),
        (400, "BadRequest", "Client sent an HTTP request to an HTTPS server."),
    ] {
        let fake = pods_with_lines(&["node-1"], 1);
        let answer = Problem::new(code, reason, message);
        fake.on("GET pods/log pod-node-1").reply(answer);
        let ran = logs(&fake, "");
        assert_eq!((ran.stdout.as_str(), ran.code), ("", Some(1)), "{message}");
        ran.expect_stderr("warning: cannot read the log of driver-apply in pod/skyhook/pod-node-1: ");
        ran.expect_no_stderr("no readable output");
    }
}
