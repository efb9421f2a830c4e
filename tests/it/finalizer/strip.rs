//! `finalizer strip`: its refusals, its cleanup of nodes, and foreign finalizers.

use insta::assert_snapshot;
use kubectl_skyhook::api::ApiFlavor;
use serde_json::{Value, json};

use super::{FOREIGN, NODES};
use crate::support::test_cluster::{CR, TestCluster, operator};

fn record() -> Vec<String> {
    ["nodeState", "version"].map(|kind| ApiFlavor::Skyhook.key(&format!("{kind}_{CR}"))).to_vec()
}

#[test]
fn strip_is_refused_when_a_less_disruptive_remedy_exists() {
    for cluster in ["deleted-while-paused", "deleted-while-erroring"] {
        let test_cluster = TestCluster::captured_with_operator(cluster);
        let ran = test_cluster.run("finalizer strip gpu-tune --confirm");
        ran.expect_code(3);
        assert_eq!(test_cluster.writes(), [""; 0]);
        let milder = match cluster {
            "deleted-while-paused" => "kubectl skyhook resume gpu-tune",
            _ => "kubectl skyhook package retry driver --skyhook gpu-tune --node node-2",
        };
        ran.expect_stderr(milder);
        ran.expect_stderr("--force");
    }
}

#[test]
fn unconfirmed_strip_writes_nothing() {
    let test_cluster = TestCluster::from_capture("deleted-while-paused");
    let ran = test_cluster.run("finalizer strip gpu-tune --force");
    ran.expect_code(3);
    ran.expect_stderr("there is no terminal for the prompt; nothing was changed");
    assert_eq!(test_cluster.writes(), [""; 0]);
}

#[test]
fn strip_of_an_object_not_being_deleted_is_refused() {
    let test_cluster = TestCluster::from_capture("complete");
    let ran = test_cluster.run("finalizer strip gpu-tune --force --confirm");
    ran.expect_code(3);
    ran.expect_stderr("is not being deleted");
    assert_eq!(test_cluster.writes(), [""; 0]);
}

#[test]
fn strip_removes_our_finalizer_and_cleans_nodes_as_the_operator_does() {
    let test_cluster = TestCluster::from_capture("deleted-while-paused");
    let cordon = ApiFlavor::Skyhook.key(&format!("cordon_{CR}"));
    test_cluster.change_node("node-1", |node| {
        node["metadata"]["annotations"][&cordon] = json!("true");
        node["spec"]["unschedulable"] = json!(true);
    });
    test_cluster.change_node("node-2", |node| {
        node["metadata"]["annotations"][&cordon] = json!("true");
        node["metadata"]["annotations"][ApiFlavor::Skyhook.key("cordon_other")] = json!("true");
        node["spec"]["unschedulable"] = json!(true);
    });
    let before = test_cluster.nodes();

    let dry = test_cluster.run("finalizer strip gpu-tune --force --dry-run");
    dry.expect_code(0);
    assert_eq!(test_cluster.writes(), [""; 0]);

    let ran = test_cluster.run("finalizer strip gpu-tune --force --confirm");
    ran.expect_code(0);
    assert_eq!(test_cluster.cr(), None);
    for node in NODES {
        assert_eq!(test_cluster.left_on(node), record(), "{node}");
    }
    assert_eq!(test_cluster.node("node-1")["spec"]["unschedulable"], Value::Null);
    assert_eq!(test_cluster.node("node-2")["spec"]["unschedulable"], json!(true));
    let first = test_cluster.writes().into_iter().next();
    let path = format!("/apis/{}/skyhooks/{CR}", ApiFlavor::Skyhook.api_version());
    assert_eq!(first, Some(format!("PATCH {path}")));

    let again = test_cluster.run("finalizer strip gpu-tune --confirm");
    again.expect_code(0);
    again.expect_stderr("nothing to do");

    let undone = test_cluster.run("undo --confirm");
    undone.expect_code(0);
    assert_eq!(test_cluster.nodes(), before);
    let back = test_cluster.cr().expect("undo recreates the custom resource");
    assert_eq!(back["metadata"]["deletionTimestamp"], Value::Null);
}

