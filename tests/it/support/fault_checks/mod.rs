//! Runs write commands with a fault in one request, or in one and all later requests. Checks their reports,
//! the objects, a second run of the same command, and `undo`.

mod case;
mod objects;
mod sample;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use self::case::{FaultCase, FaultFreeRun, cases};
use self::objects::{Objects, normalized};
pub use self::sample::{Sample, sample};
use super::proxy::{Delivery, Fault, FaultResponse, Proxy};
use super::run::{Child, Run, RunOutput, run};

/// A command that writes, and the captured cluster it runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WriteCommand {
    /// The name of the captured cluster.
    pub cluster: &'static str,
    /// The command to run before it, without faults; empty for none.
    first: &'static str,
    /// The command line; ID is replaced by the id of the newest journal, PLAN by a file.
    command: &'static str,
    /// Whether `undo` can revert the command.
    undoable: bool,
}

const fn on_capture(cluster: &'static str, command: &'static str) -> WriteCommand {
    WriteCommand { cluster, first: "", command, undoable: true }
}

const fn after_command(cluster: &'static str, first: &'static str, command: &'static str) -> WriteCommand {
    WriteCommand { first, ..on_capture(cluster, command) }
}

/// All commands that write.
#[rustfmt::skip]
pub const COMMANDS: &[WriteCommand] = &[
    on_capture("complete", "pause gpu-tune --reason maintenance"),
    on_capture("complete", "disable gpu-tune"),
    on_capture("complete", "node ignore node-1 node-2"),
    after_command("complete", "node ignore node-1 node-2", "node unignore node-1 node-2"),
    on_capture("complete", "node reset node-3 --skyhook gpu-tune"),
    on_capture("complete", "uninstall gpu-tune tuning"),
    on_capture("complete", "update-state gpu-tune driver 2.0.1 apply in_progress --node node-2"),
    after_command("complete", "pause gpu-tune --plan-out PLAN", "apply-plan PLAN"),
    after_command("complete", "pause gpu-tune", "undo ID"),
    WriteCommand { undoable: false, ..on_capture("complete", "teardown --timeout 10s") },
    on_capture("uninstall-in-progress", "uninstall gpu-tune driver --cancel"),
    on_capture("disabled-midway", "enable gpu-tune"),
    on_capture("deleted-while-paused", "resume gpu-tune"),
    on_capture("deleted-while-paused", "finalizer strip gpu-tune --force"),
    WriteCommand { undoable: false, ..on_capture("deleted-while-erroring", "undelete gpu-tune") },
    on_capture("apply-erroring", "reset gpu-tune"),
    on_capture("apply-erroring", "reset gpu-tune --node node-2 --no-pause"),
    after_command("apply-erroring", "reset gpu-tune", "undo ID"),
    on_capture("apply-erroring", "package rerun driver --skyhook gpu-tune --node node-2"),
    on_capture("malformed-node-state", "fix"),
    on_capture("malformed-node-state", "reset gpu-tune --unreadable --node node-1"),
    WriteCommand { undoable: false, ..on_capture("v0.17-pod-rejected", "package retry driver --skyhook gpu --node node-2") },
    on_capture("rollout-stopped", "deployment-policy reset gpu-tune --node node-1"),
    on_capture("rollout-stopped", "dp reset gpu-tune"),
    on_capture("finalizer-stripped", "leftovers --clean --node node-[1-3]"),
    on_capture("finalizer-stripped", "leftovers --clean"),
];

