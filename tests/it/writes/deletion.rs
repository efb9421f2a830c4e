//! A custom resource that a plan deletes and `undo` recreates.

use kubectl_skyhook::api::ApiFlavor;
use kubectl_skyhook::dump;
use kubectl_skyhook::plan::{Baseline, Change, Plan, PlanStage, SavedPlan, Step, Target};
use serde_json::{Value, json};

use super::{CR, TestCluster};

/// Saves a plan that deletes the custom resource, without checks of the cluster and of specs.
fn saved(cluster: &TestCluster) -> String {
    let cr = cluster.cr().expect("the custom resource exists");
    let target = Target::skyhook(ApiFlavor::Skyhook, CR, cr["metadata"]["uid"].as_str());
    let step = Step::new(target, Change::Delete { was: None }, "nobody needs it");
    let mut plan = Plan {
        title: format!("delete {CR}"),
        subject: CR.to_owned(),
        stages: vec![PlanStage::of(vec![step])],
        ..Plan::default()
    };
    let mut before = dump::load(&["tests/clusters/complete".into()], None).expect("a capture");
    if cr["metadata"]["finalizers"] == json!([]) {
        let skyhooks = before.skyhooks.available_mut().expect("the custom resource was read");
        skyhooks[0].metadata.finalizers.clear();
        before.reset_indexes();
    }
    plan.forecast(&Baseline::of(&before));
    let file = cluster.state.path().join("plan.json");
    std::fs::write(&file, SavedPlan::of(&plan, None, Vec::new()).text()).expect("a file");
    file.display().to_string()
}

fn finalizers(cluster: &TestCluster, entries: Value) {
    let mut cr = cluster.cr().expect("the custom resource exists");
    cr["metadata"]["finalizers"] = entries;
    cluster.fake.load(cr);
}

#[test]
fn deletion_is_journalled_and_undo_recreates_the_object() {
    let cluster = TestCluster::from_capture("complete");
    finalizers(&cluster, json!([]));
    let file = saved(&cluster);
    // The object changes after the plan was made: `undo` restores the deleted state, not the planned one.
    cluster.run("pause gpu-tune --confirm --reason later").expect_code(0);
    let before = cluster.cr().expect("the custom resource exists");
    cluster.run(&format!("apply-plan {file} --confirm")).expect_code(0);
    assert_eq!(cluster.cr(), None);

    let undone = cluster.run("undo --confirm");
    undone.expect_code(0);
    let after = cluster.cr().expect("the custom resource exists again");
    assert_eq!(after["spec"], before["spec"]);
    for member in ["name", "annotations", "labels"] {
        assert_eq!(after["metadata"][member], before["metadata"][member]);
    }
    assert_ne!(after["metadata"]["uid"], before["metadata"]["uid"]);
    let sent = cluster.fake.writes();
    let sent = sent.iter().filter(|w| w.method == "POST" && w.path.ends_with("/skyhooks"));
    let bodies: Vec<&Value> = sent.map(|w| &w.body).collect();
    let [body] = bodies.as_slice() else {
        panic!("the object must be created once: {bodies:?}");
    };
    assert_eq!(body["status"], Value::Null);
    for member in ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"] {
        assert_eq!(body["metadata"][member], Value::Null, "{member}");
    }
}

#[test]
fn undo_does_not_recreate_a_terminating_object() {
    let cluster = TestCluster::from_capture("complete");
    finalizers(&cluster, json!(["somebody/else"]));
    let file = saved(&cluster);
    cluster.run(&format!("apply-plan {file} --confirm")).expect_code(0);
    let going = cluster.cr().expect("a finalizer holds the custom resource");
    assert!(going["metadata"]["deletionTimestamp"].is_string());
    let undone = cluster.run("undo --confirm");
    undone.expect_code(3);
    undone.expect_stderr("it still exists, and is being deleted");
    assert_eq!(cluster.cr(), Some(going));
}
