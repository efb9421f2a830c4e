//! The journal, and the way back.

use kubectl_skyhook::api::ApiFlavor;
use serde_json::{Value, json};

use super::Stage;

#[test]
fn journal_shows_what_was_done() {
    let stage = Stage::of("complete");
    stage.run("pause gpu-tune --confirm").expect_code(0);
    let list = stage.run("journal list -o json");
    list.expect_code(0);
    let items = list.json()["items"].clone();
    assert_eq!(items[0]["title"], json!("pause gpu-tune"));
    assert_eq!(
        (&items[0]["changed"], &items[0]["takenBack"]),
        (&json!(1), &json!(false))
    );
    let id = items[0]["id"].as_str().expect("an id").to_owned();
    let show = stage.run(&format!("journal show {id}"));
    show.expect_code(0);
    show.expect_stdout("skyhook/gpu-tune  changed  set annotation");
    stage.run(&format!("undo {id} --confirm")).expect_code(0);
    assert_eq!(
        stage.cr().expect("it is there")["metadata"]["annotations"]
            [ApiFlavor::Skyhook.key("pause")],
        Value::Null
    );
    let list = stage.run("journal list -o json").json();
    let taken: Vec<&Value> = list["items"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|i| &i["takenBack"])
        .collect();
    assert_eq!(taken, [&json!(false), &json!(true)]);
}

/// The id of the newest journal.
fn newest(stage: &Stage) -> String {
    let list = stage.run("journal list -o json").json();
    list["items"][0]["id"].as_str().expect("an id").to_owned()
}

#[test]
fn undo_reverts_the_newest_command_in_force_and_names_it() {
    let stage = Stage::of("complete");
    stage.run("pause gpu-tune --confirm").expect_code(0);
    let a = newest(&stage);
    stage.run("disable gpu-tune --confirm").expect_code(0);
    let b = newest(&stage);
    let in_force = || (stage.noted("pause"), stage.noted("disable"));

    stage.run(&format!("undo {a} --confirm")).expect_code(0);
    assert_eq!(in_force(), (Value::Null, json!("true")));
    let undone = stage.run("undo --confirm");
    undone.expect_code(0);
    let says = format!("Most recent command not yet undone: disable gpu-tune (journal {b})\n");
    assert!(undone.stderr.starts_with(&says), "{}", undone.transcript());
    assert_eq!(in_force(), (Value::Null, Value::Null));
    let nothing = stage.run("undo --confirm");
    nothing.expect_code(1);
    assert!(
        nothing
            .stderr
            .contains("nothing to undo: every command recorded in")
            && nothing.stderr.contains("kubectl skyhook journal list"),
        "{}",
        nothing.transcript()
    );
}

#[test]
fn missing_journal_is_reported() {
    let stage = Stage::of("complete");
    for words in ["undo --confirm", "journal show"] {
        let ran = stage.run(words);
        ran.expect_code(1);
        assert_eq!(ran.stdout, "");
        ran.expect_stderr("no journal in ");
    }
    // The newest is shown, also where it is an undo.
    stage.run("pause gpu-tune --confirm").expect_code(0);
    stage.run("undo --confirm").expect_code(0);
    let show = stage.run("journal show");
    show.expect_code(0);
    assert!(
        show.stdout.starts_with("undo \"pause gpu-tune\""),
        "{}",
        show.transcript()
    );
}

#[test]
fn undone_undo_leaves_the_command_in_force() {
    let stage = Stage::of("complete");
    stage.run("pause gpu-tune --confirm").expect_code(0);
    let a = newest(&stage);
    stage.run("undo --confirm").expect_code(0);
    let undo = newest(&stage);
    stage.run(&format!("undo {undo} --confirm")).expect_code(0);
    assert_eq!(stage.noted("pause"), json!("true"));
    let list = stage.run("journal list -o json").json();
    let taken = |id: &str| {
        let items = list["items"].as_array().expect("a list");
        items.iter().find(|i| i["id"] == *id).expect("it is listed")["takenBack"].clone()
    };
    assert_eq!((taken(&a), taken(&undo)), (json!(false), json!(true)));
    let again = stage.run("undo --confirm");
    again.expect_code(0);
    again.expect_stderr(&a);
    assert_eq!(stage.noted("pause"), Value::Null);
}

#[test]
fn partial_undo_is_repeated() {
    let stage = Stage::of("apply-erroring");
    let before = stage.objects();
    stage
        .run("reset gpu-tune --confirm --no-pause")
        .expect_code(0);
    let reset = newest(&stage);
    stage.fake.on("PATCH nodes node-2").times(1).reply(403);
    stage.run("undo --confirm").expect_code(4);
    assert_eq!(stage.keys("node-2"), [""; 0]);
    let again = stage.run("undo --confirm");
    again.expect_code(0);
    again.expect_stderr(&reset);
    assert_eq!(stage.objects(), before);
    stage.run("undo --confirm").expect_code(1);
}
