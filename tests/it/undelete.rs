//! `undelete`: a custom resource is recreated, and its nodes are restored before the operator sees it.

use kubectl_skyhook::api::ApiFlavor;
use serde_json::{Value, json};

use crate::support::fake_api::Reply;
use crate::support::object_builder::{ObjectBuilder, SKYHOOK};
use crate::support::test_cluster::{CR, TestCluster};

const STRIP: &str = "finalizer strip gpu-tune --force --confirm";
const UNDELETE: &str = "undelete gpu-tune --confirm";
const NODES: [&str; 3] = ["node-1", "node-2", "node-3"];

/// The user's part of a custom resource, without server metadata and operator fields.
fn user_part(cr: &Value) -> Value {
    json!({
        "spec": cr["spec"],
        "annotations": cr["metadata"]["annotations"],
        "labels": cr["metadata"]["labels"],
    })
}

fn keys(cluster: &TestCluster) -> Value {
    json!(NODES.map(|n| {
        let node = cluster.node(n);
        json!([node["metadata"]["annotations"], node["metadata"]["labels"], node["spec"]])
    }))
}

/// The methods and collections of the writes in order, with consecutive node writes merged.
fn write_order(cluster: &TestCluster, from: usize) -> Vec<String> {
    let mut write_order: Vec<String> = Vec::new();
    for write in cluster.writes().into_iter().skip(from) {
        let (method, path) = write.split_once(' ').expect("a method");
        let what = if path.contains("/nodes/") { "nodes" } else { path.rsplit('/').next().expect("a name") };
        let line = format!("{method} {what}");
        if write_order.last() != Some(&line) {
            write_order.push(line);
        }
    }
    write_order
}

