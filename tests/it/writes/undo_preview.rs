//! The preview of `undo` shows the same side effects as the opposite command.

use serde_json::{Value, json};

use super::TestCluster;
use crate::support::fake_api::FakeApi;
use crate::support::object_builder::SKYHOOK;
use crate::support::run::Child;

/// Two nodes with this version of a package that requires a reboot; the spec has version 2.0.0.
fn rebooting(version: &str) -> TestCluster {
    let mut fake = SKYHOOK.serve(json!({"driver": {
        "version": "2.0.0", "image": "example.com/driver", "interrupt": {"type": "reboot"},
        "uninstall": {"enabled": true, "apply": false},
    }}));
    for node in ["node-1", "node-2"] {
        let entries = [&*format!("driver|{version} post-interrupt complete")];
        fake = fake.with(SKYHOOK.node(node, "in_progress", &entries));
    }
    TestCluster::serving(fake)
}

/// The plan in JSON, without the fields in which `undo` after `pause` always differs from `resume`.
fn preview(cluster: &TestCluster, words: &str) -> Value {
    let ran = cluster.run(&format!("{words} --dry-run -o json"));
    ran.expect_code(0);
    let mut plan = ran.json();
    for differs in ["digest", "steps", "title"] {
        plan.as_object_mut().expect("a plan").remove(differs);
    }
    plan
}

#[test]
fn undo_preview_matches_the_opposite_command() {
    let cluster = rebooting("1.0.0");
    for (there, back, nodes) in [
        ("pause gpu", "resume gpu", 2),
        ("disable gpu", "enable gpu", 2),
        ("node ignore node-1", "node unignore node-1", 1),
    ] {
        cluster.run(&format!("{there} --confirm")).expect_code(0);
        let expected = preview(&cluster, back);
        let effects = &expected["consequences"];
        assert_eq!(
            (&expected["grade"], &effects["nodes"], &effects["reboots"]),
            (&json!("B4"), &json!(nodes), &json!(nodes)),
            "{expected:#}"
        );
        assert_eq!(preview(&cluster, "undo"), expected, "{there}");
        cluster.run("undo --confirm").expect_code(0);
    }
}

#[test]
fn undo_that_stops_the_operator_starts_nothing() {
    let cluster = rebooting("1.0.0");
    cluster.run("pause gpu --confirm").expect_code(0);
    cluster.run("resume gpu --confirm").expect_code(0);
    // The same pause as the undone command ended: this undo sets it, and the undo of this undo would end it.
    let plan = preview(&cluster, "undo");
    let effects = &plan["consequences"];
    assert_eq!((&plan["grade"], &effects["reboots"]), (&json!("B1"), &json!(0)), "{plan:#}");
    assert_eq!((&effects["notes"], &effects["rollouts"]), (&Value::Null, &Value::Null), "{plan:#}");
    cluster.run("undo --confirm").expect_code(0);
    let newest = cluster.run("journal list -o json").json()["items"][0]["id"].clone();
    let ended = preview(&cluster, &format!("undo {}", newest.as_str().expect("an id")));
    assert_eq!((&ended["grade"], &ended["consequences"]["reboots"]), (&json!("B4"), &json!(2)), "{ended:#}");
}

#[test]
fn undo_of_a_cancelled_uninstall_counts_nodes_and_reboots() {
    let cluster = rebooting("2.0.0");
    cluster.run("uninstall gpu driver --confirm").expect_code(0);
    cluster.run("uninstall gpu driver --cancel --confirm").expect_code(0);
    let plan = preview(&cluster, "undo");
    let counts = &plan["consequences"];
    assert_eq!(
        (&plan["grade"], &counts["nodes"], &counts["reboots"]),
        (&json!("B4"), &json!(2), &json!(2)),
        "{plan:#}"
    );
    cluster.run("undo --confirm --max-nodes 1").expect_code(3);
}

#[test]
fn saved_undo_plan_names_what_starts() {
    let cluster = rebooting("1.0.0");
    cluster.run("pause gpu --confirm").expect_code(0);
    let expected = preview(&cluster, "undo");
    let file = cluster.state.path().join("plan.json");
    cluster.run(&format!("undo --plan-out {}", file.display())).expect_code(0);
    let saved = preview(&cluster, &format!("apply-plan {}", file.display()));
    assert_eq!(saved, expected);
    assert_eq!((&saved["grade"], &saved["consequences"]["reboots"]), (&json!("B4"), &json!(2)), "{saved:#}");
}

/// Without the operator's API no stage can start, but the label can be removed.
#[test]
fn undo_of_node_ignore_works_without_an_api() {
    let cluster = rebooting("1.0.0");
    cluster.run("node ignore node-1 --confirm").expect_code(0);
    let bare = FakeApi::new().with(cluster.node("node-1"));
    let later = TestCluster { served: bare.serve(), fake: bare, state: cluster.state };
    // Accepted as the same cluster, since the namespace kube-system has the same uid.
    let ran = later.run("undo --confirm");
    ran.expect_code(0);
    assert_eq!(later.node("node-1")["metadata"]["labels"], json!({}));
}

/// A command that only stops work does not require the custom resources.
#[test]
fn node_ignore_works_without_reading_custom_resources() {
    let cluster = rebooting("1.0.0");
    cluster.fake.on("LIST skyhooks").reply(403);
    let plan = preview(&cluster, "node ignore node-1");
    assert_eq!((&plan["grade"], &plan["consequences"]["reboots"]), (&json!("B1"), &json!(0)), "{plan:#}");
    cluster.run("node ignore node-1 --confirm").expect_code(0);
    let ran = cluster.run("undo --dry-run");
    ran.expect_code(0);
    let port = regex::Regex::new(r":\d+\)").expect("a pattern");
    insta::assert_snapshot!(port.replace(&ran.stdout, ":[port])"));
}

/// The preview has the uninstalls and reboots of the deletion, which the undone command did not have.
#[test]
fn undo_of_a_recreation_names_what_the_deletion_uninstalls() {
    let cluster = rebooting("2.0.0");
    let before = cluster.fake.get("skyhooks", "", "gpu").expect("a CR");
    cluster.fake.change(|state| state.store.forget("skyhooks", "", "gpu"));
    let file = cluster.state.path().join("gpu.json");
    std::fs::write(&file, before.to_string()).expect("a file");
    let undelete = format!("undelete gpu -f {} --confirm", file.display());
    cluster.run(&undelete).expect_code(0);
    let plan = preview(&cluster, "undo");
    let counts = &plan["consequences"];
    assert_eq!(
        (&plan["grade"], &counts["nodes"], &counts["reboots"]),
        (&json!("B4"), &json!(2), &json!(2)),
        "{plan:#}"
    );
    assert_eq!(counts["uninstalls"], json!({"driver": 2}));
    cluster.run("undo --confirm --max-nodes 1").expect_code(3);
    cluster.command("undo").stdin("y\n").output().expect_code(3);
}

/// Only the pause was set, and nothing runs once it ends.
#[test]
fn undo_of_a_reset_that_was_killed_before_its_first_change_runs_nothing() {
    let cluster = rebooting("2.0.0");
    let child = Child::default();
    let pause = cluster.fake.on("PATCH skyhooks");
    pause.nth(1).after(child.kill());
    let killed = cluster.command("reset gpu --confirm").child(&child).output();
    assert_eq!(killed.code, None, "{}", killed.transcript());
    cluster.fake.heal();
    insta::assert_snapshot!(cluster.run("undo --dry-run").transcript());
}
