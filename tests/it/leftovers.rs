//! `leftovers`: finds and removes what deleted custom resources left behind.

use insta::assert_snapshot;
use kubectl_skyhook::api::ApiFlavor;
use serde_json::{Value, json};

use crate::support::run::run;
use crate::support::test_cluster::{CR, TestCluster};

const NODES: [&str; 3] = ["node-1", "node-2", "node-3"];

fn key(suffix: &str) -> String {
    ApiFlavor::Skyhook.key(suffix)
}

/// A cluster with a ConfigMap, a pod and a cordon of a deleted custom resource, and another one that exists.
fn with_remains(owner: &str) -> TestCluster {
    let test_cluster = TestCluster::captured_with_operator("complete");
    let namespace = ApiFlavor::Skyhook.default_namespace();
    let labels = json!({key("name"): owner});
    let owners = json!([{"apiVersion": ApiFlavor::Skyhook.api_version(), "kind": "Skyhook", "name": owner, "uid": "u-gone",
        "controller": true}]);
    let of_package =
        json!({key("name"): owner, key("Package.Name"): "driver", key("Package.Version"): "1.0.0"});
    test_cluster.fake.load(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": format!("{owner}-driver-1.0.0"), "namespace": namespace, "labels": labels,
            "annotations": of_package, "ownerReferences": owners},
        "data": {"a.conf": "x"},
    }));
    let note = json!({"name": "driver", "version": "1.0.0", "skyhook": owner, "stage": "apply"});
    test_cluster.fake.load(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("{owner}-driver-apply"), "namespace": namespace, "labels": labels,
            "annotations": {key("package"): note.to_string()}, "ownerReferences": owners},
        "spec": {"nodeName": "node-1"},
        "status": {"phase": "Running"},
    }));
    let mut node = test_cluster.node("node-1");
    let state = json!({"driver|1.0.0": {"name": "driver", "version": "1.0.0",
        "image": "example.com/driver", "stage": "apply", "state": "in_progress"}});
    let annotations = &mut node["metadata"]["annotations"];
    annotations[key(&format!("nodeState_{owner}"))] = json!(state.to_string());
    annotations[key(&format!("version_{owner}"))] = json!("v0.17.0");
    annotations[key(&format!("status_{owner}"))] = json!("in_progress");
    annotations[key(&format!("cordon_{owner}"))] = json!("true");
    node["metadata"]["labels"][key(&format!("status_{owner}"))] = json!("in_progress");
    node["spec"]["unschedulable"] = json!(true);
    let kind = key(&format!("{owner}/NotReady"));
    let conditions = node["status"]["conditions"].as_array_mut();
    let condition = json!({"type": kind, "status": "True", "reason": "Incomplete"});
    conditions.expect("a list").push(condition);
    test_cluster.fake.load(node);
    test_cluster
}

/// Keys and conditions of a custom resource on a node.
fn keys_and_conditions(test_cluster: &TestCluster, owner: &str) -> Vec<String> {
    let node = test_cluster.node("node-1");
    let maps = ["annotations", "labels"].map(|m| node["metadata"][m].clone());
    let mut left: Vec<String> = maps
        .iter()
        .flat_map(|m| m.as_object().into_iter().flatten())
        .map(|(key, _)| key.clone())
        .filter(|key| key.ends_with(&format!("_{owner}")))
        .collect();
    let conditions = node["status"]["conditions"].as_array().cloned();
    let kinds = conditions.unwrap_or_default();
    let kinds = kinds.iter().filter_map(|c| c["type"].as_str());
    let ours = key(&format!("{owner}/"));
    left.extend(kinds.filter(|k| k.starts_with(&ours)).map(str::to_owned));
    left.sort();
    left
}

#[test]
fn leftovers_are_listed_with_their_former_owner() {
    for cluster in ["finalizer-stripped", "complete", "modelled-mirrored-and-complete"] {
        for format in ["table", "json", "name"] {
            let ran = run(&format!("leftovers --from tests/clusters/{cluster} -o {format}")).output();
            ran.expect_code(0);
            assert_snapshot!(format!("leftovers_{cluster}_{format}"), ran.transcript());
        }
    }
    let test_cluster = with_remains("gone");
    let ran = test_cluster.run("leftovers");
    ran.expect_code(0);
    assert_snapshot!("leftovers_of_all_kinds", ran.stdout);
    let unknown = test_cluster.run("leftovers gnoe");
    unknown.expect_code(1);
    unknown.expect_stderr("did you mean gone");
    assert_eq!(test_cluster.writes(), [""; 0]);
}

