//! A node that the operator does not choose again during a deletion: the reports of all commands, and the
//! remedies.

use std::path::Path;

use kubectl_skyhook::api::{ApiFlavor, keys};
use serde_json::{Value, json};

use crate::support::fake_api::FakeApi;
use crate::support::object_builder::{NAME, SKYHOOK};
use crate::support::test_cluster::TestCluster;

/// The fixture in which a pause and a resume left all nodes waiting, with a running operator.
fn after_pause_and_resume() -> TestCluster {
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rules");
    let fake = FakeApi::new().serving(ApiFlavor::Skyhook);
    fake.load_file(&rules.join("deletion_passes_over_node.batch.yaml"));
    fake.load(SKYHOOK.operator());
    TestCluster::serving(fake)
}

const SKIPPED: &str = "deletion of skyhook/gpu skips the node: package driver is not uninstalled yet, but the operator works \
                       only on the nodes of its current batch, and those are already done";
const RETRY: &str = "kubectl skyhook package retry driver --skyhook gpu --node late";

#[test]
fn every_command_reports_a_node_that_is_passed_over_after_a_pause() {
    let cluster = after_pause_and_resume();
    for (words, code) in [
        ("diagnose stuck gpu", 2),
        ("diagnose node late", 2),
        ("diagnose node done", 2),
        ("status gpu", 0),
        ("wait gpu --for=deleted --timeout 30s", 2),
    ] {
        let ran = cluster.run(words);
        ran.expect_code(code);
        ran.expect_stdout(SKIPPED);
        ran.expect_stdout(RETRY);
    }
    let status = cluster.run("status gpu -o json").json()["items"][0]["deletion"].take();
    assert_eq!(status["state"], "Stuck");
}

fn status(cluster: &TestCluster, node: &str) -> [Value; 2] {
    let key = keys::status(ApiFlavor::Skyhook, NAME);
    let metadata = &cluster.node(node)["metadata"];
    ["annotations", "labels"].map(|map| metadata[map][&key].clone())
}

#[test]
fn printed_remedy_sets_the_node_in_progress() {
    let cluster = after_pause_and_resume();
    let words = RETRY.trim_start_matches("kubectl skyhook ");
    cluster.run(&format!("{words} --confirm")).expect_code(0);
    assert_eq!(status(&cluster, "late"), [json!("in_progress"), Value::Null]);
    cluster.run("diagnose stuck gpu").expect_no_stdout("SKY114");
}

/// A deletion with one package, which declares an uninstall; node-1 is ignored, and node-2 is already
/// uninstalled.
fn ignored() -> TestCluster {
    let packages = json!({"driver": {
        "version": "1.0.0", "image": "example.com/driver", "uninstall": {"enabled": true, "apply": false},
    }});
    let mut skyhook = SKYHOOK.skyhook("in_progress", packages);
    skyhook["metadata"]["deletionTimestamp"] = json!("2026-11-20T11:30:00Z");
    let mut waiting = SKYHOOK.node("node-1", "blocked", &["driver|1.0.0 uninstall in_progress"]);
    waiting["metadata"]["labels"] = json!({
        ApiFlavor::Skyhook.key("ignore"): "true",
        keys::status(ApiFlavor::Skyhook, NAME): "blocked",
    });
    let fake = FakeApi::new().serving(ApiFlavor::Skyhook);
    for object in [skyhook, SKYHOOK.operator(), waiting, SKYHOOK.node("node-2", "in_progress", &[])] {
        fake.load(object);
    }
    TestCluster::serving(fake)
}

#[test]
fn first_remedy_for_an_ignored_node_in_a_deletion_makes_the_operator_choose_it() {
    let cluster = ignored();
    let found = cluster.run("diagnose stuck gpu");
    found.expect_code(2);
    found.expect_stdout("SKY304");
    found.expect_stdout("kubectl skyhook node unignore node-1");
    found.expect_no_stdout("SKY114");
    cluster.run("node unignore node-1 --confirm").expect_code(0);
    assert_eq!(status(&cluster, "node-1"), [json!("in_progress"), json!("in_progress")]);
    let after = cluster.run("diagnose stuck gpu");
    after.expect_no_stdout("SKY304");
    after.expect_no_stdout("SKY114");
}
