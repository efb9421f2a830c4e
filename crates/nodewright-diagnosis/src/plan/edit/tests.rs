//! Edits of values that have changed since the plan.

use super::*;
use crate::api::{ApiFlavor, Stage, State, keys};
use crate::plan::Target;
use crate::plan::edit::{At, Move};

const STATE: &str = r#"{"a|1":{"name":"a","version":"1","stage":"apply","state":"erroring","restarts":3},"b|1":{"name":"b","version":"1","stage":"config","state":"complete"}}"#;

fn key() -> String {
    keys::node_state(ApiFlavor::NodeWright, "gpu")
}

fn removal() -> Edit {
    let mut state = NodeState::default();
    state.add(&key(), None, STATE);
    let (_, to) = state.without_entry("a|1").expect("the state has the entry");
    Edit::new(Some(STATE), to.as_deref()).on_conflict(OnConflict::MoveEntries(vec![Move {
        entry: "a|1".into(),
        from: Some(At {
            stage: Stage::Apply,
            state: State::Erroring,
            text: state.entry_text("a|1").expect("the state has the entry").into(),
        }),
        to: None,
        onward: true,
        retried: false,
    }]))
}

/// The entry is removed at the stage that it has reached, and restored there.
#[test]
fn an_entry_under_way_is_removed_from_where_it_is() {
    let (running, further) = (
        STATE.replace("erroring", "in_progress"),
        STATE.replace(r#""apply","state":"erroring""#, r#""config","state":"complete""#),
    );
    let mut edit = removal();
    edit.from = Some(running);
    let OnConflict::MoveEntries(moves) = &mut edit.on_conflict else {
        panic!("the edit moves entries");
    };
    moves[0].from.as_mut().expect("the entry existed").state = State::InProgress;
    let Rebased::Same(sent) = edit.rebase(&key(), Some(&further)) else {
        panic!("the edit still applies");
    };
    assert_eq!(sent.to, removal().to);
    let back = sent.inverse().rebase(&key(), removal().to.as_deref());
    assert!(
        matches!(back, Rebased::Same(e) if state_of(&key(), e.to.as_deref()).entry("a|1").is_some_and(|e| e.stage == Stage::Config))
    );
    let uninstalling = further.replacen("config", "uninstall", 1);
    assert!(matches!(edit.rebase(&key(), Some(&uninstalling)), Rebased::Moved(_)));
    moves_on(&mut edit, false);
    assert!(matches!(edit.rebase(&key(), Some(&further)), Rebased::Moved(_)));
}

fn moves_on(edit: &mut Edit, onward: bool) {
    if let OnConflict::MoveEntries(moves) = &mut edit.on_conflict {
        moves.iter_mut().for_each(|m| m.onward = onward);
    }
}

#[test]
fn an_entry_edit_survives_what_happens_to_other_entries() {
    let now = STATE.replace(r#""stage":"config""#, r#""stage":"interrupt""#);
    let Rebased::Same(edit) = removal().rebase(&key(), Some(&now)) else {
        panic!("the edit still applies");
    };
    assert_eq!(
        edit.to.as_deref(),
        Some(r#"{"b|1":{"name":"b","version":"1","stage":"interrupt","state":"complete"}}"#)
    );
}

#[test]
fn an_entry_edit_is_given_up_when_its_entry_moved() {
    let now = STATE.replace("erroring", "complete");
    assert_eq!(
        removal().rebase(&key(), Some(&now)),
        Rebased::Moved("a|1 changed from apply/erroring to apply/complete".into())
    );
    let gone = removal().to;
    assert_eq!(removal().rebase(&key(), gone.as_deref()), Rebased::Done);
}

#[test]
fn an_entry_is_put_back_beside_what_came_since() {
    let undo = removal().inverse();
    let now = r#"{"c|2":{"name":"c","version":"2","stage":"apply","state":"in_progress"}}"#;
    let Rebased::Same(edit) = undo.rebase(&key(), Some(now)) else {
        panic!("the edit still applies");
    };
    assert_eq!(
        edit.to.as_deref(),
        Some(
            r#"{"c|2":{"name":"c","version":"2","stage":"apply","state":"in_progress"},"a|1":{"name":"a","version":"1","stage":"apply","state":"erroring","restarts":3}}"#
        )
    );
}

#[test]
fn a_whole_state_may_only_change_where_it_does_not_matter() {
    let edit = Edit::new(Some(STATE), None).on_conflict(OnConflict::IfStillFailing);
    let restarted = STATE.replace(r#""restarts":3"#, r#""restarts":4"#);
    assert!(matches!(edit.rebase(&key(), Some(&restarted)), Rebased::Same(_)));
    let moved = STATE.replace("erroring", "complete");
    assert_eq!(
        edit.rebase(&key(), Some(&moved)),
        Rebased::Moved("a|1 changed from apply/erroring to apply/complete".into())
    );
    assert_eq!(edit.rebase(&key(), None), Rebased::Done);
    let malformed = edit.rebase(&key(), Some("{"));
    assert_eq!(malformed, Rebased::Moved(format!("{} has changed", key())));
}

/// Rollouts continue between the plan and the pause of the operator.
#[test]
fn a_whole_state_may_only_progress() {
    let edit = Edit::new(Some(STATE), None).on_conflict(OnConflict::IfStillFailing);
    let is_same = |now: &str| matches!(edit.rebase(&key(), Some(now)), Rebased::Same(_));
    let running = STATE.replace("complete", "in_progress");
    let third = r#","c|1":{"name":"c","version":"1","stage":"apply","state":"in_progress"}}"#;
    let one_more = STATE.replace("}}", &format!("}}{third}"));
    for (now, expected) in [
        (running.as_str(), true),
        (&running.replace("config", "interrupt"), true),
        (&one_more, true),
        (&one_more.replace(r#""apply","state":"in"#, r#""uninstall","state":"in"#), false),
        (&running.replace("config", "uninstall"), false),
        ("{}", false),
    ] {
        assert_eq!(is_same(now), expected, "{now}");
    }
}

#[test]
fn a_value_is_a_value() {
    let edit = Edit::new(Some("true"), None);
    assert_eq!(edit.rebase("k", Some("no")), Rebased::Moved("k has changed".into()));
    assert_eq!(edit.rebase("k", None), Rebased::Done);
    let loose = edit.clone().on_conflict(OnConflict::Overwrite).rebase("k", Some("no"));
    assert_eq!(loose, Rebased::Same(Edit::new(Some("no"), None).on_conflict(OnConflict::Overwrite)));
    assert_eq!(edit.inverse().inverse(), edit);
    let back = edit.on_conflict(OnConflict::Overwrite).inverse();
    assert_eq!(back.rebase("k", Some("newer")), Rebased::Done);
    assert_eq!(back.rebase("k", None), Rebased::Same(back.clone()));
}

fn step(change: Change) -> Step {
    Step::new(Target::node("gpu-1", None), change, "a test")
}

fn label(to: Option<&str>) -> Step {
    step(Change::Metadata(Metadata::default().label("key", Edit::new(Some("old"), to))))
}

fn entry(name: &str, to: Option<State>) -> Step {
    let at = |state| At { stage: Stage::Apply, state, text: String::new() };
    let one = Move {
        entry: name.to_owned(),
        from: Some(at(State::Erroring)),
        to: to.map(at),
        onward: false,
        retried: false,
    };
    let edit = Edit::new(Some("all"), Some(name)).on_conflict(OnConflict::MoveEntries(vec![one]));
    step(Change::Metadata(Metadata::default().annotation("nodeState", edit)))
}

fn status(path: &[&str], to: Option<Value>) -> Step {
    let field = Field::new(path.iter().copied(), None, to);
    step(Change::Status(vec![field]))
}

#[test]
fn what_agrees_is_done_one_after_the_other() {
    let delete = || step(Change::Delete { was: None });
    for (a, b, apart) in [
        (label(None), label(None), None),
        (label(None), label(Some("new")), Some("key")),
        (entry("a|1", None), entry("b|1", None), None),
        (entry("a|1", None), entry("a|1", None), None),
        (entry("a|1", None), entry("a|1", Some(State::Complete)), Some("nodeState")),
        (delete(), delete(), None),
        (delete(), label(None), Some("the whole object")),
        (status(&["status", "places"], None), status(&["status", "places", "gpu-1"], None), None),
        (
            status(&["status", "batch"], Some(json!({"at": 1}))),
            status(&["status", "batch", "at"], Some(json!(2))),
            Some("status.batch.at"),
        ),
        (status(&["status", "a"], None), status(&["status", "b"], Some(json!(1))), None),
    ] {
        let apart = apart.map(str::to_owned);
        assert_eq!(a.contradicts(&b), apart, "{a:?} {b:?}");
        assert_eq!(b.contradicts(&a), apart, "{b:?} {a:?}");
    }
    let elsewhere = Step { target: Target::node("gpu-2", None), ..label(Some("new")) };
    assert_eq!(label(None).contradicts(&elsewhere), None);
}