/// A cluster behind a proxy, on which the commands run.
pub trait FaultTarget {
    /// Replaces all objects by those of the capture, and removes all journals.
    fn load_capture(&mut self, cluster: &'static str);
    fn proxy(&self) -> &Proxy;
    /// The directory of the journals.
    fn state_dir(&self) -> &Path;
    fn objects(&self) -> Vec<Value>;
}

/// All faults that are injected.
pub fn faults() -> Vec<Fault> {
    use Delivery::{Late, Never, Once, RepeatedAtEnd, RepeatedBeforeNext};
    use FaultResponse::{
        GatewayError, Hang, JsonNull, Killed, LoginPage, Real, Reset, Restart, Status, Truncated,
    };
    let all = [
        (Never, Restart),
        (Once, Restart),
        (Never, Reset),
        (Once, Reset),
        (Once, Truncated),
        (Never, Hang),
        (Once, Hang),
        (Late, Hang),
        (Never, Status(401, None)),
        (Never, Status(403, None)),
        (Never, Status(409, None)),
        (Never, Status(410, None)),
        (Never, Status(422, None)),
        (Never, Status(429, Some(1))),
        (Never, Status(500, None)),
        (Once, Status(500, None)),
        (Never, Status(503, None)),
        (Never, Status(503, Some(1))),
        (Never, Status(504, None)),
        (Once, Status(504, None)),
        (Never, GatewayError(502)),
        (Once, GatewayError(502)),
        (Never, GatewayError(503)),
        (Once, GatewayError(503)),
        (Never, LoginPage),
        (Once, LoginPage),
        (Never, JsonNull),
        (Once, JsonNull),
        (RepeatedBeforeNext, Real),
        (RepeatedAtEnd, Real),
        (Never, Killed),
        (Once, Killed),
    ];
    all.map(|(delivery, response)| Fault { delivery, response }).into()
}

pub fn command(target: &impl FaultTarget, words: &str) -> Run {
    run(words).kubeconfig(&target.proxy().kubeconfig()).env("XDG_STATE_HOME", target.state_dir())
}

pub fn run_command(target: &impl FaultTarget, words: &str, child: &Child) -> RunOutput {
    command(target, words).child(child).output()
}

fn objects_of(target: &impl FaultTarget) -> Objects {
    normalized(target.objects())
}

impl WriteCommand {
    /// Loads the capture, runs the preceding command, and returns the command line.
    fn prepare(&self, target: &mut impl FaultTarget) -> String {
        target.load_capture(self.cluster);
        let plan = target.state_dir().join("plan.json").display().to_string();
        if !self.first.is_empty() {
            let first = self.first.replace("PLAN", &plan);
            let ran = run_command(target, &format!("{first} --confirm"), &Child::default());
            assert!(matches!(ran.code, Some(0 | 2)), "{}", ran.transcript());
        }
        let id = journals(target).into_iter().next().unwrap_or_default();
        let words = self.command.replace("PLAN", &plan).replace("ID", &id);
        format!("{words} --confirm")
    }
}

/// The ids of all journals, the newest first.
fn journals(target: &impl FaultTarget) -> Vec<String> {
    let list = run_command(target, "journal list -o json", &Child::default());
    let list = list.json()["items"].take();
    let items = list.as_array().into_iter().flatten();
    let id = |item: &Value| item["id"].as_str().expect("an id").to_owned();
    items.map(id).collect()
}

/// The result of all cases.
pub struct Summary {
    /// The number of cases that ran.
    cases: usize,
    /// The number of all possible cases.
    all: usize,
    /// The number of cases in which the command was killed.
    kills: usize,
    violations: Vec<String>,
}

/// Runs a sample of the cases of all commands; each worker has its own target.
pub fn check_all<G: FaultTarget>(
    commands: &[WriteCommand],
    sample: Sample,
    workers: usize,
    new_target: impl Fn() -> G + Sync,
) -> Summary {
    let mut all = Vec::new();
    let mut fault_free_runs = BTreeMap::new();
    let mut first = new_target();
    let only = std::env::var("FAULTS_OF").unwrap_or_default();
    for command in commands.iter().filter(|a| a.command.contains(&only)) {
        let words = command.prepare(&mut first);
        let before = objects_of(&first);
        let journals_before = journals(&first).len();
        first.proxy().inject(None);
        let ran = run_command(&first, &words, &Child::default());
        ran.expect_code(0);
        let requests = first.proxy().requests();
        let writes = |r: &String| !r.starts_with("GET ") && !r.contains("accessreviews");
        let after = objects_of(&first);
        let again = run_command(&first, &words, &Child::default());
        assert!(matches!(again.code, Some(0 | 3)), "{}", again.transcript());
        let expected = FaultFreeRun {
            before,
            second_code: again.code,
            after,
            writes: requests.iter().map(writes).collect(),
            journals_before,
        };
        assert!(expected.before != expected.after, "{}", ran.transcript());
        all.extend(cases(*command, &expected));
        fault_free_runs.insert(*command, expected);
    }
    let total = all.len();
    let picked = sample.of(&all);
    let (next, violations) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = |mut target: G| {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(case) = picked.get(at) else {
                break;
            };
            let wrong = case.violations(&mut target, &fault_free_runs[&case.command]);
            print_lines(&wrong);
            violations.lock().expect("no holder panics").extend(wrong);
            if picked.len() > 500 && at % 100 == 0 {
                print_lines(&[format!("{at} of {} cases", picked.len())]);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..workers {
            scope.spawn(|| work(new_target()));
        }
        work(first);
    });
    let kills = |case: &&&FaultCase| case.fault.response == FaultResponse::Killed;
    Summary {
        cases: picked.len(),
        all: total,
        kills: picked.iter().filter(kills).count(),
        violations: violations.into_inner().expect("no holder panics"),
    }
}

/// Prints at once, since running all cases takes long.
#[expect(clippy::print_stderr, reason = "progress of a long run")]
fn print_lines(lines: &[String]) {
    for line in lines {
        eprintln!("{line}");
    }
}

impl Summary {
    /// Prints how many cases ran, and fails if any of them has violations.
    pub fn assert_none_failed(self) {
        let Summary { cases, all, kills, violations } = self;
        let sum = format!("{cases} of {all} cases, {kills} of them kills: {} violations", violations.len());
        print_lines(std::slice::from_ref(&sum));
        assert!(violations.is_empty(), "{}\n\n{sum}", violations.join("\n\n"));
    }
}
