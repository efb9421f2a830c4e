//! Counts over all scenarios how many findings of failing scripts show the failing log line, and checks that
//! no secret is ever shown.

use std::sync::Mutex;

use serde_json::Value;

use crate::kubelet::logs::{FAILURE, SECRET};

/// Codes of findings about failing scripts.
const FAILING: [&str; 3] = ["SKY101", "SKY112", "SKY201"];
/// The required percentage.
const WANTED: usize = 95;
/// With fewer findings the percentage is not checked: one log missed because the operator replaced the pod
/// weighs too much.
const ENOUGH: usize = 20;

#[derive(Default)]
struct Tally {
    with: usize,
    /// Findings without the line: code and reasons.
    without: Vec<String>,
}

static TALLY: Mutex<Tally> = Mutex::new(Tally { with: 0, without: Vec::new() });

/// Counts the causes about failing scripts in a report, one log each. Skips reports without pods (during a
/// deletion the older operator deletes them), and scripts that exceeded their deadline, which log no failure.
pub fn count(report: &Value) {
    if report["counts"]["pods"] == 0 {
        return;
    }
    let causes = report["causes"].as_array().into_iter().flatten();
    for cause in causes.filter(|cause| FAILING.iter().any(|code| cause["code"] == *code)) {
        let at = cause["findingIndexes"].as_array().into_iter().flatten();
        let reasons: Vec<&Value> = at
            .filter_map(|at| Some(&report["findings"][usize::try_from(at.as_u64()?).ok()?]["reason"]))
            .collect();
        if reasons.iter().all(|reason| reason["state"] == "DeadlineExceeded") {
            continue;
        }
        let says = |reason: &&Value| {
            let lines = reason["log"]["lines"].as_array().into_iter().flatten();
            let mut lines = lines.filter_map(Value::as_str);
            lines.any(|line| line.starts_with(FAILURE))
        };
        let mut tally = TALLY.lock().expect("no holder panics");
        if reasons.iter().any(says) {
            tally.with += 1;
        } else {
            tally.without.push(format!("{}: {reasons:?}", cause["code"]));
        }
    }
}

/// Asserts that output of our binary, other than requested logs, contains no secret.
#[track_caller]
pub fn no_secret(ran: &[u8]) {
    let found = String::from_utf8_lossy(ran);
    assert!(!found.contains(SECRET), "a secret is shown: {found}");
}

/// Prints the count; returns whether the percentage is reached.
pub fn print_and_check() -> bool {
    let tally = TALLY.lock().expect("no holder panics");
    let all = tally.with + tally.without.len();
    if all == 0 {
        return true;
    }
    eprintln!("the failing line stands in {} of {all} findings of failing packages", tally.with);
    let as_wanted = 100 * tally.with >= WANTED * all;
    if !as_wanted {
        let mut without = tally.without.clone();
        without.sort();
        without.dedup();
        eprintln!("not in these:\n{}", without.join("\n"));
    }
    as_wanted || all < ENOUGH
}
