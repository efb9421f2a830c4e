//! Runs write commands with a fault in one request, or in one and all later requests. Checks their reports,
//! the objects, a second run of the same command, and `undo`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::proxy::{Delivery, Fault, FaultInjection, FaultResponse, Proxy, REQUEST_TIMEOUT};
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
    on_capture("malformed-node-state", "node repair node-1 --skyhook gpu-tune"),
    WriteCommand { undoable: false, ..on_capture("v0.17-pod-rejected", "package retry driver --skyhook gpu --node node-2") },
    on_capture("rollout-stopped", "node leave-batch node-1 --skyhook gpu-tune"),
    on_capture("rollout-stopped", "dp reset gpu-tune"),
    on_capture("finalizer-stripped", "cordon release"),
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

type Objects = BTreeMap<String, Value>;

const DELETING: &str = "deleting";
const BATCHES: &str = "batches";

/// The objects without what `undo` cannot restore: a recreated object is not being deleted and has no status,
/// and deleted pods and Jobs are not recreated.
fn without_deletion_and_runs(objects: &Objects) -> Objects {
    let mut objects = objects.clone();
    objects.retain(|name, _| !is_package_run(name));
    for object in objects.values_mut().filter_map(Value::as_object_mut) {
        object.remove(DELETING);
        object.remove(BATCHES);
    }
    objects
}

/// Whether this key of [`Objects`] is a pod or a Job.
fn is_package_run(name: &str) -> bool {
    name.starts_with("Pod/") || name.starts_with("Job/")
}

/// Each object by kind and name, without server metadata and without the status that the operator writes.
fn normalized(all: Vec<Value>) -> Objects {
    let mut objects = BTreeMap::new();
    for mut object in all {
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        let metadata = object["metadata"].as_object_mut().expect("metadata");
        let name = metadata["name"].as_str().unwrap_or_default().to_owned();
        // Compare only the existence of pods and Jobs.
        if matches!(kind.as_str(), "Pod" | "Job") {
            objects.insert(format!("{kind}/{name}"), json!("there"));
            continue;
        }
        metadata.retain(|key, value| {
            let counted = ["resourceVersion", "managedFields", "uid", "creationTimestamp", "generation"];
            !counted.contains(&key.as_str()) && *value != json!({})
        });
        if kind == "Skyhook" {
            let metadata = &object["metadata"];
            let [annotations, labels] = ["annotations", "labels"].map(|m| metadata[m].clone());
            let deleting = !metadata["deletionTimestamp"].is_null();
            object = json!({
                "annotations": annotations, "labels": labels, "spec": object["spec"], DELETING: deleting,
                BATCHES: {
                    "nodePriority": object["status"]["nodePriority"],
                    "compartmentStatuses": object["status"]["compartmentStatuses"],
                },
            });
        }
        if let Some(conditions) = object["status"]["conditions"].as_array_mut() {
            conditions.sort_by_key(|c| c["type"].to_string());
            for condition in conditions {
                condition["lastHeartbeatTime"] = Value::Null;
            }
        }
        objects.insert(format!("{kind}/{name}"), canonical(&object));
    }
    objects
}

/// The value with sorted keys, without nulls, empty maps, zeros and `false`.
fn canonical(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut members: Vec<_> = map.iter().map(|(k, v)| (k.clone(), canonical(v))).collect();
            members.retain(|(_, v)| !v.is_null());
            members.sort_by(|a, b| a.0.cmp(&b.0));
            if members.is_empty() { Value::Null } else { Value::Object(members.into_iter().collect()) }
        }
        Value::Bool(false) => Value::Null,
        Value::Number(number) if number.as_i64() == Some(0) => Value::Null,
        Value::Array(list) => list.iter().map(canonical).collect(),
        other => other.clone(),
    }
}

/// The results of a command without faults.
struct FaultFreeRun {
    before: Objects,
    after: Objects,
    /// For each of its requests, whether it writes.
    writes: Vec<bool>,
    /// The exit code of a second run: 0, or 3 if the command is refused because nothing has failed.
    second_code: Option<i32>,
    /// The number of journals before the command.
    journals_before: usize,
}

struct FaultCase {
    command: WriteCommand,
    /// The number of the first request that gets the fault.
    request: usize,
    /// Whether all requests after it get the fault, too.
    and_all_after: bool,
    fault: Fault,
}

