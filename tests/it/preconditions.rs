//! What a plan relies on changes under the question, after the plan was saved, or before the first write.
//!
//! [`COMMANDS`] × [`CHANGES`]: a command refuses the changes that its row lists, and leaves every object as it
//! is. With any other change, it writes at most the objects that it writes without the change, and keeps the
//! values that someone else has edited.
//!
//! [`COMMANDS`] × [`CHANGES_OF_EFFECTS`]: a command is refused after a change for which its preview shows larger effects.

mod cases;
mod during;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::support::fake_api::State;
use crate::support::sample::{every_case, some};
use crate::support::terminal::Terminal;
use crate::support::test_cluster::TestCluster;
use crate::writes::confirmation;
use cases::{CHANGES, CHANGES_OF_EFFECTS, COMMANDS, Change, EDITED, Row, edits};

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
    /// The sizes of its effects.
    effects: BTreeMap<String, u64>,
}

/// The numbers in a command's preview; none if it is refused.
fn effects(cluster: &TestCluster, row: &Row) -> BTreeMap<String, u64> {
    let ran = cluster.run(&format!("{} --dry-run -o json", row.command));
    let mut sizes = BTreeMap::new();
    if ran.code != Some(0) {
        return sizes;
    }
    let plan = ran.json();
    let shown = &plan["consequences"];
    let grade = plan["grade"].as_str().and_then(|grade| grade.strip_prefix('B')).expect("a grade");
    sizes.insert("grade".to_owned(), grade.parse().expect("a number"));
    for what in ["nodes", "drains", "restarts", "reboots"] {
        sizes.insert(what.to_owned(), shown[what].as_u64().expect("a number"));
    }
    for rollout in shown["rollouts"].as_array().into_iter().flatten() {
        let name = &rollout["skyhook"];
        for what in ["batch", "evictedPods"] {
            sizes.insert(format!("{what} of {name}"), rollout[what].as_u64().unwrap_or_default());
        }
        let cordoned = rollout["cordoned"].as_array().map_or(0, Vec::len);
        sizes.insert(format!("cordoned by {name}"), cordoned as u64);
    }
    sizes
}

/// Whether the effects of a command are larger after a change than in its preview.
fn grows(row: &Row, baseline: &Baseline, change: &Change) -> bool {
    let cluster = (row.cluster)();
    cluster.fake.change(change.make);
    let now = effects(&cluster, row);
    now.iter().any(|(what, size)| *size > baseline.effects.get(what).copied().unwrap_or_default())
}

impl Baseline {
    fn of(row: &Row) -> Baseline {
        let cluster = (row.cluster)();
        let preview = cluster.run(&format!("{} --dry-run", row.command)).stdout;
        let effects = effects(&cluster, row);
        let before = cluster.fake.objects();
        let ran = cluster.with_operator(|| cluster.run(&format!("{} --confirm", row.command)));
        let written = differences(before, cluster.fake.objects());
        assert!(!written.is_empty(), "{}", ran.transcript());
        let asks_for_name = preview.contains("; B3)") || preview.contains("; B4)");
        Baseline { asks_for_name, written, effects }
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

/// Runs the cells of a row; returns those that are wrong, and the changes that enlarge the effects.
fn check(row: &Row) -> (Vec<String>, Vec<&'static str>) {
    let baseline = Baseline::of(row);
    let mut wrong = Vec::new();
    let changes = CHANGES.iter().filter(|change| !row.cannot_happen.contains(&change.name));
    let refused: &[When] = &[When::Question, When::Saved, When::Confirmed];
    let mut cells: Vec<(&Change, bool, &[When])> =
        changes.map(|change| (change, row.refuses.contains(&change.name), refused)).collect();
    let mut enlarge = Vec::new();
    for change in CHANGES_OF_EFFECTS {
        let grows = grows(row, &baseline, change);
        enlarge.extend(grows.then_some(change.name));
        cells.push((change, grows, &[When::Question, When::Saved]));
    }
    for (change, refuses, refused) in cells {
        for when in if refuses { refused } else { &[When::Saved] } {
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
    (wrong, enlarge)
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
    let rows = some(COMMANDS, 6);
    let next = AtomicUsize::new(0);
    let found = Mutex::new((Vec::new(), BTreeSet::new()));
    let check_rows = || {
        while let Some(row) = rows.get(next.fetch_add(1, Ordering::Relaxed)) {
            if row.command.contains(&only) {
                let (wrong, enlarge) = check(row);
                let mut found = found.lock().expect("no panic");
                found.0.extend(wrong);
                found.1.extend(enlarge);
            }
        }
    };
    std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(check_rows))));
    let (wrong, enlarge) = found.into_inner().expect("no panic");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let all: BTreeSet<&str> = CHANGES_OF_EFFECTS.iter().map(|change| change.name).collect();
    assert!(!every_case() || !only.is_empty() || enlarge == all, "only {enlarge:?} enlarge effects");
}
