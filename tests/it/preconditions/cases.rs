//! The table: commands, and changes of what their plans rely on.

use kubectl_skyhook::api::ApiFlavor;
use serde_json::{Value, json};

use crate::support::fake_api::State;
use crate::support::test_cluster::{CR, TestCluster, operator, operator_of_version};

/// A command that changes objects.
pub struct Row {
    pub cluster: fn() -> TestCluster,
    pub command: &'static str,
    /// Changes that the plan does not survive.
    pub refuses: &'static [&'static str],
    /// Changes that cannot happen on this cluster.
    pub cannot_happen: &'static [&'static str],
}

/// A change by someone else.
pub struct Change {
    pub name: &'static str,
    pub make: fn(&mut State),
}

/// Changes of what the operator does after a command. Which commands have larger effects then is read from their
/// previews.
pub const CHANGES_OF_EFFECTS: &[Change] = &[
    Change { name: "the packages reboot", make: |state| edit_custom_resource(state, reboot) },
    Change {
        name: "all nodes at once",
        make: |state| {
            edit_custom_resource(state, |cr| {
                cr["spec"]["interruptionBudget"] = json!({"percent": 100});
                cr["spec"].as_object_mut().expect("a spec").shift_remove("deploymentPolicy");
            });
        },
    },
    Change { name: "pods to evict", make: add_workload },
    Change {
        name: "the custom resource is resumed and enabled",
        make: |state| {
            edit_custom_resource(state, |cr| {
                let mut annotations = cr["metadata"]["annotations"].as_object_mut();
                for hold in ["pause", "disable"] {
                    annotations.as_mut().and_then(|all| all.shift_remove(&ApiFlavor::Skyhook.key(hold)));
                }
            });
        },
    },
];

const RECREATED: &str = "the custom resource is recreated";
const DELETED: &str = "the custom resource is being deleted";
const OPERATOR: &str = "the operator returns";
const HELD: &str = "another command holds the custom resource";
const NODES: &str = "the nodes are recreated";
pub const EDITED: &str = "the values on the nodes are edited";

pub const CHANGES: &[Change] = &[
    Change { name: RECREATED, make: recreate },
    Change { name: DELETED, make: delete },
    Change { name: OPERATOR, make: |state| state.store.load(operator(1)) },
    Change { name: HELD, make: hold },
    Change {
        name: NODES,
        make: |state| edit_nodes(state, |node| node["metadata"]["uid"] = json!("another")),
    },
    Change { name: EDITED, make: |state| edit_nodes(state, edit_values) },
];

fn custom_resource(state: &State) -> Option<Value> {
    let found = state.store.find("skyhooks", "", CR).or_else(|| state.store.find("skyhooks", "", "gpu"));
    found.cloned()
}

fn edit_custom_resource(state: &mut State, edit: impl Fn(&mut Value)) {
    if let Some(mut cr) = custom_resource(state) {
        edit(&mut cr);
        let generation = cr["metadata"]["generation"].as_u64().unwrap_or(1);
        cr["metadata"]["generation"] = json!(generation + 1);
        state.store.load(cr);
    }
}

fn reboot(cr: &mut Value) {
    for package in cr["spec"]["packages"].as_object_mut().expect("packages").values_mut() {
        package["interrupt"] = json!({"type": "reboot"});
    }
}

/// Adds a pod that a drain evicts to each node.
fn add_workload(state: &mut State) {
    for node in state.store.objects().iter().filter(|object| object["kind"] == "Node") {
        let node = node["metadata"]["name"].as_str().expect("a name");
        let name = format!("web-{node}");
        state.store.load(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "shop", "uid": name, "ownerReferences":
                [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "w", "controller": true}]},
            "spec": {"nodeName": node, "containers": [{"name": "main", "image": "example.com/web"}]},
            "status": {"phase": "Running"},
        }));
    }
}