/// Output, objects and journal after a command with faults.
struct FaultyRun {
    ran: RunOutput,
    now: Objects,
    /// The journal's results of the steps on each object; `None` without a journal.
    results: Option<BTreeMap<String, Vec<String>>>,
    /// Whether the journal has no final record.
    journal_incomplete: bool,
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

impl FaultCase {
    /// Runs the command with the fault; returns its command line and output.
    fn run_with_fault(&self, target: &mut impl FaultTarget) -> (String, RunOutput) {
        let words = self.command.prepare(target);
        let child = Child::default();
        target.proxy().inject(Some(FaultInjection {
            first: self.request,
            last: if self.and_all_after { usize::MAX } else { self.request },
            fault: self.fault,
            child: child.clone(),
        }));
        let limit = self.fault.needs_time_limit();
        let limit = limit.then(|| format!(" --request-timeout {REQUEST_TIMEOUT}"));
        let limit = limit.unwrap_or_default();
        let ran = run_command(target, &format!("{words}{limit}"), &child);
        target.proxy().stop_faults();
        (words, ran)
    }

    /// Runs the command with the fault, and reads the objects and the journal afterwards.
    fn observe(&self, target: &mut impl FaultTarget, expected: &FaultFreeRun) -> (String, FaultyRun) {
        let (words, ran) = self.run_with_fault(target);
        let journalled = journals(target).len() > expected.journals_before;
        let journal = journalled.then(|| {
            let show = run_command(target, "journal show -o json", &Child::default());
            show.json()
        });
        let run = FaultyRun {
            ran,
            now: objects_of(target),
            journal_incomplete: journal.as_ref().is_some_and(|j| j["ended"].is_null()),
            results: journal.as_ref().map(results),
        };
        (words, run)
    }

    fn describe(&self, what: &str, ran: &[&RunOutput]) -> String {
        let WriteCommand { cluster, command, .. } = self.command;
        let after = if self.and_all_after { " and all after it" } else { "" };
        let transcripts: Vec<String> = ran.iter().map(|ran| ran.transcript()).collect();
        format!(
            "{what}: {command} on {cluster}, fault in request {}{after}: {:?}\n{}",
            self.request,
            self.fault,
            transcripts.join("then\n")
        )
    }

    /// All violations after the fault, after a second run, and after `undo`.
    fn violations(&self, target: &mut impl FaultTarget, expected: &FaultFreeRun) -> Vec<String> {
        let (words, run) = self.observe(target, expected);
        let mut wrong = self.false_reports(&run, expected);
        let changed = run.now != expected.before;
        let again = run_command(target, &words, &Child::default());
        let done = run.now == expected.after && again.code == expected.second_code;
        if objects_of(target) != expected.after || again.code != Some(0) && !done {
            let what = "the same command again does not finish it";
            wrong.push(self.describe(what, &[&run.ran, &again]));
        }
        if changed && self.command.undoable {
            let (_, ran) = self.run_with_fault(target);
            let all = journals(target);
            // Concurrent requests have no fixed order: the fault may now hit a request before all writes.
            let begun = all.len() > expected.journals_before;
            let undone = begun.then(|| {
                let undo = format!("undo {} --confirm", all[0]);
                run_command(target, &undo, &Child::default())
            });
            if without_deletion_and_runs(&objects_of(target)) != without_deletion_and_runs(&expected.before) {
                let ran: Vec<&RunOutput> = std::iter::once(&ran).chain(&undone).collect();
                wrong.push(self.describe("undo does not revert it", &ran));
            }
        }
        wrong
    }

