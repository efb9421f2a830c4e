//! The pause of a reset that was killed: its report and its end.

use serde_json::{Value, json};

use super::{DONE, HOLD, REASON, RESET, erroring};
use crate::support::run::{Child, run};

#[test]
fn pause_of_a_killed_reset_is_reported_and_can_be_ended() {
    for (words, reset) in [
        ("resume gpu-tune --confirm", false),
        (RESET, true),
        ("undo --confirm", false),
        ("package rerun driver --skyhook gpu-tune --all-nodes --confirm", false),
    ] {
        let cluster = erroring();
        let before = cluster.objects();
        cluster.kill_a_reset();
        let report = cluster.run("diagnose stuck -o json");
        let found: Vec<Value> = report.json()["findings"].as_array().expect("a list").clone();
        let codes: Vec<&Value> = found.iter().map(|f| &f["code"]).collect();
        assert!(codes.contains(&&json!("SKY311")), "{codes:?}");
        assert!(!codes.contains(&&json!("SKY308")), "{codes:?}");
        let ran = cluster.with_operator(|| cluster.run(words));
        ran.expect_code(0);
        let after = cluster.reset_and_paused();
        assert_eq!((&after.1, &after.2), (&Value::Null, &Value::Null), "{}", ran.transcript());
        assert_eq!(cluster.annotation(REASON), Value::Null);
        assert!(after.0 || !reset, "{}", ran.transcript());
        if words.starts_with("undo") {
            let mut now = cluster.objects();
            now[3]["status"] = before[3]["status"].clone();
            assert!(now == before, "{}", ran.transcript());
        }
    }
}

#[test]
fn capture_reports_the_pause_of_an_ended_command() {
    let cluster = erroring();
    cluster.kill_a_reset();
    let file = cluster.state.path().join("capture.tar.gz");
    let file = file.display();
    let collected = cluster.run(&format!("collect -o {file}"));
    assert!(matches!(collected.code, Some(0 | 4)), "{}", collected.transcript());
    let report = run(&format!("diagnose stuck --from {file} -o json")).output();
    let report = report.json();
    let mut found = report["findings"].as_array().into_iter().flatten();
    assert!(found.any(|f| f["code"] == "SKY311"), "{report:#}");
}

/// The command is killed right after its pause, before any other write.
#[test]
fn undo_ends_the_pause_of_a_command_killed_after_it() {
    for theirs in [false, true] {
        let cluster = erroring();
        let before = cluster.objects();
        let child = Child::default();
        cluster.fake.on("GET skyhooks").nth(3).after(child.kill());
        let ran = cluster.command(RESET).child(&child).output();
        assert_eq!(ran.code, None, "{}", ran.transcript());
        cluster.fake.heal();
        assert_eq!(cluster.cr_annotation("pause"), json!("true"));
        let list = cluster.run("journal list -o json").json();
        let id = list["items"][0]["id"].as_str().expect("an id").to_owned();
        // The user's pause has replaced that of the command, so `undo` has nothing to remove.
        if theirs {
            cluster.run("pause gpu-tune --confirm --reason mine").expect_code(0);
        }
        let undone = cluster.run(&format!("undo {id} --confirm"));
        undone.expect_code(0);
        if theirs {
            assert_eq!(cluster.annotation(REASON), json!("mine"))
        } else {
            assert!(cluster.objects() == before, "{}", undone.transcript())
        }
        assert_eq!(cluster.cr_annotation("pause"), if theirs { json!("true") } else { Value::Null });
    }
}

#[test]
fn undo_does_not_restore_a_pause_that_was_taken_over() {
    let cluster = erroring();
    cluster.kill_a_reset();
    cluster.with_operator(|| cluster.run(RESET)).expect_code(0);
    assert_eq!(cluster.reset_and_paused(), DONE);
    let undone = cluster.with_operator(|| cluster.run("undo --confirm"));
    undone.expect_code(0);
    assert_eq!(cluster.cr_annotation("pause"), Value::Null, "{}", undone.transcript());
    assert_eq!(cluster.annotation(HOLD), Value::Null);
}
