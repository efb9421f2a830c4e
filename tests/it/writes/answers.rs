//! What the server, or something before it, answers to a write.

use serde_json::json;

use super::{Stage, expect};
use crate::support::fake_api::{Problem, Reply};

const PAGE: &str = "<!DOCTYPE html><title>Sign in</title>";
const RERUN: &str = "node reset node-2 --skyhook gpu-tune --no-pause -y";

/// Nothing answers for the node any more but a page that asks to log in.
fn behind_a_page(stage: &Stage) {
    for verb in ["PATCH", "GET"] {
        stage
            .fake
            .on(&format!("{verb} nodes node-2"))
            .times(1_000_000)
            .reply(Reply::Body(PAGE.to_owned()));
    }
}

#[test]
fn a_login_page_is_not_a_change() {
    let stage = Stage::of("apply-erroring");
    let before = stage.node("node-2");
    stage
        .fake
        .on("PATCH nodes node-2")
        .times(1_000_000)
        .reply(Reply::Body(PAGE.to_owned()));
    let ran = stage.run(&format!("{RERUN} -o json"));
    expect(&ran, 1);
    assert_eq!(stage.node("node-2"), before);
    let counts = &ran.json()["counts"];
    assert_eq!(
        (&counts["applied"], &counts["failed"]),
        (&json!(0), &json!(1))
    );
    let why = "the server answered 200, but not with node/node-2";
    assert_eq!(ran.json()["steps"][0]["why"], why);
}

#[test]
fn what_nobody_can_tell_is_unknown_and_undo_is_offered() {
    let stage = Stage::of("apply-erroring");
    behind_a_page(&stage);
    let ran = stage.run(RERUN);
    expect(&ran, 4);
    let says = |text: &str| assert!(ran.stdout.contains(text), "{text}: {}", ran.transcript());
    says("1 unknown");
    says("may or may not have been made");
    says("to undo: kubectl skyhook undo ");
    let show = stage.run("journal show");
    assert!(show.stdout.contains("unknown"), "{}", show.transcript());

    let stage = Stage::of("apply-erroring");
    behind_a_page(&stage);
    let ran = stage.run(&format!("{RERUN} -o json"));
    expect(&ran, 4);
    assert_eq!(ran.json()["counts"]["unknown"], json!(1));
    assert_eq!(ran.json()["steps"][0]["result"], "unknown");
}

#[test]
fn an_undo_finds_out_what_was_made() {
    for made in [true, false] {
        let stage = Stage::of("apply-erroring");
        let before = stage.keys("node-2");
        behind_a_page(&stage);
        expect(&stage.run(RERUN), 4);
        if made {
            let mut node = stage.node("node-2");
            for map in ["annotations", "labels"] {
                let map = node["metadata"][map].as_object_mut().expect("a map");
                map.retain(|key, _| !key.ends_with("_gpu-tune"));
            }
            stage.fake.load(node);
        }
        stage.fake.heal();
        expect(&stage.run("undo -y"), 0);
        assert_eq!(stage.keys("node-2"), before, "made: {made}");
    }
}

#[test]
fn the_servers_wish_for_patience_is_said() {
    let stage = Stage::of("apply-erroring");
    let busy = Problem::too_many(1);
    stage.fake.on("PATCH nodes").times(2).reply(busy);
    let ran = stage.run(RERUN);
    expect(&ran, 0);
    let says = "throttled by the API server, retrying in 1 s\n";
    assert_eq!(ran.stderr.matches(says).count(), 1, "{}", ran.transcript());
}

#[test]
fn the_wait_is_no_longer_than_a_request_may_take() {
    let stage = Stage::of("apply-erroring");
    stage
        .fake
        .on("PATCH nodes")
        .times(1)
        .reply(Problem::too_many(3600));
    let ran = stage.run(&format!("{RERUN} --request-timeout 1s"));
    expect(&ran, 0);
    let says = "throttled by the API server, retrying in 1 s\n";
    assert!(ran.stderr.contains(says), "{}", ran.transcript());
}

/// A file may come from anybody: what is not a name could lead a request to another object.
#[test]
fn a_journal_or_plan_with_what_is_no_name_is_not_read() {
    for name in ["a/b", "..", "a b", "a%2Fb", "a#b", "a\\nb", "A", ""] {
        let stage = Stage::of("apply-erroring");
        let plan = stage.state.path().join("plan.json");
        let wanted = format!("{RERUN} --plan-out {}", plan.display());
        expect(&stage.run(&wanted), 0);
        expect(&stage.run(RERUN), 0);
        let journals = stage.state.path().join("kubectl-skyhook/journal");
        let journal = std::fs::read_dir(journals).expect("a folder").next();
        let journal = journal.expect("a journal").expect("a file").path();
        let before = stage.writes().len();
        for file in [&plan, &journal] {
            let text = std::fs::read_to_string(file).expect("text");
            let text = text
                .replace(r#""name": "node-2""#, &format!(r#""name": "{name}""#))
                .replace(r#""name":"node-2""#, &format!(r#""name":"{name}""#));
            std::fs::write(file, text).expect("a file");
        }
        let apply = format!("apply-plan {} -y", plan.display());
        for words in [apply.as_str(), "undo -y"] {
            let ran = stage.run(words);
            expect(&ran, 1);
            assert!(
                ran.stderr.contains("is not the name of an object"),
                "{}",
                ran.transcript()
            );
        }
        assert_eq!(stage.writes().len(), before, "{name:?}");
    }
}