    /// Objects that are half changed, and false reports by the exit code, the messages or the journal.
    fn false_reports(&self, run: &FaultyRun, expected: &FaultFreeRun) -> Vec<String> {
        let FaultyRun { ran, now, .. } = run;
        let mut wrong = Vec::new();
        let mut report = |what: String| wrong.push(self.describe(&what, &[ran]));
        let killed = self.fault.response == FaultResponse::Killed && ran.code.is_none();
        let as_before = |name: &str| now.get(name) == expected.before.get(name);
        let as_planned = |name: &str| now.get(name) == expected.after.get(name);
        let names = expected.before.keys().chain(expected.after.keys()).chain(now.keys());
        let mut nodes_as_before = true;
        for name in names {
            let half = !as_before(name) && !as_planned(name);
            if name.starts_with("Skyhook/") {
                // A pause that could not be ended is reported, and ended by the same command or `undo`.
                let mentions_pause = [&ran.stdout, &ran.stderr].map(|text| text.contains("paused"));
                if half && !killed && !mentions_pause.contains(&true) {
                    report(format!("{name} is left half changed, and this is not reported"));
                }
            } else {
                nodes_as_before &= as_before(name);
                // An object with several steps may be half changed, if only some of its steps succeeded.
                let steps = run.results.iter().filter_map(|results| results.get(name));
                let steps: usize = steps.map(Vec::len).sum();
                if half && steps < 2 {
                    report(format!("{name} is half done"));
                }
            }
        }
        let has_unknown = || {
            let mut results = run.results.iter().flat_map(BTreeMap::values).flatten();
            results.any(|result| result == "unknown")
        };
        match ran.code {
            None if killed => {}
            Some(0) if *now != expected.after => report("exit code 0, but not everything was done".into()),
            Some(4) if *now == expected.before && !has_unknown() => {
                report("exit code 4, but nothing was done".into());
            }
            Some(1 | 3 | 5) if !nodes_as_before => {
                report("the exit code says that nothing was done, but something was".into());
            }
            Some(0 | 1 | 3 | 4 | 5) => {}
            other => report(format!("exit code {other:?}")),
        }
        if !killed && ran.code != Some(0) && ran.stdout.is_empty() && ran.stderr.is_empty() {
            report("nothing was printed".into());
        }
        if run.journal_incomplete && !killed {
            report("the journal has no end".into());
        }
        for (name, results) in run.results.iter().flatten() {
            let all = |known: &[&str]| results.iter().all(|result| known.contains(&result.as_str()));
            if name.starts_with("Skyhook/") {
                continue;
            }
            if all(&["applied", "unchanged", "gone"]) && !as_planned(name) {
                report(format!("the journal records {name} as changed, but it is not"));
            }
            if all(&["failed", "skipped", "notReached"]) && !as_before(name) {
                report(format!("the journal records {name} as not changed, but it is"));
            }
            if results.iter().any(|result| result == "null") && !killed {
                report(format!("the journal has no result for {name}"));
            }
        }
        wrong
    }
}

/// The results of a journal by object.
fn results(journal: &Value) -> BTreeMap<String, Vec<String>> {
    let mut results: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let stages = journal["begun"]["plan"]["stages"].as_array();
    for (at, stage) in stages.into_iter().flatten().enumerate() {
        let steps = stage["steps"].as_array();
        for (number, step) in steps.into_iter().flatten().enumerate() {
            let target = &step["target"];
            let [kind, name] = ["kind", "name"].map(|f| target[f].as_str().unwrap_or_default());
            let result = journal["results"][at][number]["result"].as_str();
            let of = results.entry(format!("{kind}/{name}")).or_default();
            of.push(result.unwrap_or("null").to_owned());
        }
    }
    results
}

/// All cases of a command: each fault in each request, alone and from that request on.
fn cases(command: WriteCommand, expected: &FaultFreeRun) -> Vec<FaultCase> {
    let mut cases = Vec::new();
    for (at, write) in expected.writes.iter().enumerate() {
        for fault in faults() {
            let once = matches!(fault.response, FaultResponse::Killed | FaultResponse::Restart);
            // Reads change nothing on the server: test delivered reads only with faults that break the
            // connection, since they may break it after a part of the response.
            let delivered = fault.delivery != Delivery::Never;
            let connection_fault = matches!(
                fault.response,
                FaultResponse::Restart
                    | FaultResponse::Reset
                    | FaultResponse::Truncated
                    | FaultResponse::Killed
            );
            if !write && delivered && !connection_fault {
                continue;
            }
            for and_all_after in [false, true] {
                if !(and_all_after && once) {
                    cases.push(FaultCase { command, request: at + 1, and_all_after, fault });
                }
            }
        }
    }
    cases
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

/// Selects the cases to run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sample {
    /// About this many cases, spread over all.
    About(usize),
    /// The n-th of this many parts; part 2 of 6 is every sixth case from the second on.
    Part(usize, usize),
}

impl Sample {
    pub fn of<T>(self, all: &[T]) -> Vec<&T> {
        let (first, stride) = match self {
            Sample::About(wanted) => (0, (all.len() / wanted).max(1)),
            Sample::Part(part, parts) => (part - 1, parts),
        };
        all.iter().skip(first).step_by(stride).collect()
    }
}

/// A sample of this size, unless `FAULTS` selects another: `FAULTS=2000` for about that many cases,
/// `FAULTS=all` for all, and `FAULTS=2/6` for the second of six parts. `FAULTS_OF=teardown` selects the
/// commands that contain `teardown`.
pub fn sample(size: usize) -> Sample {
    let Ok(requested) = std::env::var("FAULTS") else {
        return Sample::About(size);
    };
    let number = |text: &str| text.parse().expect("FAULTS is all, a number, or two as in 2/6");
    match requested.split_once('/') {
        None if requested == "all" => Sample::Part(1, 1),
        None => Sample::About(number(&requested)),
        Some((part, parts)) => Sample::Part(number(part), number(parts)),
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
