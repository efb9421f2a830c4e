//! Pauses on objects that others change as well.

use super::*;

const KEY: &str = "example.com/pause";

fn object(annotations: Value) -> Value {
    json!({"metadata": {"name": "gpu", "resourceVersion": "7", "annotations": annotations}})
}

/// The pause and its end for an object, signed by this holder.
fn pair(object: &Value, holder: &str) -> [Hold; 2] {
    let annotations = |key: &str| annotation(object, key);
    let [mut pause, mut end] = Hold::around(KEY, "reset gpu", annotations, None);
    pause.sign(holder, false);
    end.sign(holder, true);
    [pause, end]
}

/// The object after the rebased change, checked against the tests of its request.
fn applied(rebased: Rebased<Hold>, object: &Value) -> Value {
    let Rebased::Same(hold) = rebased else { panic!("{rebased:?}") };
    for (pointer, expected) in hold.tests() {
        assert_eq!(lookup(object, &pointer).cloned().unwrap_or(Value::Null), expected, "{pointer}");
    }
    let mut after = object.clone();
    hold.edits().write(&mut after);
    after
}

#[test]
fn a_pause_and_its_end_lead_back() {
    for before in [json!({}), json!({"example.com/theirs": "stays"}), json!({REASON: "mine"})] {
        let before = object(before);
        let [pause, end] = pair(&before, "me");
        let paused = applied(pause.rebase(&before), &before);
        assert_eq!(paused["metadata"]["annotations"][KEY], "true");
        assert_eq!(paused["metadata"]["annotations"][REASON], "held for: reset gpu");
        assert_eq!(paused["metadata"]["annotations"][HOLDER], "me");
        assert_eq!(pause.rebase(&paused), Rebased::Done);
        assert_eq!(applied(end.rebase_end(&paused), &paused), before);
        assert_eq!(end.rebase_end(&before), Rebased::Done);
    }
}

#[test]
fn the_version_of_the_object_is_tested() {
    let before = object(json!({}));
    let [pause, _] = pair(&before, "me");
    assert!(pause.tests().iter().all(|(pointer, _)| pointer != VERSION), "before the object is read");
    let Rebased::Same(read) = pause.rebase(&before) else { panic!("the pause applies") };
    assert!(read.tests().contains(&(VERSION.to_owned(), json!("7"))));
    assert_eq!(read.operations()[0], test(VERSION, json!("7")));
}

#[test]
fn a_pause_of_another_holder_is_left_unless_it_is_replaced() {
    let before = object(json!({}));
    let [theirs, _] = pair(&before, "them");
    let paused = applied(theirs.rebase(&before), &before);
    let [mut pause, end] = pair(&before, "me");
    assert_eq!(pause.rebase(&paused), Rebased::Moved("held by someone (reset gpu)".to_owned()));
    assert_eq!(pause.of_another(&paused).map(|found| found.identity), Some("them"));
    assert_eq!(end.rebase_end(&paused), Rebased::Done);
    assert_eq!(
        Change::Release(end.clone()).left_to_another(&paused).as_deref(),
        Some("paused by someone else")
    );
    pause.replace("somebody else");
    assert!(matches!(pause.rebase(&paused), Rebased::Moved(_)));
    pause.replace("them");
    assert_eq!(applied(pause.rebase(&paused), &paused)["metadata"]["annotations"][HOLDER], "me");
    // A pause that no command holds suffices, and is not ours to end.
    let by_hand = object(json!({KEY: "true"}));
    assert_eq!(pause.rebase(&by_hand), Rebased::Done);
    assert_eq!(end.rebase_end(&by_hand), Rebased::Done);
    assert_eq!(pause.of_another(&by_hand), None);
}