#[test]
fn clean_removes_all_but_node_state_and_undo_restores_it() {
    let test_cluster = with_remains("gone");
    let living = keys_and_conditions(&test_cluster, CR);
    let all = keys_and_conditions(&test_cluster, "gone");
    let map = || test_cluster.fake.get("configmaps", "skyhook", "gone-driver-1.0.0");
    let mut restored = map().expect("the ConfigMap of the deleted custom resource");
    let unasked = test_cluster.run("leftovers --clean");
    unasked.expect_code(3);
    assert_eq!(test_cluster.writes(), [""; 0]);

    let ran = test_cluster.run("leftovers --clean --confirm");
    ran.expect_code(0);
    ran.expect_stderr("the record of what is installed stays on node-1");
    assert_eq!(keys_and_conditions(&test_cluster, "gone"), [key("nodeState_gone"), key("version_gone")]);
    assert_eq!(test_cluster.node("node-1")["spec"]["unschedulable"], Value::Null);
    assert_eq!(test_cluster.fake.get("pods", "skyhook", "gone-driver-apply"), None);
    assert_eq!(map(), None);
    assert_eq!(keys_and_conditions(&test_cluster, CR), living);

    test_cluster.run("undo --confirm").expect_code(0);
    assert_eq!(keys_and_conditions(&test_cluster, "gone"), all);
    // With its owner, which is gone, the garbage collector would delete it at once.
    let mut map = map().expect("undo recreates the ConfigMap");
    for map in [&mut map, &mut restored] {
        let metadata = map["metadata"].as_object_mut().expect("metadata");
        metadata.retain(|key, _| {
            !["uid", "resourceVersion", "creationTimestamp", "generation"].contains(&key.as_str())
        });
    }
    restored["metadata"].as_object_mut().expect("metadata").remove("ownerReferences");
    assert_eq!(map, restored);

    test_cluster.run("leftovers gone --clean --purge-state --confirm").expect_code(0);
    assert_eq!(keys_and_conditions(&test_cluster, "gone"), [""; 0]);
    let none = test_cluster.run("leftovers -o name");
    assert_eq!(none.stdout, "");
    none.expect_code(0);
    let again = test_cluster.run("leftovers --clean --confirm");
    again.expect_code(0);
    again.expect_stderr("nothing to do");
}

#[test]
fn cordon_shared_with_an_existing_custom_resource_is_kept() {
    let test_cluster = with_remains("gone");
    let mut node = test_cluster.node("node-1");
    node["metadata"]["annotations"][key(&format!("cordon_{CR}"))] = json!("true");
    test_cluster.fake.load(node);
    test_cluster.run("leftovers --clean --confirm").expect_code(0);
    let node = test_cluster.node("node-1");
    assert_eq!(node["spec"]["unschedulable"], json!(true));
    assert_eq!(node["metadata"]["annotations"][key("cordon_gone")], Value::Null);
    assert_eq!(node["metadata"]["annotations"][key(&format!("cordon_{CR}"))], "true");
}

#[test]
fn two_deleted_owners_do_not_keep_each_others_cordon() {
    let test_cluster = with_remains("gone");
    let mut node = test_cluster.node("node-1");
    node["metadata"]["annotations"][key("cordon_another")] = json!("true");
    test_cluster.fake.load(node);
    test_cluster.run("leftovers --clean --confirm").expect_code(0);
    assert_eq!(test_cluster.node("node-1")["spec"]["unschedulable"], Value::Null);
}