fn recreate(state: &mut State) {
    let flavor = ApiFlavor::Skyhook;
    let mut cr = custom_resource(state).unwrap_or_else(|| {
        json!({
            "apiVersion": flavor.api_version(), "kind": flavor.kind(), "metadata": {"name": CR},
            "spec": {"packages": {}}, "status": {"status": "in_progress"},
        })
    });
    let metadata = cr["metadata"].as_object_mut().expect("metadata");
    metadata.shift_remove("deletionTimestamp");
    metadata.insert("uid".to_owned(), json!("another"));
    metadata.insert("labels".to_owned(), json!({"made": "by-another"}));
    metadata.insert("finalizers".to_owned(), json!([flavor.finalizer()]));
    cr["spec"]["priority"] = json!(7);
    state.store.load(cr);
}

fn delete(state: &mut State) {
    let mut cr = custom_resource(state).expect("the custom resource exists");
    cr["metadata"]["deletionTimestamp"] = json!("2026-11-20T08:00:00Z");
    state.store.load(cr);
}

fn hold(state: &mut State) {
    let mut cr = custom_resource(state).expect("the custom resource exists");
    let since = kubectl_skyhook::ctx::now().to_string();
    let hold = json!({"by": "ann@laptop", "machine": "laptop", "process": 1, "since": since});
    let annotations = json!({
        ApiFlavor::Skyhook.key("pause"): "true",
        "kubectl-skyhook/pause-reason": "held for: reset gpu-tune on 3 nodes",
        "kubectl-skyhook/hold": hold.to_string(),
    });
    cr["metadata"]["annotations"] = annotations;
    state.store.load(cr);
}

fn edit_nodes(state: &mut State, edit: fn(&mut Value)) {
    for mut node in state.store.objects() {
        if node["kind"] == "Node" {
            edit(&mut node);
            state.store.load(node);
        }
    }
}

/// Changes the value of every key of the operator on a node.
fn edit_values(node: &mut Value) {
    for map in ["annotations", "labels"] {
        let all = node["metadata"][map].as_object_mut();
        for (key, value) in
            all.into_iter().flatten().filter(|(key, _)| key.starts_with("skyhook.nvidia.com/"))
        {
            *value = if key.contains("/nodeState_") { json!("{}") } else { json!("edited") };
        }
    }
}

/// The values that [`edit_values`] has set, with the nodes and keys.
pub fn edits(objects: &[Value]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for node in objects.iter().filter(|object| object["kind"] == "Node") {
        for map in ["annotations", "labels"] {
            let all = node["metadata"][map].as_object().into_iter().flatten();
            let edited = all.filter(|(_, value)| **value == json!("edited") || **value == json!("{}"));
            found.extend(edited.map(|(key, _)| (node["metadata"]["name"].to_string(), key.clone())));
        }
    }
    found
}

fn stripped() -> TestCluster {
    TestCluster::from_capture("finalizer-stripped")
}

fn paused_deletion() -> TestCluster {
    TestCluster::from_capture("deleted-while-paused")
}

fn erroring() -> TestCluster {
    TestCluster::captured_with_operator("apply-erroring")
}

fn erroring_without_operator() -> TestCluster {
    TestCluster::from_capture("apply-erroring")
}

fn complete() -> TestCluster {
    TestCluster::captured_with_operator("complete")
}

/// A custom resource that `finalizer strip` removed, with its journal.
fn strip_journal() -> TestCluster {
    let cluster = paused_deletion();
    cluster.run("finalizer strip gpu-tune --force --purge-state --confirm").expect_code(0);
    cluster
}

fn rejected() -> TestCluster {
    let cluster = TestCluster::from_capture("v0.17-pod-rejected");
    cluster.fake.load(operator(1));
    cluster
}

fn malformed() -> TestCluster {
    TestCluster::captured_with_operator("malformed-node-state")
}

fn stopped() -> TestCluster {
    TestCluster::captured_with_operator("rollout-stopped")
}

/// Older operators do not uninstall.
fn complete_v17() -> TestCluster {
    let cluster = TestCluster::from_capture("complete");
    cluster.fake.load(operator_of_version("v0.17.0"));
    cluster
}

fn complete_after(first: &str) -> TestCluster {
    let cluster = complete();
    cluster.run(&format!("{first} --confirm")).expect_code(0);
    cluster
}

fn paused() -> TestCluster {
    complete_after("pause gpu-tune")
}

