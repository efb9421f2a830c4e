//! A plan pauses the operator, resets a package on nodes and resumes the operator, while the operator and
//! users write to the same objects between its requests: the plan overwrites no value and no pause of another
//! writer, deleted values stay deleted, and `undo` reverts only the plan's own changes.
//!
//! `FUZZ_CASES=N cargo test --test it -- interleaved --nocapture` runs N schedules, from a new seed each
//! time.

mod history;
mod write;

use std::sync::{Arc, Mutex};

use kubectl_skyhook::apply::journal::{Circumstances, Store};
use kubectl_skyhook::apply::{StepResult, precondition};
use kubectl_skyhook::cluster::hold::{HOLDER, REASON};
use kubectl_skyhook::plan::{Condition, Goal, Hold};
use proptest::prelude::*;

use self::history::{History, Leaves, ValueChange, leaves, nodes_and_resources};
use self::write::{Write, acknowledge, write};
use super::*;
use crate::support::fake_api::{FakeApi, State as Api};
use crate::support::fuzz::fuzz;

const NODES: [&str; 2] = ["gpu-0000", "gpu-0001"];
const CR: &str = "gpu";
/// The number of the last request before which others may write.
const LAST: usize = 24;

/// A server on which the scheduled writes happen right before the n-th request.
fn served(schedule: Vec<(usize, Write)>) -> (FakeApi, Arc<Mutex<History>>) {
    let fake = FakeApi::new().serving(FLAVOR);
    for name in NODES {
        fake.load(node(name));
    }
    fake.load(json!({
        "apiVersion": FLAVOR.api_version(), "kind": FLAVOR.kind(),
        "metadata": {"name": CR, "uid": "uid-gpu", "annotations": {"example.com/mark": "0"}},
        "spec": {"priority": 200}, "status": {"status": "in_progress"},
    }));
    let history = Arc::new(Mutex::new(History::default()));
    fake.change(|api| history.lock().expect("no panic").now = leaves(&nodes_and_resources(api)));
    let noted = history.clone();
    fake.on("* *").after(move |api: &mut Api| {
        let mut history = noted.lock().expect("no panic");
        history.requests += 1;
        history.record_our_changes(api);
        let number = history.requests;
        for (_, write) in schedule.iter().filter(|(at, _)| *at == number) {
            write.apply_to(api);
            match write {
                Write::Pause => history.paused_by_another = true,
                Write::Resume => history.paused_by_another = false,
                _ => {}
            }
        }
        acknowledge(api);
        history.record_other_changes(api);
    });
    (fake, history)
}

/// A plan that pauses the operator, removes package a from the node states, and resumes the operator.
fn plan() -> Plan {
    let target = Target::skyhook(FLAVOR, CR, Some("uid-gpu"));
    let [hold, end] = Hold::around(&FLAVOR.key("pause"), "reset gpu", |_| None, None);
    let step = |change| Step::new(target.clone(), change, "hold the operator");
    let mut plan = plan_of(&NODES.map(str::to_owned));
    plan.erroring = None;
    plan.stages.insert(
        0,
        PlanStage {
            steps: vec![step(Change::Hold(hold))],
            until: Some(Goal { target: target.clone(), condition: Condition::Paused, at_most: 5 }),
            ..PlanStage::default()
        },
    );
    plan.stages.push(PlanStage {
        steps: vec![step(Change::Release(end))],
        always: true,
        ..PlanStage::default()
    });
    plan
}

fn apply_plan(fake: &FakeApi, plan: &Plan, journal: Option<&mut Journal>) -> PlanOutcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    let options =
        Options { holder: precondition::of(jiff::Timestamp::UNIX_EPOCH, |_| None).identity(), ..options() };
    runtime.block_on(async {
        let (_stopper, stop) = Stopper::new();
        apply(&fake.client(), plan, &options, journal, &stop, &mut |_| {}, None).await
    })
}

/// The reason why the plan must not make this change; `None` if it may.
fn violation(change: &ValueChange) -> Option<&'static str> {
    let is = |key: &str| change.place.ends_with(&format!("/metadata/annotations/{key}"));
    if change.object == CR {
        let ours = [&FLAVOR.key("pause"), REASON, HOLDER].into_iter().any(is);
        return (!ours).then_some("somebody else's part of the custom resource");
    }
    let entry_of_a = change.place.ends_with(" a|1.0.0");
    let status = change.place.ends_with(&format!("/{}", status_key()));
    match (&change.from, &change.to) {
        (_, Some(_)) => Some("something is written on a node"),
        (Some(from), None) if entry_of_a => {
            let fails = from["stage"] == "apply" && from["state"] == "erroring";
            (!fails).then_some("an entry goes that is not what was to be reset")
        }
        (_, None) if status => None,
        _ => Some("somebody else's part of a node"),
    }
}

