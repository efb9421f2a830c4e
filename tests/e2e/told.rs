//! What all scenarios together were told of packages that fail: how often the line in which the script says why stood
//! in the report, and that no secret ever did.

use std::sync::Mutex;

use serde_json::Value;

use crate::kubelet::logs::{FAILURE, SECRET};

/// What a failing script is found by.
const FAILING: [&str; 3] = ["SKY101", "SKY112", "SKY201"];
/// Of a hundred.
const WANTED: usize = 95;
/// Of fewer findings the figure says nothing: the operator may have replaced the pod of one while it was read.
const ENOUGH: usize = 20;

#[derive(Default)]
struct Tally {
    with: usize,
    /// What was said instead of the line.
    without: Vec<String>,
}

static TALLY: Mutex<Tally> = Mutex::new(Tally {
    with: 0,
    without: Vec::new(),
});

/// Counts the groups of findings of a report, of each of which one carries the log. The older operator deletes pods that
/// a deletion has no use for: where none is left, no log is. A script that ran into its deadline wrote no such line.
pub fn count(report: &Value) {
    if report["counts"]["pods"] == 0 {
        return;
    }
    let causes = report["causes"].as_array().into_iter().flatten();
    for cause in causes.filter(|cause| FAILING.iter().any(|code| cause["code"] == *code)) {
        let at = cause["findings"].as_array().into_iter().flatten();
        let reasons: Vec<&Value> = at
            .filter_map(|at| {
                Some(&report["findings"][usize::try_from(at.as_u64()?).ok()?]["reason"])
            })
            .collect();
        if reasons
            .iter()
            .all(|reason| reason["state"] == "DeadlineExceeded")
        {
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
            tally
                .without
                .push(format!("{}: {reasons:?}", cause["code"]));
        }
    }
}

/// Of nothing that our binary says but logs that were asked for by name.
#[track_caller]
pub fn no_secret(said: &[u8]) {
    let found = String::from_utf8_lossy(said);
    assert!(!found.contains(SECRET), "a secret is shown: {found}");
}

/// Says the figure; whether it is as it should be.
pub fn in_all() -> bool {
    let tally = TALLY.lock().expect("no holder panics");
    let all = tally.with + tally.without.len();
    if all == 0 {
        return true;
    }
    eprintln!(
        "the failing line stands in {} of {all} findings of failing packages",
        tally.with
    );
    let as_wanted = 100 * tally.with >= WANTED * all;
    if !as_wanted {
        let mut without = tally.without.clone();
        without.sort();
        without.dedup();
        eprintln!("not in these:\n{}", without.join("\n"));
    }
    as_wanted || all < ENOUGH
}