#[test]
fn unreadable_custom_resources_do_not_count_as_deleted() {
    let test_cluster = with_remains("gone");
    test_cluster.fake.on("LIST skyhooks").reply(403);
    for words in ["leftovers", "leftovers --clean --confirm"] {
        let ran = test_cluster.run(words);
        ran.expect_code(1);
        let message = "cannot read custom resources";
        ran.expect_stderr(message);
    }
    test_cluster.fake.heal();
    test_cluster.fake.on("LIST configmaps").reply(403);
    let ran = test_cluster.run("leftovers");
    let message = "cannot read ConfigMaps of packages";
    ran.expect_stderr(message);
    ran.expect_code(1);
    assert_eq!(test_cluster.writes(), [""; 0]);
    let ran = test_cluster.run("leftovers --clean --confirm");
    ran.expect_code(4);
    let message = "ConfigMaps of packages could not be read and will not be removed";
    ran.expect_stderr(message);
    assert_ne!(test_cluster.writes(), [""; 0]);
}

/// Only the node state is left, which needs `--purge-state`, so there is nothing else to remove.
#[test]
fn node_state_is_kept_without_purge_state() {
    let test_cluster = TestCluster::from_capture("complete");
    test_cluster.fake.change(|state| state.store.forget("skyhooks", "", CR));
    for node in NODES {
        let mut object = test_cluster.node(node);
        let metadata = &mut object["metadata"];
        let keep = [key(&format!("nodeState_{CR}")), key(&format!("version_{CR}"))];
        metadata["annotations"].as_object_mut().expect("a map").retain(|k, _| keep.contains(k));
        metadata["labels"] = json!({});
        let conditions = object["status"]["conditions"].as_array_mut().expect("a list");
        conditions.retain(|c| c["type"] == "Ready");
        test_cluster.fake.load(object);
    }
    let ran = test_cluster.run("leftovers");
    let last = "to remove the leftovers: kubectl skyhook leftovers --clean --purge-state";
    assert_eq!(ran.stdout.lines().last(), Some(last), "{}", ran.transcript());
    let ran = test_cluster.run("leftovers --clean --confirm");
    ran.expect_code(0);
    ran.expect_stderr("nothing to do");
    assert_eq!(test_cluster.writes(), [""; 0]);
}

/// On a node that the newer operator has not adopted, the older node state is the only one; elsewhere it is a
/// copy.
#[test]
fn only_copy_of_a_node_state_is_kept() {
    let command = "leftovers overdue --clean --dry-run --from tests/rules/legacy_keys_left.yaml";
    let state = key("nodeState_overdue");
    let kept = run(command).output();
    kept.expect_code(0);
    kept.expect_no_stdout(&state);
    let purged = run(&format!("{command} --purge-state")).output();
    purged.expect_code(0);
    purged.expect_stdout(&state);
}

#[test]
fn repeated_cleanup_of_a_name_has_nothing_to_do() {
    let test_cluster = with_remains("gone");
    let clean = "leftovers gone --clean --purge-state --confirm";
    test_cluster.run(clean).expect_code(0);
    let writes = test_cluster.writes();
    let again = test_cluster.run(clean);
    again.expect_code(0);
    again.expect_stderr("nothing is left over from gone\n");
    again.expect_stderr("nothing to do");
    assert_eq!(test_cluster.writes(), writes);
}

/// The ConfigMap has the labels of both kinds of ConfigMaps, so both of the operator's selectors match it.
#[test]
fn config_map_with_both_labels_is_deleted_once() {
    let test_cluster = with_remains("gone");
    let mut map = test_cluster.fake.get("configmaps", "skyhook", "gone-driver-1.0.0").expect("a ConfigMap");
    let metadata = &mut map["metadata"];
    metadata["name"] = json!("gone-node-1-metadata");
    metadata["labels"][key("skyhook-node-meta")] = json!("gone");
    metadata["annotations"] = json!({key("name"): "gone", key("Node.name"): "node-1"});
    test_cluster.fake.load(map);
    let ran = test_cluster.run("leftovers --clean --confirm -o json");
    ran.expect_code(0);
    let steps = ran.json()["steps"].as_array().expect("steps").clone();
    let maps = steps.iter().filter(|step| step["target"] == "configmap/skyhook/gone-node-1-metadata");
    assert_eq!(maps.count(), 1, "{}", ran.transcript());
    let deletions = test_cluster.writes().into_iter();
    assert_eq!(deletions.filter(|w| w.ends_with("/gone-node-1-metadata")).count(), 1);
}