#[test]
fn the_end_keeps_what_others_have_written() {
    let before = object(json!({}));
    let [pause, end] = pair(&before, "me");
    let paused = applied(pause.rebase(&before), &before);
    let end_of = |object: &Value| match end.rebase_end(object) {
        Rebased::Same(end) => (end.reason_to_keep().map(str::to_owned), applied(Rebased::Same(end), object)),
        other => panic!("{other:?}"),
    };
    assert_eq!(end_of(&paused), (None, before.clone()));

    let mut reasoned = paused.clone();
    reasoned["metadata"]["annotations"][REASON] = json!("maintenance");
    let (why, after) = end_of(&reasoned);
    assert_eq!(why.as_deref(), Some("someone else set another reason for the pause"));
    assert_eq!(after["metadata"]["annotations"], json!({KEY: "true", REASON: "maintenance"}));

    let mut managed = paused.clone();
    let field = format!("f:{KEY}");
    managed["metadata"]["managedFields"] = json!([
        {"manager": FIELD_MANAGER, "fieldsV1": {"f:metadata": {"f:annotations": {&field: {}}}}},
        {"manager": "argocd", "fieldsV1": {"f:metadata": {"f:annotations": {&field: {}}}}},
    ]);
    let (why, after) = end_of(&managed);
    assert_eq!(why.as_deref(), Some("argocd also paused the custom resource"));
    assert_eq!(after["metadata"]["annotations"], json!({KEY: "true"}));

    let mut resumed = paused;
    resumed["metadata"]["annotations"][KEY] = json!("false");
    let (why, after) = end_of(&resumed);
    assert_eq!((why, &after["metadata"]["annotations"]), (None, &json!({KEY: "false"})));
}

#[test]
fn values_of_an_abandoned_pause_are_not_restored() {
    let left = object(json!({KEY: "true", REASON: reason("reset net"), HOLDER: "dead"}));
    let annotations = |key: &str| annotation(&left, key);
    let [mut pause, mut end] = Hold::around(KEY, "reset gpu", annotations, Some("dead"));
    pause.sign("me", false);
    end.sign("me", true);
    let paused = applied(pause.rebase(&left), &left);
    assert_eq!(paused["metadata"]["annotations"][REASON], "held for: reset gpu");
    let after = applied(end.rebase_end(&paused), &paused);
    assert_eq!(after["metadata"].get("annotations").and_then(Value::as_object).map_or(0, |a| a.len()), 0);
    // The undo of the pause does not restore them either.
    let mut undo = pause.inverse();
    assert_eq!(undo.holder, None);
    undo.sign("me", true);
    let after = applied(undo.rebase_end(&paused), &paused);
    assert_eq!(after["metadata"]["annotations"].get(KEY), None);
}

#[test]
fn the_inverse_of_an_end_replaces_a_pause_that_was_never_ended() {
    let before = object(json!({}));
    let [pause, end] = pair(&before, "me");
    let paused = applied(pause.rebase(&before), &before);
    let mut again = end.inverse();
    again.sign("undo", false);
    let after = applied(again.rebase(&paused), &paused);
    assert_eq!(after["metadata"]["annotations"][HOLDER], "undo");
    let own_end = pause.end_of_itself().expect("the pause has a holder");
    assert_eq!(applied(own_end.rebase_end(&paused), &paused), before);
    let [unsigned, _] = Hold::around(KEY, "reset gpu", |_| None, None);
    assert_eq!(unsigned.end_of_itself(), None);
}

#[test]
fn only_our_own_pause_is_stripped_from_a_new_object() {
    for (annotations, left) in [
        (json!({KEY: "true", REASON: reason("x"), HOLDER: "me", "other": "1"}), json!({"other": "1"})),
        (json!({KEY: "true", REASON: STRIPPED_REASON}), json!({})),
        (
            json!({KEY: "true", REASON: "maintenance", HOLDER: "me"}),
            json!({KEY: "true", REASON: "maintenance"}),
        ),
        (json!({KEY: "true", REASON: "maintenance"}), json!({KEY: "true", REASON: "maintenance"})),
        (json!({KEY: "true"}), json!({KEY: "true"})),
    ] {
        let mut new = object(annotations);
        strip(&mut new);
        assert_eq!(new["metadata"]["annotations"], left);
    }
    let mut made = object(json!({HOLDER: WHOEVER}));
    sign_made(&mut made, "me");
    assert_eq!(made["metadata"]["annotations"][HOLDER], "me");
}
