//! `journal` and `undo`.

use kubectl_skyhook::api::ApiFlavor;
use serde_json::{Value, json};

use super::TestCluster;

#[test]
fn journal_shows_what_was_done() {
    let cluster = TestCluster::from_capture("complete");
    cluster.run("pause gpu-tune --confirm").expect_code(0);
    let list = cluster.run("journal list -o json");
    list.expect_code(0);
    let items = list.json()["items"].clone();
    assert_eq!(items[0]["title"], json!("pause gpu-tune"));
    assert_eq!((&items[0]["changed"], &items[0]["undone"]), (&json!(1), &json!(false)));
    let id = items[0]["id"].as_str().expect("an id").to_owned();
    let show = cluster.run(&format!("journal show {id}"));
    show.expect_code(0);
    show.expect_stdout("skyhook/gpu-tune  changed  set annotation");
    cluster.run(&format!("undo {id} --confirm")).expect_code(0);
    assert_eq!(
        cluster.cr().expect("the CR exists")["metadata"]["annotations"][ApiFlavor::Skyhook.key("pause")],
        Value::Null
    );
    let list = cluster.run("journal list -o json").json();
    let taken: Vec<&Value> = list["items"].as_array().expect("a list").iter().map(|i| &i["undone"]).collect();
    assert_eq!(taken, [&json!(false), &json!(true)]);
}

/// The id of the newest journal.
fn newest(cluster: &TestCluster) -> String {
    let list = cluster.run("journal list -o json").json();
    list["items"][0]["id"].as_str().expect("an id").to_owned()
}

#[test]
fn undo_reverts_the_newest_command_in_force_and_names_it() {
    let cluster = TestCluster::from_capture("complete");
    cluster.run("pause gpu-tune --confirm").expect_code(0);
    let a = newest(&cluster);
    cluster.run("disable gpu-tune --confirm").expect_code(0);
    let b = newest(&cluster);
    let in_force = || (cluster.cr_annotation("pause"), cluster.cr_annotation("disable"));

    cluster.run(&format!("undo {a} --confirm")).expect_code(0);
    assert_eq!(in_force(), (Value::Null, json!("true")));
    let undone = cluster.run("undo --confirm");
    undone.expect_code(0);
    let says = format!("Most recent command not yet undone: disable gpu-tune (journal {b})\n");
    assert!(undone.stderr.starts_with(&says), "{}", undone.transcript());
    assert_eq!(in_force(), (Value::Null, Value::Null));
    let nothing = cluster.run("undo --confirm");
    nothing.expect_code(1);
    assert!(
        nothing.stderr.contains("nothing to undo: every command recorded in")
            && nothing.stderr.contains("kubectl skyhook journal list"),
        "{}",
        nothing.transcript()
    );
}

/// Otherwise `undo` would end the pause, although the last command was `disable`.
#[test]
fn older_command_is_not_undone_in_place_of_an_unreadable_one() {
    let cluster = TestCluster::from_capture("complete");
    cluster.run("pause gpu-tune --confirm").expect_code(0);
    let pause = newest(&cluster);
    cluster.run("disable gpu-tune --confirm").expect_code(0);
    let disable = newest(&cluster);
    let file = cluster.state.path().join(format!("kubectl-skyhook/journal/{disable}.jsonl"));
    let text = std::fs::read_to_string(&file).expect("the journal");
    std::fs::write(&file, &text[..100]).expect("the file is writable");
    let writes = cluster.fake.writes().len();
    let ran = cluster.run("undo --confirm");
    let state = cluster.state.path().to_string_lossy().into_owned();
    insta::assert_snapshot!(ran.transcript().replace(&state, "[state]").replace(&disable, "[id]"));
    assert_eq!(cluster.fake.writes().len(), writes);
    cluster.run(&format!("undo {pause} --confirm")).expect_code(0);
    assert_eq!(
        (cluster.cr_annotation("pause"), cluster.cr_annotation("disable")),
        (Value::Null, json!("true"))
    );
}

#[test]
fn missing_journal_is_reported() {
    let cluster = TestCluster::from_capture("complete");
    for words in ["undo --confirm", "journal show"] {
        let ran = cluster.run(words);
        ran.expect_code(1);
        assert_eq!(ran.stdout, "");
        ran.expect_stderr("no journal in ");
    }
    // `journal show` shows the newest journal, even that of an undo.
    cluster.run("pause gpu-tune --confirm").expect_code(0);
    cluster.run("undo --confirm").expect_code(0);
    let show = cluster.run("journal show");
    show.expect_code(0);
    assert!(show.stdout.starts_with("undo \"pause gpu-tune\""), "{}", show.transcript());
}

#[test]
fn undone_undo_leaves_the_command_in_force() {
    let cluster = TestCluster::from_capture("complete");
    cluster.run("pause gpu-tune --confirm").expect_code(0);
    let a = newest(&cluster);
    cluster.run("undo --confirm").expect_code(0);
    let undo = newest(&cluster);
    cluster.run(&format!("undo {undo} --confirm")).expect_code(0);
    assert_eq!(cluster.cr_annotation("pause"), json!("true"));
    let list = cluster.run("journal list -o json").json();
    let taken = |id: &str| {
        let items = list["items"].as_array().expect("a list");
        items.iter().find(|i| i["id"] == *id).expect("the journal is listed")["undone"].clone()
    };
    assert_eq!((taken(&a), taken(&undo)), (json!(false), json!(true)));
    let again = cluster.run("undo --confirm");
    again.expect_code(0);
    again.expect_stderr(&a);
    assert_eq!(cluster.cr_annotation("pause"), Value::Null);
}

#[test]
fn undo_of_an_undo_has_a_short_title() {
    let cluster = TestCluster::from_capture("complete");
    cluster.run("pause gpu-tune --confirm").expect_code(0);
    for title in [
        r#"undo "pause gpu-tune" (1 change)"#,
        r#"undo of undo "pause gpu-tune" (1 change)"#,
        r#"undo of undo of undo "pause gpu-tune" (1 change)"#,
    ] {
        let undo = format!("undo {} --confirm", newest(&cluster));
        cluster.run(&undo).expect_code(0);
        let list = cluster.run("journal list -o json").json();
        assert_eq!(list["items"][0]["title"], json!(title));
    }
}

#[test]
fn partial_undo_is_repeated() {
    let cluster = TestCluster::from_capture("apply-erroring");
    let before = cluster.objects();
    cluster.run("reset gpu-tune --confirm --no-pause").expect_code(0);
    let reset = newest(&cluster);
    cluster.fake.on("PATCH nodes node-2").times(1).reply(403);
    cluster.run("undo --confirm").expect_code(4);
    assert_eq!(cluster.keys("node-2"), [""; 0]);
    let again = cluster.run("undo --confirm");
    again.expect_code(0);
    again.expect_stderr(&reset);
    assert_eq!(cluster.objects(), before);
    cluster.run("undo --confirm").expect_code(1);
}

#[test]
fn a_second_undo_by_id_says_so() {
    let cluster = TestCluster::from_capture("apply-erroring");
    let ran = cluster.run("pause gpu-tune --confirm");
    let id = ran.stdout.rsplit(' ').next().expect("an id").trim().to_owned();
    cluster.run(&format!("undo {id} --confirm")).expect_code(0);
    cluster.run("pause gpu-tune --confirm").expect_code(0);
    let again = cluster.run(&format!("undo {id} --dry-run"));
    again.expect_stderr("warning: this command was already undone ");
}
