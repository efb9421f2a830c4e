//! A second `undo` after an `undo` that could not revert everything.

use kubectl_skyhook::api::{ApiFlavor, keys};
use serde_json::{Value, json};

use super::{CR, TestCluster};
use crate::support::object_builder::ObjectBuilder;

/// Simulates the operator: it starts the package again on the node that was reset.
fn restart(cluster: &TestCluster) {
    let mut node = cluster.node("node-2");
    let key = keys::node_state(ApiFlavor::Skyhook, CR);
    let entry = json!({"driver|2.0.1": {"name": "driver", "version": "2.0.1",
        "image": "example.com/driver", "stage": "apply", "state": "in_progress"}});
    node["metadata"]["annotations"][key] = json!(entry.to_string());
    cluster.fake.load(node);
}

/// A cluster after two commands, where the operator has acted on the newer one; with the journal list.
fn paused_and_reset() -> (TestCluster, Value) {
    let cluster = TestCluster::from_capture("apply-erroring");
    cluster.run("pause gpu-tune --confirm").expect_code(0);
    cluster.run("reset gpu-tune --node node-2 --confirm").expect_code(0);
    restart(&cluster);
    let ids = cluster.run("journal list -o json").json();
    (cluster, ids["items"].clone())
}

#[test]
fn undo_without_effect_does_not_advance_to_an_older_command() {
    let (cluster, items) = paused_and_reset();
    let so_far = cluster.writes();
    for _ in 0..2 {
        let ran = cluster.run("undo --confirm");
        ran.expect_code(3);
        for message in [
            "Most recent command not yet undone: reset gpu-tune on 1 node",
            "\"reset gpu-tune on 1 node\" cannot be undone",
            "node/node-2 (",
            "nothing was changed",
            "to undo an older command, pass its id",
        ] {
            assert!(ran.stderr.contains(message), "{message}: {}", ran.transcript());
        }
        assert_eq!(cluster.cr_annotation("pause"), json!("true"));
        assert_eq!(cluster.writes(), so_far);
    }
    let older = items[1]["id"].as_str().expect("an id");
    cluster.run(&format!("undo {older} --confirm")).expect_code(0);
    assert_eq!(cluster.cr_annotation("pause"), Value::Null);
}

/// The object changes between the read and the write.
#[test]
fn undo_skipped_by_a_conflict_leaves_the_command_in_force() {
    let cluster = TestCluster::from_capture("apply-erroring");
    cluster.run("pause gpu-tune --confirm").expect_code(0);
    cluster.run("reset gpu-tune --node node-2 --confirm").expect_code(0);
    let key = keys::node_state(ApiFlavor::Skyhook, CR);
    cluster.fake.on("PATCH nodes node-2").nth(1).after(move |state| {
        let mut node = state.store.find("nodes", "", "node-2").cloned().expect("the node exists");
        node["metadata"]["annotations"][&key] = json!("{}");
        state.store.load(node);
    });
    let late = cluster.run("undo --confirm");
    late.expect_code(3);
    late.expect_stdout("1 skipped");
    let again = cluster.run("undo --confirm");
    again.expect_code(3);
    for message in
        ["reset gpu-tune on 1 node", "an undo of this command was attempted ", "could be undone (journal 2"]
    {
        assert!(again.stderr.contains(message), "{message}: {}", again.transcript());
    }
    assert_eq!(cluster.cr_annotation("pause"), json!("true"));
}

#[test]
fn undo_dry_run_reads_the_cluster() {
    let cluster = TestCluster::from_capture("apply-erroring");
    cluster.run("reset gpu-tune --confirm --no-pause").expect_code(0);
    restart(&cluster);
    let so_far = cluster.writes();
    for words in ["undo --dry-run", "undo --dry-run --diff"] {
        let ran = cluster.run(words);
        ran.expect_code(0);
        let left = "left unchanged because of later changes: node/node-2 (";
        ran.expect_stdout(left);
        ran.expect_stdout("node-[1,3]");
        ran.expect_no_stdout("node-2 (planned)");
        assert_eq!(ran.stdout.contains("node-1 (planned)"), words.contains("diff"));
    }
    assert_eq!(cluster.writes(), so_far);
    // `undo` reverts the other nodes, and reports node-2 as skipped.
    let undone = cluster.run("undo --confirm");
    undone.expect_code(4);
    undone.expect_stdout("1 skipped");
    cluster.run("undo --confirm").expect_code(1);
}

/// The newest command was reverted by hand: the first `undo` changes nothing, the next one reverts the
/// command before it.
#[test]
fn command_reverted_by_hand_is_no_longer_in_force() {
    let cluster = TestCluster::from_capture("complete");
    cluster.run("disable gpu-tune --confirm").expect_code(0);
    cluster.run("pause gpu-tune --confirm").expect_code(0);
    let mut cr = cluster.cr().expect("the custom resource exists");
    let annotations = cr["metadata"]["annotations"].as_object_mut().expect("annotations");
    annotations.remove(&ApiFlavor::Skyhook.key("pause"));
    cluster.fake.load(cr);
    let ran = cluster.run("undo --confirm");
    ran.expect_code(0);
    ran.expect_stdout("1 unchanged");
    assert_eq!(cluster.cr_annotation("disable"), json!("true"));
    cluster.run("undo --confirm").expect_code(0);
    assert_eq!(cluster.cr_annotation("disable"), Value::Null);
}

#[test]
fn undo_ids_do_not_repeat_the_prefix() {
    let cluster = TestCluster::from_capture("complete");
    cluster.run("node ignore node-1 --confirm").expect_code(0);
    for _ in 0..2 {
        let list = cluster.run("journal list -o json").json();
        let id = list["items"][0]["id"].as_str().expect("an id").to_owned();
        cluster.run(&format!("undo {id} --confirm")).expect_code(0);
    }
    let list = cluster.run("journal list -o json").json();
    let items = list["items"].as_array().expect("a list");
    let names: Vec<&str> = items
        .iter()
        .map(|i| i["id"].as_str().expect("an id").splitn(3, '-').nth(2).expect("a name"))
        .collect();
    assert_eq!(names, ["undo-ignore", "undo-ignore", "ignore"]);
}

/// `undo` reads all nodes in a list, and sends one request for each node; concurrent requests share the checks of
/// the plan's preconditions.
#[test]
fn undo_sends_one_request_per_changed_node() {
    const NODES: usize = 500;
    let world = ObjectBuilder(ApiFlavor::Skyhook);
    let driver = json!({"driver": {"version": "1.0.0", "image": "example.com/driver"}});
    let fake = world.serve(driver);
    for number in 0..NODES {
        let mut node =
            world.node(&format!("node-{number:03}"), "complete", &["driver|1.0.0 config complete"]);
        node["metadata"]["annotations"]["example.com/theirs"] = json!("stays");
        fake.load(node);
    }
    let cluster = TestCluster::serving(fake);
    let reset = "reset gpu --confirm --no-pause";
    let requests = |words: &str| {
        let before = cluster.fake.requests().len();
        cluster.run(words).expect_code(0);
        cluster.fake.requests().len() - before
    };
    let there = requests(reset);
    // Statuses that the operator changed in the meantime are kept without extra requests.
    for number in 0..NODES {
        let mut node = cluster.node(&format!("node-{number:03}"));
        node["metadata"]["annotations"][keys::status(ApiFlavor::Skyhook, "gpu")] = json!("unknown");
        cluster.fake.load(node);
    }
    let back = requests("undo --confirm");
    assert!(back <= NODES + NODES / 8, "{there} there, {back} back");
}