#[test]
fn nodes_are_restored_before_the_custom_resource_is_recreated() {
    let cluster = TestCluster::from_capture("deleted-while-paused");
    let before = cluster.cr().expect("the custom resource exists");
    let nodes = keys(&cluster);
    cluster.run("finalizer strip gpu-tune --force --purge-state --confirm").expect_code(0);
    assert_ne!(keys(&cluster), nodes);
    let so_far = cluster.writes().len();

    let dry = cluster.run("undelete gpu-tune --dry-run");
    dry.expect_code(0);
    assert_eq!(cluster.writes().len(), so_far);

    let ran = cluster.run("undelete gpu-tune --reason mistake --confirm");
    ran.expect_code(0);
    let mut cr = cluster.cr().expect("a recreated custom resource");
    let annotations = cr["metadata"]["annotations"].as_object_mut();
    let reason = annotations.expect("annotations").remove("kubectl-skyhook/undelete-reason");
    assert_eq!(reason, Some(json!("mistake")));
    assert_eq!(user_part(&cr), user_part(&before));
    assert_eq!(cr["metadata"]["deletionTimestamp"], Value::Null);
    assert_ne!(cr["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(keys(&cluster), nodes);
    assert_eq!(write_order(&cluster, so_far), ["PATCH nodes", "POST skyhooks"]);

    let again = cluster.run(UNDELETE);
    again.expect_code(0);
    assert_eq!(again.stderr, "skyhook/gpu-tune exists and is not being deleted: nothing to do\n");
}

/// The old object is gone, so no step waits for its deletion.
#[test]
fn nothing_is_awaited_for_a_resource_that_is_gone() {
    let cluster = TestCluster::from_capture("deleted-while-paused");
    let saved = cluster.state.path().join("saved.json");
    std::fs::write(&saved, cluster.cr().expect("the custom resource exists").to_string()).expect("a file");
    cluster.run(STRIP).expect_code(0);
    assert_eq!(cluster.cr(), None);
    for from in [String::new(), format!("-f {}", saved.display())] {
        let preview = cluster.run(&format!("undelete gpu-tune {from} --dry-run"));
        preview.expect_code(0);
        preview.expect_stdout("skyhook/gpu-tune\n  create\n");
        preview.expect_no_stdout("wait until");
        preview.expect_no_stdout("Kubernetes cannot cancel a deletion");
        let plan = cluster.state.path().join("plan.json");
        let _ = std::fs::remove_file(&plan);
        cluster.run(&format!("undelete gpu-tune {from} --plan-out {}", plan.display())).expect_code(0);
        let plan = std::fs::read_to_string(&plan).expect("a plan");
        assert!(!plan.contains("gone"), "{plan}");
    }
}

#[test]
fn custom_resource_is_not_recreated_if_a_node_cannot_be_restored() {
    let cluster = TestCluster::from_capture("deleted-while-paused");
    cluster.run("finalizer strip gpu-tune --force --purge-state --confirm").expect_code(0);
    // Something has written to the node since.
    let mut node = cluster.node("node-2");
    let key = ApiFlavor::Skyhook.key(&format!("nodeState_{CR}"));
    node["metadata"]["annotations"][&key] = json!("{}");
    cluster.fake.load(node);
    let ran = cluster.run(UNDELETE);
    ran.expect_code(4);
    ran.expect_stdout("node-2");
    assert_eq!(cluster.cr(), None);

    // A removed node is no obstacle.
    cluster.fake.change(|state| state.store.forget("nodes", "", "node-2"));
    let ran = cluster.run(UNDELETE);
    ran.expect_code(0);
    ran.expect_stderr("data removed from deleted or replaced nodes is not restored: node-2");
    assert!(cluster.cr().is_some());
}

#[test]
fn terminating_custom_resource_is_saved_released_and_recreated() {
    let cluster = TestCluster::from_capture("deleted-while-paused");
    let before = cluster.cr().expect("the custom resource exists");
    let nodes = keys(&cluster);
    let ran = cluster.run(UNDELETE);
    ran.expect_code(0);
    let message = "Kubernetes cannot cancel a deletion";
    ran.expect_stderr(message);
    let cr = cluster.cr().expect("a recreated custom resource");
    assert_eq!(user_part(&cr), user_part(&before));
    assert_eq!(cr["metadata"]["deletionTimestamp"], Value::Null);
    assert_eq!(keys(&cluster), nodes);
    assert_eq!(write_order(&cluster, 0), ["PATCH gpu-tune", "POST skyhooks"]);
    // Neither the release of the old object nor the creation of the new one is useful alone, so `undo`
    // refuses both.
    let undone = cluster.run("undo --confirm");
    undone.expect_code(1);
    undone.expect_stderr("was already undone, cannot be undone, or changed nothing");
    assert!(cluster.cr().is_some());
}

/// The operator works on this custom resource, so it is paused first; no operator is simulated here.
#[test]
fn running_operator_is_paused_before_release() {
    let cluster = TestCluster::captured_with_operator("deleted-while-erroring");
    let plan = cluster.run("undelete gpu-tune --dry-run -o json");
    plan.expect_code(0);
    let plan: Value = serde_json::from_str(&plan.stdout).expect("JSON");
    let steps = plan["steps"].as_array().expect("steps");
    let all: Vec<&str> = steps
        .iter()
        .flat_map(|s| s["changes"].as_array().into_iter().flatten())
        .filter_map(Value::as_str)
        .collect();
    let key = ApiFlavor::Skyhook.key("pause");
    assert!(all[1].contains(&format!("annotation {key}=true")) || all[0].contains(&key), "{all:?}");
    assert!(all.contains(&"create"), "{all:?}");
    let free = cluster.run("undelete gpu-tune --no-pause --confirm");
    free.expect_code(0);
    assert_eq!(write_order(&cluster, 0), ["PATCH gpu-tune", "PATCH nodes", "POST skyhooks"]);
}

/// The pause was ended again, so nothing has changed.
#[test]
fn forbidden_release_leaves_the_object_unchanged() {
    let cluster = TestCluster::captured_with_operator("deleted-while-erroring");
    let as_it_was = || {
        let cr = cluster.cr().expect("the custom resource exists");
        ["annotations", "finalizers", "deletionTimestamp"].map(|part| cr["metadata"][part].clone())
    };
    let before = as_it_was();
    let second = cluster.fake.on("PATCH skyhooks").nth(2);
    second.reply(Reply::from(403));
    let ran = cluster.with_operator(|| cluster.run(UNDELETE));
    ran.expect_code(1);
    ran.expect_stdout("nothing changed");
    assert_eq!(as_it_was(), before);
}

#[test]
fn interrupted_undelete_is_finished_by_the_same_command() {
    let cluster = TestCluster::from_capture("deleted-while-paused");
    let before = cluster.cr().expect("the custom resource exists");
    cluster.fake.on("CREATE skyhooks").reply(422);
    let ran = cluster.run(UNDELETE);
    ran.expect_code(4);
    assert_eq!(cluster.cr(), None);
    cluster.fake.heal();
    cluster.run(UNDELETE).expect_code(0);
    assert_eq!(user_part(&cluster.cr().expect("a recreated custom resource")), user_part(&before));
}

#[test]
fn undo_of_strip_recreates_the_custom_resource() {
    let cluster = TestCluster::from_capture("deleted-while-paused");
    let before = cluster.cr().expect("the custom resource exists");
    let nodes = keys(&cluster);
    cluster.run(STRIP).expect_code(0);
    cluster.run("undo --confirm").expect_code(0);
    assert_eq!(user_part(&cluster.cr().expect("a recreated custom resource")), user_part(&before));
    assert_eq!(keys(&cluster), nodes);
}

#[test]
fn pause_set_by_strip_is_not_restored() {
    let cluster = TestCluster::captured_with_operator("deleted-while-erroring");
    let before = cluster.cr().expect("the custom resource exists");
    let mut cr = before.clone();
    let finalizers = cr["metadata"]["finalizers"].as_array_mut();
    finalizers.expect("a list").push(json!("example.com/keep"));
    cluster.fake.load(cr);
    cluster.run(STRIP).expect_code(0);
    let held = cluster.cr().expect("the other finalizer keeps the object");
    let pause = ApiFlavor::Skyhook.key("pause");
    assert_eq!(held["metadata"]["annotations"][&pause], "true");
    cluster.fake.change(|state| state.store.forget("skyhooks", "", CR));
    cluster.run(UNDELETE).expect_code(0);
    assert_eq!(user_part(&cluster.cr().expect("a recreated custom resource")), user_part(&before));
}

#[test]
fn object_with_a_foreign_finalizer_is_refused() {
    let cluster = TestCluster::from_capture("deleted-while-paused");
    let mut cr = cluster.cr().expect("the custom resource exists");
    let finalizers = cr["metadata"]["finalizers"].as_array_mut();
    finalizers.expect("a list").push(json!("example.com/keep"));
    cluster.fake.load(cr);
    let ran = cluster.run(UNDELETE);
    ran.expect_code(3);
    ran.expect_stderr("example.com/keep");
    let unkept = cluster.run("undelete gpu-tune --no-journal --confirm");
    unkept.expect_code(3);
    assert_eq!(cluster.writes(), [""; 0]);
}

#[test]
fn file_replaces_a_missing_journal() {
    let cluster = TestCluster::from_capture("complete");
    let before = cluster.cr().expect("the custom resource exists");
    cluster.fake.change(|state| state.store.forget("skyhooks", "", CR));
    let ran = cluster.run(UNDELETE);
    ran.expect_code(1);
    for message in ["\"gpu-tune\" not found", "kubectl skyhook undelete gpu-tune -f FILE"] {
        ran.expect_stderr(message);
    }
    let file = cluster.state.path().join("saved.json");
    std::fs::write(&file, before.to_string()).expect("a file");
    let ran = cluster.run(&format!("undelete gpu-tune -f {} --confirm", file.display()));
    ran.expect_code(0);
    assert_eq!(user_part(&cluster.cr().expect("a recreated custom resource")), user_part(&before));
    // A custom resource that is complete on every node runs nothing.
    let grade = "(changes objects, runs nothing; B1)";
    ran.expect_stderr(grade);
}

/// A reconfigured package is complete without its interrupt, which only the status shows.
#[test]
fn config_updates_are_restored_before_the_operator_resumes() {
    let cluster = TestCluster::from_capture("deleted-while-paused");
    let mut cr = cluster.cr().expect("the custom resource exists");
    cr["status"]["configUpdates"] = json!({"driver": ["a.conf"]});
    cluster.fake.load(cr);
    let mut operator = ObjectBuilder(ApiFlavor::Skyhook).operator();
    operator["spec"]["replicas"] = json!(0);
    cluster.fake.load(operator);
    cluster.run(UNDELETE).expect_code(0);
    let updates = cluster.cr().expect("a recreated custom resource")["status"]["configUpdates"].clone();
    assert_eq!(updates, json!({"driver": ["a.conf"]}));
}

/// A running operator must not act on the new object early: it is created paused, and resumed when the nodes
/// are restored.
#[test]
fn running_operator_stays_paused_until_nodes_are_restored() {
    let cluster = TestCluster::captured_with_operator("deleted-while-erroring");
    let mut cr = cluster.cr().expect("the custom resource exists");
    cr["status"]["configUpdates"] = json!({"driver": ["a.conf"]});
    cluster.fake.load(cr);
    let plan = cluster.run("undelete gpu-tune --no-pause --dry-run");
    plan.expect_code(0);
    let at = |text: &str| plan.stdout.find(text).unwrap_or_else(|| panic!("{text}"));
    let pause = ApiFlavor::Skyhook.key("pause");
    assert!(at("create") < at("the operator has set the status of"), "{}", plan.stdout);
    assert!(at("the operator has set the status of") < at("configUpdates"), "{}", plan.stdout);
    assert!(at("configUpdates") < at(&format!("remove annotation {pause}")), "{}", plan.stdout);
}

/// If the new object cannot be created, the journal has the old one, and `undo` recreates it.
#[test]
fn failed_recreation_is_undone() {
    let cluster = TestCluster::from_capture("deleted-while-paused");
    let before = cluster.cr().expect("the custom resource exists");
    cluster.fake.on("CREATE skyhooks").reply(422);
    cluster.run(UNDELETE).expect_code(4);
    assert_eq!(cluster.cr(), None);
    cluster.fake.heal();
    let undone = cluster.run("undo --confirm");
    undone.expect_code(0);
    assert_eq!(user_part(&cluster.cr().expect("a recreated custom resource")), user_part(&before));
}

/// A custom resource with an interruption budget of one node. Its uninstall has ended on three nodes, which all have
/// the status `in_progress`.
fn uninstalled_everywhere() -> TestCluster {
    let packages = json!({"driver": {
        "version": "1.0.0", "image": "example.com/driver", "uninstall": {"enabled": true, "apply": false},
    }});
    let fake = SKYHOOK.serve(packages);
    for node in NODES {
        let mut node = SKYHOOK.node(node, "in_progress", &[]);
        let key = ApiFlavor::Skyhook.key("status_gpu");
        node["metadata"]["labels"] = json!({key: "in_progress"});
        fake.load(node);
    }
    let mut cr = fake.get("skyhooks", "", "gpu").expect("a custom resource");
    cr["spec"]["interruptionBudget"] = json!({"count": 1});
    cr["metadata"]["deletionTimestamp"] = json!("2026-11-20T12:00:00Z");
    fake.load(cr);
    TestCluster::serving(fake)
}

fn statuses(cluster: &TestCluster) -> Value {
    let key = ApiFlavor::Skyhook.key("status_gpu");
    json!(NODES.map(|name| {
        let metadata = &cluster.node(name)["metadata"];
        json!([metadata["annotations"][&key], metadata["labels"][&key]])
    }))
}

/// The operator works on all nodes with this status at once, so more nodes than the budget allows.
#[test]
fn status_in_progress_is_not_restored() {
    let none = json!([[null, null], [null, null], [null, null]]);
    for back in ["undelete gpu", "undo"] {
        let cluster = uninstalled_everywhere();
        cluster.run("finalizer strip gpu --force --confirm").expect_code(0);
        assert_eq!(statuses(&cluster), none);
        let name = format!("status_in_progress_is_not_restored_{}", &back[..4]);
        insta::assert_snapshot!(name, cluster.run(&format!("{back} --dry-run")).transcript());
        cluster.run(&format!("{back} --confirm")).expect_code(0);
        assert_eq!(statuses(&cluster), none, "{back}");
    }
}

/// A pause would have replaced the status; without a pause it is removed before the new object exists.
#[test]
fn status_in_progress_is_removed_before_the_recreation() {
    let cluster = uninstalled_everywhere();
    insta::assert_snapshot!(cluster.run("undelete gpu --no-pause --dry-run").transcript());
    cluster.run("undelete gpu --no-pause --confirm").expect_code(0);
    assert_eq!(statuses(&cluster), json!([[null, null], [null, null], [null, null]]));
    assert_eq!(write_order(&cluster, 0), ["PATCH gpu", "PATCH nodes", "POST skyhooks"]);
    cluster.run("undo --confirm").expect_code(1);
    assert_eq!(statuses(&cluster), json!([[null, null], [null, null], [null, null]]));
}

/// A deleted CRD takes all its custom resources with it, and the API server creates no others.
#[test]
fn undelete_is_refused_while_the_crd_is_being_deleted() {
    let cluster = TestCluster::from_capture("deleted-while-erroring");
    let name = "skyhooks.skyhook.nvidia.com";
    cluster.fake.load(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": name, "deletionTimestamp": "2026-11-20T08:00:00Z",
            "finalizers": ["customresourcecleanup.apiextensions.k8s.io"]},
    }));
    let ran = cluster.run(UNDELETE);
    ran.expect_code(3);
    let refusal = format!(
        "error: the CRD {name} is being deleted, so skyhook/gpu-tune cannot be recreated; nothing was changed\n"
    );
    ran.expect_stderr(refusal);
    assert_eq!(cluster.writes(), [""; 0]);
    cluster.run("diagnose stuck --all").expect_stdout("SKY515 crd-being-deleted");
}

/// Without the CRD, the API server would refuse the recreation after the deletion.
#[test]
fn undelete_is_refused_if_crds_cannot_be_read() {
    let cluster = TestCluster::from_capture("deleted-while-erroring");
    cluster.fake.on("GET customresourcedefinitions").reply(403);
    let ran = cluster.run(UNDELETE);
    ran.expect_code(3);
    ran.expect_stderr("so it is unknown whether skyhook/gpu-tune can be recreated; nothing was changed\n");
    assert_eq!(cluster.writes(), [""; 0]);
}
