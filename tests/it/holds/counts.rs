//! The counts of a reset with its own pause.

use serde_json::{Value, json};

use super::{RESET, erroring};
use crate::support::fake_api::Reply;
use crate::support::run::RunOutput;

/// The counts of an outcome, and the number of all its steps, including setting and ending the pause.
fn counts(ran: &RunOutput) -> (Value, usize) {
    let outcome = ran.json();
    let steps = outcome["steps"].as_array().expect("a list").len();
    (outcome["counts"].clone(), steps)
}

#[test]
fn a_pause_of_our_own_that_is_set_and_ended_is_not_counted() {
    let cluster = erroring();
    let ran = cluster.with_operator(|| cluster.run(&format!("{RESET} -o json")));
    ran.expect_code(0);
    let (reset, steps) = counts(&ran);
    assert_eq!(reset["applied"], json!(steps - 2), "{}", ran.transcript());
    let work = steps - 2;
    let listed = cluster.run("journal list -o json").json();
    let entry = &listed["items"][0];
    assert_eq!((&entry["changed"], &entry["steps"]), (&json!(work), &json!(work)));
    let listed = cluster.run("journal list");
    listed.expect_stdout(format!("  {work}/{work}  "));
    let shown = cluster.run("journal show");
    shown.expect_stdout(format!("\n{work} changes; to undo: "));
    let undone = cluster.with_operator(|| cluster.run("undo --confirm"));
    undone.expect_code(0);
    let says = format!("({work} changes): {work} changed\n");
    assert!(undone.stdout.contains(&says), "{}", undone.transcript());
}

#[test]
fn a_pause_that_cannot_be_set_or_ended_is_counted() {
    for (nth, applied) in [(1, false), (2, true)] {
        let cluster = erroring();
        let refused = cluster.fake.on("PATCH skyhooks").nth(nth).times(100);
        refused.reply(Reply::from(403));
        let ran = cluster.with_operator(|| cluster.run(&format!("{RESET} -o json")));
        let (reset, steps) = counts(&ran);
        let work = steps - 2;
        let (applied, not_reached) = if applied { (work, 0) } else { (0, work) };
        let expected = json!({
            "applied": applied,
            "unchanged": 0,
            "gone": 0,
            "kept": 0,
            "skipped": 0,
            "failed": 1,
            "unknown": 0,
            "notReached": not_reached,
        });
        assert_eq!(reset, expected, "{}", ran.transcript());
    }
}

/// The second undo only ends the pause, so the pause counts as a change.
#[test]
fn the_end_of_a_pause_that_an_earlier_command_has_left_is_counted() {
    let cluster = erroring();
    cluster.with_operator(|| cluster.run(RESET)).expect_code(0);
    let ends = cluster.fake.on("PATCH skyhooks").nth(2).times(100);
    ends.reply(Reply::from(403));
    cluster.with_operator(|| cluster.run("undo --confirm")).expect_code(4);
    cluster.fake.heal();
    let again = cluster.with_operator(|| cluster.run("undo --confirm"));
    again.expect_code(0);
    again.expect_stdout("undo \"reset gpu-tune on 3 nodes\" (only its pause remains): ");
    let says = ": 1 changed, 4 unchanged\n";
    assert!(again.stdout.contains(says), "{}", again.transcript());
}