#[test]
fn foreign_finalizer_is_kept() {
    let test_cluster = TestCluster::from_capture("deleted-while-paused");
    test_cluster.add_finalizer(FOREIGN);
    let ran = test_cluster.run("finalizer strip gpu-tune --force --purge-state --confirm");
    ran.expect_code(0);
    let cr = test_cluster.cr().expect("the foreign finalizer keeps it");
    assert_eq!(cr["metadata"]["finalizers"], json!([FOREIGN]));
    for node in NODES {
        assert_eq!(test_cluster.left_on(node), [""; 0], "{node}");
    }
}

#[test]
fn nodes_are_unchanged_if_the_finalizer_stays() {
    let test_cluster = TestCluster::from_capture("deleted-while-paused");
    let before = test_cluster.nodes();
    test_cluster.fake.on("PATCH skyhooks").reply(422);
    let ran = test_cluster.run("finalizer strip gpu-tune --force --confirm");
    assert_ne!(ran.code, Some(0), "{}", ran.transcript());
    assert_eq!(test_cluster.nodes(), before);
    assert!(test_cluster.cr().is_some());
}

/// Once a replica is started, the operator runs uninstall.sh and ends the deletion.
#[test]
fn strip_is_refused_while_the_operator_is_scaled_to_zero() {
    let test_cluster = TestCluster::from_capture("deleted-while-paused");
    test_cluster.fake.load(operator(0));
    let status = test_cluster.run("status gpu-tune");
    status.expect_code(0);
    status.expect_stdout("the operator is scaled to zero");
    status.expect_stdout("now: kubectl scale deployment -n skyhook skyhook-operator");
    let refused = test_cluster.run("finalizer strip gpu-tune --confirm");
    assert_snapshot!(refused.transcript());
    assert_eq!(test_cluster.writes(), [""; 0]);
    let ran = test_cluster.run("finalizer strip gpu-tune --force --confirm");
    ran.expect_code(0);
    ran.expect_stderr("when a replica is available again, the operator continues the deletion");
    assert_eq!(test_cluster.cr(), None);
}

#[test]
fn strip_with_a_foreign_finalizer_needs_force_and_pauses_the_operator() {
    let test_cluster = TestCluster::captured_with_operator("deleted-while-erroring");
    test_cluster.add_finalizer(FOREIGN);
    let refused = test_cluster.run("finalizer strip gpu-tune --confirm");
    refused.expect_code(3);
    refused.expect_stderr(FOREIGN);
    assert_eq!(test_cluster.writes(), [""; 0]);
    // The operator acknowledges the pause.
    test_cluster.fake.on("PATCH skyhooks").nth(1).after(|it| {
        let mut cr = it.store.find("skyhooks", "", CR).expect("the custom resource exists").clone();
        cr["status"]["status"] = json!("paused");
        it.store.load(cr);
    });
    let ran = test_cluster.run("finalizer strip gpu-tune --confirm --force");
    ran.expect_code(0);
    // Pods are deleted with the custom resource, which still exists.
    let at_work = "may continue until skyhook/gpu-tune is gone";
    ran.expect_stderr(at_work);
    let cr = test_cluster.cr().expect("the foreign finalizer keeps it");
    assert_eq!(cr["metadata"]["finalizers"], json!([FOREIGN]));
    let pause = ApiFlavor::Skyhook.key("pause");
    assert_eq!(cr["metadata"]["annotations"][pause], json!("true"));
    for node in NODES {
        let left_on = test_cluster.left_on(node);
        assert!(left_on.iter().all(|key| record().contains(key)), "{node}: {left_on:?}");
    }
}

#[test]
fn nodes_of_an_object_held_by_others_are_cleaned_only_by_force() {
    // The operator has removed its finalizer, and keeps writing its keys while the object exists.
    let test_cluster = TestCluster::captured_with_operator("deleted-while-erroring");
    let mut cr = test_cluster.cr().expect("the custom resource exists");
    cr["metadata"]["finalizers"] = json!([FOREIGN]);
    test_cluster.fake.load(cr);
    let refused = test_cluster.run("finalizer strip gpu-tune --confirm");
    refused.expect_code(3);
    refused.expect_stderr(FOREIGN);
    assert_eq!(test_cluster.writes(), [""; 0]);
    test_cluster.run("finalizer strip gpu-tune --confirm --force").expect_code(0);
    let cr = test_cluster.cr().expect("the foreign finalizer keeps it");
    let pause = ApiFlavor::Skyhook.key("pause");
    assert_eq!(cr["metadata"]["annotations"][pause], json!("true"));
}
