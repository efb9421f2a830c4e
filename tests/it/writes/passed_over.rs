//! `undo` passes over commands that cannot be undone.

use std::path::Path;

use kubectl_skyhook::api::ApiFlavor;
use serde_json::{Value, json};

use super::TestCluster;
use crate::support::fake_api::FakeApi;

fn ignored(cluster: &TestCluster, flavor: ApiFlavor, node: &str) -> Value {
    cluster.node(node)["metadata"]["labels"][flavor.key("ignore")].clone()
}

/// The ids of the journals, newest first.
fn ids(cluster: &TestCluster) -> Vec<String> {
    let list = cluster.run("journal list -o json").json();
    let items = list["items"].as_array().expect("a list");
    let id = |item: &Value| item["id"].as_str().expect("an id").to_owned();
    items.iter().map(id).collect()
}

#[test]
fn undo_passes_over_a_retry() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clusters");
    let fake = FakeApi::new().serving(ApiFlavor::NodeWright);
    fake.load_file(&directory.join("modelled-job-given-up/cluster.json"));
    let cluster = TestCluster::serving(fake);
    let flavor = ApiFlavor::NodeWright;
    cluster.run("node ignore node-3 --confirm").expect_code(0);
    cluster.run("package retry driver --skyhook gpu --node node-2 --confirm").expect_code(0);
    assert_eq!(ignored(&cluster, flavor, "node-3"), json!("true"));
    let ids = ids(&cluster);

    let undone = cluster.run("undo --confirm");
    undone.expect_code(0);
    let says = format!(
        "Skipped, because it cannot be undone: retry driver of gpu on 1 node (journal {})\n\
         Most recent command not yet undone: ignore 1 node (journal {})\n",
        ids[0], ids[1]
    );
    assert!(undone.stderr.starts_with(&says), "{}", undone.transcript());
    assert_eq!(ignored(&cluster, flavor, "node-3"), Value::Null);

    let nothing = cluster.run("undo --confirm");
    nothing.expect_code(1);
    nothing.expect_stderr("was already undone, cannot be undone, or changed nothing");
    // `undo` of the retry by its id is refused.
    let retry = cluster.run(&format!("undo {} --confirm", ids[0]));
    retry.expect_code(3);
    let job = "job/nodewright/gpu-driver-2-0-1-apply-node-2";
    let says = format!(
        "error: \"retry driver of gpu on 1 node\" cannot be undone: {job} cannot be restored; nothing was changed\n"
    );
    assert_eq!(retry.parts(), ("", says.as_str(), Some(3)));
}

/// `undelete` removes the old object and creates a new one: neither step can be undone alone, and the pause
/// around them does not count as a change.
#[test]
fn undo_passes_over_an_undelete() {
    let cluster = TestCluster::from_capture("deleted-while-paused");
    cluster.run("node ignore node-1 --confirm").expect_code(0);
    cluster.run("undelete gpu-tune --confirm").expect_code(0);
    let undone = cluster.run("undo --confirm");
    undone.expect_code(0);
    undone.expect_stderr("Skipped, because it cannot be undone: restore gpu-tune, which is being deleted ");
    undone.expect_stderr("Most recent command not yet undone: ignore 1 node ");
    assert_eq!(ignored(&cluster, ApiFlavor::Skyhook, "node-1"), Value::Null);
}

/// The operator has finished the stage, so the node-state entry is the same as before the command.
#[test]
fn undo_says_that_nothing_is_left_to_revert() {
    let cluster = TestCluster::from_capture("complete");
    let before = cluster.node("node-1");
    cluster
        .run("update-state gpu-tune driver 2.0.1 config in_progress --node node-1 --no-pause --confirm")
        .expect_code(0);
    cluster.fake.load(before);
    let undone = cluster.run("undo --confirm");
    undone.expect_code(0);
    undone.expect_stdout("(nothing left to revert): 1 unchanged");
    let notes = |cluster: &TestCluster| {
        let list = cluster.run("journal list").stdout;
        let mut lines = list.lines().skip(1);
        let newest = lines.find(|line| !line.contains("undo \""));
        newest.unwrap_or_default().to_owned()
    };
    let note = notes(&cluster);
    assert!(note.ends_with("1/1      nothing left to revert"), "{note}");

    cluster.run("pause gpu-tune --confirm").expect_code(0);
    cluster.run("undo --confirm").expect_code(0);
    let note = notes(&cluster);
    assert!(note.contains("pause gpu-tune") && note.ends_with("undone"), "{note}");
}
