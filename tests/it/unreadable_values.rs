//! Values that their types reject, and answers that are not what was requested: nothing is taken for absent
//! because of them.

mod accepted;
mod any_leaf;
mod lists;
mod single_objects;

use kubectl_skyhook::api::ApiFlavor;
use serde_json::{Value, json};

use crate::support::run::RunOutput;
use crate::support::test_cluster::{CR, TestCluster};

/// The last moment that users can write in UTC. It is beyond the range of our type.
const NEVER: &str = "9999-12-31T23:59:59Z";

fn run(test_cluster: &TestCluster, words: &str) -> RunOutput {
    test_cluster.run(words)
}

/// The captured cluster with an operator and an object that was changed.
fn changed(change: impl Fn(&mut Value)) -> TestCluster {
    let test_cluster = TestCluster::captured_with_operator("apply-erroring");
    let mut node = test_cluster.node("node-2");
    change(&mut node);
    test_cluster.fake.load(node);
    test_cluster
}

#[test]
fn a_time_beyond_our_range_leaves_the_node_and_all_others() {
    let before = run(&changed(|_| {}), "diagnose stuck -o json").json();
    let test_cluster = changed(|node| {
        let conditions = node["status"]["conditions"].as_array_mut();
        let ready = conditions.expect("a list").iter_mut();
        { ready }.for_each(|condition| condition["lastHeartbeatTime"] = json!(NEVER));
    });
    let report = run(&test_cluster, "diagnose stuck -o json");
    report.expect_code(2);
    let after = report.json();
    assert_eq!(after["findings"], before["findings"]);
    assert_eq!(after["notChecked"], before["notChecked"]);
    let ran = run(&test_cluster, &format!("reset {CR} --node node-2 --no-pause -y"));
    ran.expect_code(0);
    assert!(!test_cluster.fake.writes().is_empty());
}

#[test]
fn a_foreign_event_and_a_foreign_pod_cost_nothing() {
    let report = |test_cluster: &TestCluster| run(test_cluster, "diagnose stuck -o json").json();
    let test_cluster = TestCluster::captured_with_operator("complete");
    let before = report(&test_cluster);
    let labels = json!({ApiFlavor::Skyhook.key("name"): "other"});
    test_cluster.fake.load(json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": "shop.1", "namespace": "default"},
        "involvedObject": {"kind": "Node", "name": "node-1"},
        "lastTimestamp": NEVER,
    }));
    test_cluster.fake.load(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "shop", "namespace": "shop", "labels": labels, "creationTimestamp": NEVER},
        "status": {"startTime": NEVER},
    }));
    let mut after = report(&test_cluster);
    assert_eq!(after["notChecked"], before["notChecked"]);
    // The label of the pod names a custom resource that is gone.
    let findings = after["findings"].as_array_mut().expect("findings");
    let of_pod: Vec<Value> = findings.extract_if(.., |f| f["code"] == "SKY702").collect();
    assert_eq!(of_pod.len(), 1, "{of_pod:#?}");
    assert_eq!(after["findings"], before["findings"]);
}

#[test]
fn other_rejected_values_are_undetermined_and_refuse_changes() {
    let test_cluster = changed(|node| node["metadata"]["annotations"] = json!("none"));
    let report = run(&test_cluster, "diagnose stuck -o json").json();
    assert_eq!(report["verdict"], "NotFullyChecked");
    let reason = report["notChecked"][0]["message"].as_str().expect("a reason");
    assert_eq!(reason, "node/node-2: metadata.annotations cannot be read (a string)");
    let ran = run(&test_cluster, &format!("reset {CR} -y"));
    ran.expect_code(1);
    ran.expect_stderr(
        "cannot read nodes: node/node-2: metadata.annotations cannot be read (a string); nothing was changed",
    );
    assert!(test_cluster.fake.writes().is_empty());
}
