//! What a plan relies on changes under the question, after the plan was saved, or before the first write.
//!
//! [`COMMANDS`] × [`CHANGES`]: a command refuses the changes that its row lists, and leaves every object as it
//! is. With any other change, it writes at most the objects that it writes without the change, and keeps the
//! values that someone else has edited.

mod cases;
mod during;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::support::fake_api::State;
use crate::support::terminal::Terminal;
use crate::writes::confirmation;
use cases::{CHANGES, COMMANDS, Change, EDITED, Row, edits};

/// The objects without the fields that every write changes, and without the status that the operator sets.
fn comparable(mut objects: Vec<Value>) -> Vec<Value> {
    for object in &mut objects {
        let metadata = object["metadata"].as_object_mut().expect("metadata");
        metadata.remove("resourceVersion");
        metadata.remove("managedFields");
        metadata.retain(|_, value| *value != json!({}));
        if object["kind"] == "Skyhook" {
            object["status"]["status"] = Value::Null;
        }
    }
    objects
}

/// The names of the objects that differ.
fn differences(before: Vec<Value>, after: Vec<Value>) -> BTreeSet<String> {
    let (before, after) = (comparable(before), comparable(after));
    let both = [(&before, &after), (&after, &before)].into_iter();
    let missing = both.flat_map(|(these, others)| these.iter().filter(|object| !others.contains(object)));
    missing.map(|object| format!("{} {}", object["kind"], object["metadata"]["name"])).collect()
}

/// When the change happens.
#[derive(Debug, Clone, Copy)]
enum When {
    /// While the question is open.
    Question,
    /// Between `--plan-out` and `apply-plan`.
    Saved,
    /// After the command was confirmed, before its first write.
    Confirmed,
}

/// The request between the confirmation and the first write.
const REVIEW: &str = "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// A command without a change.
struct Baseline {
    /// Whether the question asks for a name.
    asks_for_name: bool,
    /// The objects that the command changes.
    written: BTreeSet<String>,
}

impl Baseline {
    fn of(row: &Row) -> Baseline {
        let cluster = (row.cluster)();
        let preview = cluster.run(&format!("{} --dry-run", row.command)).stdout;
        let before = cluster.fake.objects();
        let ran = cluster.with_operator(|| cluster.run(&format!("{} --confirm", row.command)));
        let written = differences(before, cluster.fake.objects());
        assert!(!written.is_empty(), "{}", ran.transcript());
        let asks_for_name = preview.contains("; B3)") || preview.contains("; B4)");
        Baseline { asks_for_name, written }
    }
}

/// The result of a command with a change.
struct Outcome {
    code: i32,
    output: String,
    /// The objects that the command has changed after the change.
    written: BTreeSet<String>,
    /// Whether all values of [`EDITED`] are still on the nodes.
    keeps_edits: bool,
}

fn run(row: &Row, baseline: &Baseline, change: &Change, when: When) -> Outcome {
    let cluster = (row.cluster)();
    let make = change.make;
    let changed = || {
        cluster.fake.change(make);
        cluster.fake.objects()
    };
    let (code, output, before) = cluster.with_operator(|| match when {
        When::Question => {
            let question = if baseline.asks_for_name { "To confirm, type the name" } else { "[y/N] " };
            let mut terminal = Terminal::of(&cluster, row.command, question);
            let answer = if baseline.asks_for_name {
                terminal.expect(": ");
                let asked = terminal.expect(": ").trim_end_matches(": ");
                asked.rsplit_once(": ").expect("the text to type").1.to_owned()
            } else {
                "y".to_owned()
            };
            let before = changed();
            let (output, code) = terminal.answer(format!("{answer}\n").as_bytes());
            (code, output, before)
        }
        When::Saved => {
            let plan = cluster.state.path().join("plan.json").display().to_string();
            cluster.run(&format!("{} --plan-out {plan}", row.command)).expect_code(0);
            let before = changed();
            let ran = cluster.run(&format!("apply-plan {plan} --confirm"));
            (ran.code.unwrap_or(-1), ran.transcript(), before)
        }
        When::Confirmed => {
            let before = Arc::new(Mutex::new(Vec::new()));
            let then = Arc::clone(&before);
            cluster.fake.on(REVIEW).nth(1).after(move |state: &mut State| {
                make(state);
                *then.lock().expect("no panic") = state.store.objects();
            });
            let ran = cluster.run(&format!("{} --confirm", row.command));
            let before = before.lock().expect("no panic").clone();
            (ran.code.unwrap_or(-1), ran.transcript(), before)
        }
    });
    let now = cluster.fake.objects();
    Outcome { code, output, keeps_edits: edits(&before) == edits(&now), written: differences(before, now) }
}

/// Runs the cells of a row; returns those that are wrong.
fn check(row: &Row) -> Vec<String> {
    let baseline = Baseline::of(row);
    let mut wrong = Vec::new();
    for change in CHANGES.iter().filter(|change| !row.cannot_happen.contains(&change.name)) {
        let refuses = row.refuses.contains(&change.name);
        let all: &[When] =
            if refuses { &[When::Question, When::Saved, When::Confirmed] } else { &[When::Saved] };
        for when in all {
            let Outcome { code, output, written, keeps_edits } = run(row, &baseline, change, *when);
            let as_expected = if refuses {
                code == 3 && written.is_empty()
            } else {
                written.is_subset(&baseline.written) && (keeps_edits || change.name != EDITED)
            };
            if !as_expected {
                let cell = format!("{} × {} ({when:?})", row.command, change.name);
                wrong.push(format!("=== {cell}: exit {code}, wrote {written:?}\n{output}"));
            }
        }
    }
    wrong
}

#[test]
fn every_write_command_is_in_the_table() {
    // `apply-plan` applies the saved plan of each row.
    for command in confirmation::COMMANDS.iter().filter(|command| command.name != "apply-plan") {
        let mut rows = COMMANDS.iter();
        assert!(rows.any(|row| row.command.starts_with(command.name)), "{}", command.name);
    }
}

#[test]
fn no_change_is_applied_silently() {
    let only = std::env::var("ROWS_OF").unwrap_or_default();
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let rows = || {
        while let Some(row) = COMMANDS.get(next.fetch_add(1, Ordering::Relaxed)) {
            if row.command.contains(&only) {
                let found = check(row);
                wrong.lock().expect("no panic").extend(found);
            }
        }
    };
    std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(rows))));
    let wrong = wrong.into_inner().expect("no panic");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