fn case(schedule: Vec<(usize, Write)>) -> Result<(), TestCaseError> {
    let directory = tempfile::tempdir().expect("a directory");
    let state = directory.path().to_string_lossy().into_owned();
    let store = Store::of(|name| (name == "XDG_STATE_HOME").then(|| state.clone()));
    let store = store.expect("a place");
    let (fake, history) = served(schedule);
    let plan = plan();
    let mut journal = Journal::begin(&store, &plan, Circumstances::default()).expect("a journal");
    let outcome = apply_plan(&fake, &plan, Some(&mut journal));
    fake.change(|api| history.lock().expect("no panic").record_our_changes(api));

    let (ours, theirs, forward, paused_by_another) = {
        let mut history = history.lock().expect("no panic");
        // Skip the rest of the schedule: nobody else writes during the undo. Take the recorded changes out of
        // the history, which then records only those of the undo.
        history.requests = LAST + 1;
        let ours = std::mem::take(&mut history.ours);
        let theirs = std::mem::take(&mut history.theirs);
        (ours, theirs, history.now.clone(), history.paused_by_another)
    };
    for change in &ours {
        prop_assert_eq!(violation(change), None, "{:?}: {:?}", change, outcome);
    }
    let of_cr = |leaves: &Leaves, key: &str| {
        let place = (CR.to_owned(), format!("/metadata/annotations/{key}"));
        leaves.get(&place).cloned()
    };
    let pause = FLAVOR.key("pause");
    let free = |leaves: &Leaves| -> Result<(), TestCaseError> {
        prop_assert_eq!(of_cr(leaves, HOLDER), None, "{:?}", &outcome);
        let (paused, reason) = (of_cr(leaves, &pause), of_cr(leaves, REASON));
        if paused_by_another {
            let kept = (Some(json!("true")), Some(json!("mine")));
            prop_assert_eq!((paused, reason), kept, "a pause is lost: {:?}", &outcome);
        } else {
            prop_assert_eq!((paused, reason), (None, None), "a pause is left: {:?}", &outcome);
        }
        Ok(())
    };
    free(&forward)?;
    for (at, result) in outcome.results.get(1).into_iter().flatten().enumerate() {
        let changed = ours.iter().any(|change| change.object == NODES[at]);
        let applied = *result == StepResult::Applied;
        prop_assert_eq!(applied, changed, "{}: {:?}", NODES[at], result);
    }

    let (undo, lost) = store.read(&journal.id).expect("a journal").undo();
    prop_assert!(lost.is_empty(), "{:?}", lost);
    let undone = apply_plan(&fake, &undo, None);
    fake.change(|api| history.lock().expect("no panic").record_our_changes(api));
    let history = history.lock().expect("no panic");
    free(&history.now)?;
    for back in history.ours.iter().filter(|change| change.object != CR) {
        let there = ours.iter().find(|there| (&there.object, &there.place) == (&back.object, &back.place));
        let way = there.map(|there| (there.to.clone(), there.from.clone()));
        let is = Some((back.from.clone(), back.to.clone()));
        prop_assert_eq!(way, is, "undo writes what was not there: {:?}", back);
    }
    // `undo` restores each value if nobody else has written to its node since.
    for (number, there) in ours.iter().enumerate().filter(|(_, c)| c.object != CR) {
        let since =
            |(before, change): &&(usize, ValueChange)| *before > number && change.object == there.object;
        if theirs.iter().filter(since).count() == 0 {
            let place = (there.object.clone(), there.place.clone());
            let now = history.now.get(&place).cloned();
            prop_assert_eq!(&now, &there.from, "{:?} is not taken back: {:?}", there, undone);
        }
    }
    Ok(())
}

/// The wait for the operator times out before any node is written; the operator itself removes the package.
#[test]
fn undo_does_not_restore_values_the_plan_never_changed() {
    let schedule = vec![(1, Write::Forget(0, "a")), (1, Write::Pause), (2, Write::Resume)];
    case(schedule).expect("each writer changes only its own values");
}

#[test]
fn interleaved_writers_keep_their_values() {
    let writes = prop::collection::vec((1..=LAST, write()), 0..12);
    fuzz("interleaved writers", 600, &writes, case);
}
