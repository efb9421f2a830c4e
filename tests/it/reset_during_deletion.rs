//! The reset of a node during the deletion of its custom resource, while the operator writes its node state.

use kubectl_skyhook::api::{ApiFlavor, keys};
use serde_json::{Value, json};

use crate::support::fake_api::State;
use crate::support::test_cluster::{CR, TestCluster};

const NODE: &str = "node-2";

fn entry(name: &str, version: &str, stage: &str, state: &str, restarts: i64) -> (String, Value) {
    let value = json!({
        "name": name, "version": version, "image": "example.com/image", "stage": stage, "state": state,
        "restarts": restarts,
    });
    (format!("{name}|{version}"), value)
}

/// The entry of a failing installation that the deletion waits for.
fn failing(restarts: i64) -> (String, Value) {
    entry("driver", "2.0.1", "apply", "erroring", restarts)
}

/// The entry of the other package, which the deletion uninstalls meanwhile.
fn uninstalling() -> (String, Value) {
    entry("tuning", "1.2.0", "uninstall", "in_progress", 0)
}

/// Writes a node state, as the operator does.
fn record(state: &mut State, entries: &[(String, Value)]) {
    let mut node = state.store.find("nodes", "", NODE).expect("a node").clone();
    let map: serde_json::Map<String, Value> = entries.iter().cloned().collect();
    let key = keys::node_state(ApiFlavor::Skyhook, CR);
    node["metadata"]["annotations"][key] = Value::Object(map).to_string().into();
    state.store.load(node);
}

/// A cluster whose operator uninstalls one package on the node and fails to install the other one.
fn cluster() -> TestCluster {
    let cluster = TestCluster::captured_with_operator("deleted-while-erroring");
    let both = [failing(4), uninstalling()];
    cluster.fake.change(|state| record(state, &both));
    cluster
}

fn recorded(cluster: &TestCluster) -> Value {
    let key = keys::node_state(ApiFlavor::Skyhook, CR);
    cluster.node(NODE)["metadata"]["annotations"][key].clone()
}

/// The methods of all requests for the node by name.
fn requests(cluster: &TestCluster) -> Vec<String> {
    let path = format!("/api/v1/nodes/{NODE}");
    let requests = cluster.fake.requests();
    let named = requests.iter().filter(|r| r.path == path);
    named.map(|r| r.method.clone()).collect()
}

#[test]
fn writes_of_the_operator_before_each_request_are_followed() {
    for words in ["", " --package driver"] {
        let cluster = cluster();
        let patch = |nth: usize, entries: Vec<(String, Value)>| {
            let rule = cluster.fake.on(&format!("PATCH nodes {NODE}")).nth(nth);
            rule.after(move |state| record(state, &entries));
        };
        patch(1, vec![failing(5), uninstalling()]);
        patch(2, vec![failing(5)]);
        patch(3, vec![entry("driver", "2.0.1", "apply", "in_progress", 5)]);
        patch(4, vec![failing(6)]);
        let ran = cluster.run(&format!("reset gpu-tune --node {NODE}{words} --confirm --no-pause"));
        ran.expect_code(0);
        assert_eq!(recorded(&cluster), Value::Null, "{}", ran.transcript());
        // A read follows each rejected patch, and verifies the last patch.
        let all = ["PATCH", "GET"].repeat(5);
        assert_eq!(requests(&cluster), all, "{}", ran.transcript());
    }
}

#[test]
fn state_that_is_written_back_is_removed_again() {
    let cluster = cluster();
    // The pod of the other package ends, and the operator writes back a stale copy of the node state.
    let read = cluster.fake.on(&format!("GET nodes {NODE}")).nth(1);
    read.after(|state| record(state, &[failing(4)]));
    let words = format!("reset gpu-tune --node {NODE} --confirm");
    let ran = cluster.with_operator(|| cluster.run(&words));
    ran.expect_code(0);
    assert_eq!(recorded(&cluster), Value::Null);
    assert_eq!(requests(&cluster), ["PATCH", "GET", "PATCH", "GET"]);
    ran.expect_stderr("checks that the operator does not record the removed state again");
}

/// The stale copy lacks a package, and its entry is newer than the one that the reset removed.
#[test]
fn undo_restores_the_state_before_the_reset_and_not_the_copy_written_back() {
    for words in ["", " --package driver"] {
        let cluster = cluster();
        let before = cluster.node(NODE);
        let read = cluster.fake.on(&format!("GET nodes {NODE}")).nth(1);
        read.after(|state| record(state, &[failing(9)]));
        let reset = format!("reset gpu-tune --node {NODE}{words} --confirm");
        cluster.with_operator(|| cluster.run(&reset)).expect_code(0);
        assert!(recorded(&cluster).as_str().is_none_or(|state| !state.contains("driver")));
        let undone = cluster.with_operator(|| cluster.run("undo --confirm"));
        undone.expect_code(0);
        let state = |node: &Value| -> Value {
            let key = keys::node_state(ApiFlavor::Skyhook, CR);
            let text = node["metadata"]["annotations"][key].as_str().expect("a node state");
            serde_json::from_str(text).expect("JSON")
        };
        let after = cluster.node(NODE);
        let mut expected = state(&before);
        // The operator's copy had no entry of the other package, which the reset of one package does not restore.
        if !words.is_empty() {
            expected.as_object_mut().expect("a map").remove("tuning|1.2.0");
        }
        assert_eq!(state(&after), expected, "{}", undone.transcript());
        assert_eq!(after["metadata"]["labels"], before["metadata"]["labels"], "{}", undone.transcript());
    }
}

#[test]
fn state_that_stays_recorded_is_no_success() {
    let cluster = cluster();
    let read = cluster.fake.on(&format!("GET nodes {NODE}"));
    read.after(|state| record(state, &[failing(4)]));
    let ran = cluster.run(&format!("reset gpu-tune --node {NODE} --confirm --no-pause"));
    ran.expect_code(4);
    ran.expect_stdout("the operator recorded driver|2.0.1 again after each of 4 removals");
    assert_ne!(recorded(&cluster), Value::Null);
}

/// The removals let the deletion end; until its garbage collection, a leftover pod causes more writes.
#[test]
fn state_recorded_after_the_end_of_the_deletion_is_removed_too() {
    let cluster = cluster();
    for nth in 1..=10 {
        let read = cluster.fake.on(&format!("GET nodes {NODE}")).nth(nth);
        read.after(move |state| {
            if nth == 2 {
                state.store.forget("skyhooks", "", CR);
            }
            record(state, &[failing(4)]);
        });
    }
    let words = format!("reset gpu-tune --node {NODE} --confirm");
    let ran = cluster.with_operator(|| cluster.run(&words));
    ran.expect_code(0);
    assert_eq!(recorded(&cluster), Value::Null, "{}", ran.transcript());
    assert_eq!(requests(&cluster), ["PATCH", "GET"].repeat(11));
    assert!(!ran.stderr.contains("was deleted in the meantime"), "{}", ran.stderr);
}

#[test]
fn state_of_other_packages_may_be_recorded_afterwards() {
    let cluster = cluster();
    let read = cluster.fake.on(&format!("GET nodes {NODE}"));
    // Package `other` declares no uninstall, so the deletion does not wait for it.
    read.after(|state| record(state, &[entry("other", "1.0.0", "apply", "in_progress", 0)]));
    let ran = cluster.run(&format!("reset gpu-tune --node {NODE} --confirm --no-pause"));
    ran.expect_code(0);
    assert_eq!(requests(&cluster), ["PATCH", "GET"]);
}