fn disabled() -> TestCluster {
    complete_after("disable gpu-tune")
}

fn ignored() -> TestCluster {
    complete_after("node ignore node-2")
}

fn after_reset() -> TestCluster {
    let cluster = erroring();
    cluster.run("reset gpu-tune --no-pause --confirm").expect_code(0);
    cluster
}

fn after_cleanup() -> TestCluster {
    let cluster = stripped();
    cluster.run("leftovers --clean --confirm").expect_code(0);
    cluster
}

const fn row(
    cluster: fn() -> TestCluster,
    command: &'static str,
    refuses: &'static [&'static str],
    cannot_happen: &'static [&'static str],
) -> Row {
    Row { cluster, command, refuses, cannot_happen }
}

/// Changes that matter to writes of a custom resource's data on nodes, and to its pods.
const DATA: &[&str] = &[RECREATED, DELETED, HELD];
/// The same without an operator.
const DATA_ALONE: &[&str] = &[RECREATED, DELETED, HELD, OPERATOR];
/// Changes that matter to cleanups after a custom resource that is gone.
const CLEANUP: &[&str] = &[RECREATED, OPERATOR];
const NO_RESOURCE: &[&str] = &[DELETED, HELD];
const RUNNING: &[&str] = &[OPERATOR];

#[rustfmt::skip]
pub const COMMANDS: &[Row] = &[
    row(stripped, "leftovers --clean", CLEANUP, NO_RESOURCE),
    row(stripped, "leftovers gpu-tune --clean --purge-state", CLEANUP, NO_RESOURCE),
    row(stripped, "leftovers --clean --node node-1", CLEANUP, NO_RESOURCE),
    row(stripped, "reset gpu-tune", CLEANUP, NO_RESOURCE),
    row(stripped, "finalizer strip gpu-tune", CLEANUP, NO_RESOURCE),
    row(paused_deletion, "finalizer strip gpu-tune", &[RECREATED, HELD, OPERATOR], &[DELETED]),
    row(paused_deletion, "undelete gpu-tune", &[RECREATED, HELD], &[DELETED]),
    row(strip_journal, "undelete gpu-tune", &[RECREATED], NO_RESOURCE),
    row(erroring, "reset gpu-tune", DATA, RUNNING),
    row(erroring, "reset gpu-tune --node node-2 --no-pause", DATA, RUNNING),
    row(erroring_without_operator, "reset gpu-tune --node node-2 --no-pause", DATA_ALONE, &[]),
    row(complete, "node reset node-3 --skyhook gpu-tune", DATA, RUNNING),
    row(complete, "update-state gpu-tune driver 2.0.1 apply in_progress --node node-2", DATA, RUNNING),
    row(erroring, "package rerun driver --skyhook gpu-tune --node node-2", DATA, RUNNING),
    row(rejected, "package retry driver --skyhook gpu --node node-2", DATA, RUNNING),
    row(malformed, "reset gpu-tune --unreadable --node node-1", DATA, RUNNING),
    row(malformed, "fix", DATA, RUNNING),
    row(after_reset, "undo", DATA, RUNNING),
    row(after_cleanup, "undo", &[RECREATED], NO_RESOURCE),
    // These write to the custom resource alone; a pause is urgent whatever else happens.
    row(complete, "pause gpu-tune", &[RECREATED], RUNNING),
    row(complete, "disable gpu-tune", &[RECREATED], RUNNING),
    row(paused, "resume gpu-tune", &[RECREATED, HELD], RUNNING),
    row(disabled, "enable gpu-tune", &[RECREATED], RUNNING),
    row(complete_v17, "uninstall gpu-tune tuning", &[RECREATED, DELETED], RUNNING),
    row(stopped, "deployment-policy reset gpu-tune --node node-1", &[RECREATED], RUNNING),
    row(stopped, "deployment-policy reset gpu-tune", &[RECREATED], RUNNING),
    row(complete, "teardown --timeout 1s", &[RECREATED], RUNNING),
    // An ignored node is ignored for every custom resource.
    row(complete, "node ignore node-2", &[NODES], RUNNING),
    row(ignored, "node unignore node-2", &[NODES], RUNNING),
];
