//! A command with a fault: how it runs, and what must hold afterwards.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::proxy::{Delivery, Fault, FaultInjection, FaultResponse, REQUEST_TIMEOUT};
use super::super::run::{Child, RunOutput};
use super::objects::{Objects, without_deletion_and_runs};
use super::{FaultTarget, WriteCommand, faults, journals, objects_of, run_command};

/// The results of a command without faults.
pub struct FaultFreeRun {
    pub before: Objects,
    pub after: Objects,
    /// For each of its requests, whether it writes.
    pub writes: Vec<bool>,
    /// The exit code of a second run: 0, or 3 if the command is refused because nothing has failed.
    pub second_code: Option<i32>,
    /// The number of journals before the command.
    pub journals_before: usize,
}

pub struct FaultCase {
    pub command: WriteCommand,
    /// The number of the first request that gets the fault.
    request: usize,
    /// Whether all requests after it get the fault, too.
    and_all_after: bool,
    pub fault: Fault,
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
    pub fn violations(&self, target: &mut impl FaultTarget, expected: &FaultFreeRun) -> Vec<String> {
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
pub fn cases(command: WriteCommand, expected: &FaultFreeRun) -> Vec<FaultCase> {
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
