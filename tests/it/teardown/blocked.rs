//! Deletions that are blocked, and nodes that stay as they are.

use insta::assert_snapshot;
use kubectl_skyhook::api::{ApiFlavor, keys};
use serde_json::json;

use super::{cr, delete_at_once, driver, node, remove, teardown, tuning, two, uninstalling};
use crate::support::fake_api::FakeApi;
use crate::support::object_builder::SKYHOOK;
use crate::support::run::run;
use crate::support::test_cluster::TestCluster;

#[test]
fn blocked_deletion_keeps_its_dependencies() {
    let fake = two();
    let mut held = cr(SKYHOOK, "late", 300, driver(None));
    held["metadata"]["annotations"] = json!({ApiFlavor::Skyhook.key("disable"): "true"});
    fake.load(held);
    let test_cluster = TestCluster::serving(fake);
    let ran = teardown(&test_cluster, "--confirm -o json");
    ran.expect_code(2);
    let document = ran.json();
    assert_eq!(
        (&document["kind"], &document["ended"], &document["report"]["safe"]),
        (&json!("Outcome"), &json!("blocked"), &json!(false))
    );
    let items: Vec<_> = document["report"]["items"].as_array().into_iter().flatten().collect();
    let states: Vec<_> = items.iter().map(|i| (i["object"].as_str(), i["state"].as_str())).collect();
    assert_eq!(
        states,
        [
            (Some("skyhook/late"), Some("Blocked")),
            (Some("skyhook/base"), Some("NotStarted")),
            (Some("deploymentpolicy/careful"), Some("NotStarted")),
        ]
    );
    assert_eq!(items[0]["blockers"][0]["code"], json!("SKY110"));
    assert_eq!(items[0]["blockers"][0]["remedy"], json!("kubectl skyhook enable late"));
    assert_eq!(test_cluster.writes().len(), 1);
}

/// Two custom resources on separate nodes: one is disabled, the other is slow.
fn side_by_side() -> FakeApi {
    let fake = two();
    for (name, at) in [("held", "node-3"), ("slow", "node-4")] {
        let mut cr = cr(SKYHOOK, name, 200, driver(None));
        cr["spec"]["nodeSelectors"] = json!({"matchLabels": {"pool": name}});
        fake.load(cr);
        let mut node = node(SKYHOOK, at, &[&format!("{name} driver|1.0.0 config complete")]);
        node["metadata"]["labels"] = json!({"pool": name});
        fake.load(node);
    }
    let key = ApiFlavor::Skyhook.key("disable");
    fake.change(|it| {
        it.store.forget("skyhooks", "", "late");
        it.store.forget("skyhooks", "", "base");
        let mut held = it.store.find("skyhooks", "", "held").expect("the custom resource exists").clone();
        held["metadata"]["annotations"] = json!({key: "true"});
        it.store.load(held);
    });
    uninstalling(&fake, "slow", "node-4");
    fake
}

/// At this read, deletions without progress are reported stuck; tests remove objects right before it.
const STUCK_READ: (&str, usize) = ("LIST poddisruptionbudgets", 4);

#[test]
fn blocked_deletion_stops_only_its_dependents() {
    let fake = side_by_side();
    let (look, nth) = STUCK_READ;
    fake.on(look).nth(nth).after(|it| {
        it.store.forget("pods", SKYHOOK.namespace(), "slow-driver");
        remove(it, SKYHOOK, "slow");
    });
    let test_cluster = TestCluster::serving(fake);
    let ran = test_cluster.run("teardown --timeout 60s --confirm");
    ran.expect_code(2);
    assert_snapshot!("teardown_one_branch", ran.transcript());
    assert_eq!(test_cluster.writes().len(), 2);
}

#[test]
fn blocked_deletion_may_recover_while_others_progress() {
    let fake = side_by_side();
    let (look, nth) = STUCK_READ;
    fake.on(look).nth(nth).after(|it| remove(it, SKYHOOK, "held"));
    fake.on(look).nth(nth + 1).after(|it| {
        it.store.forget("pods", SKYHOOK.namespace(), "slow-driver");
        remove(it, SKYHOOK, "slow");
    });
    let test_cluster = TestCluster::serving(fake);
    let ran = test_cluster.run("teardown --timeout 60s --confirm");
    ran.expect_code(0);
    assert_eq!(test_cluster.writes().len(), 3, "the policy as well");
}

#[test]
fn foreign_finalizers_are_named() {
    let fake = FakeApi::new().serving(ApiFlavor::Skyhook).with(SKYHOOK.operator());
    let mut kept = cr(SKYHOOK, "kept", 200, tuning());
    kept["metadata"]["finalizers"] = json!(["example.com/keep"]);
    let test_cluster = TestCluster::serving(fake.with(kept));
    let before = teardown(&test_cluster, "--dry-run");
    before.expect_code(2);
    assert_snapshot!("teardown_foreign", teardown(&test_cluster, "--confirm").transcript());
}

#[test]
fn missing_operator_requires_finalizer_strip() {
    let fake = FakeApi::new()
        .serving(ApiFlavor::Skyhook)
        .with(cr(SKYHOOK, "late", 300, tuning()))
        .with(node(SKYHOOK, "node-1", &[]));
    let test_cluster = TestCluster::serving(fake);
    assert_snapshot!("teardown_no_operator", teardown(&test_cluster, "--confirm").transcript());
}

#[test]
fn node_that_stays_cordoned_is_not_safe() {
    let fake = two();
    delete_at_once(&fake, SKYHOOK, "late");
    delete_at_once(&fake, SKYHOOK, "base");
    let mut held = node(SKYHOOK, "node-3", &[]);
    held["spec"] = json!({
        "unschedulable": true,
        "taints": [{"key": ApiFlavor::Skyhook.taint_key(), "value": "runtime-required", "effect": "NoSchedule"}],
    });
    held["metadata"]["annotations"] = json!({keys::cordon(ApiFlavor::Skyhook, "former"): "true"});
    fake.load(held);
    let ran = teardown(&TestCluster::serving(fake), "--confirm");
    ran.expect_code(2);
    assert_snapshot!("teardown_held_node", ran.transcript());
}

/// The next step is one command for all nodes, as in `diagnose stuck`, rather than a command for each node.
#[test]
fn the_next_step_names_one_node_of_those_that_hold_the_deletion() {
    let node = |name: &str| {
        let entry = json!({"driver|1.0.0": {
            "name": "driver", "version": "1.0.0", "image": "i", "stage": "apply", "state": "erroring",
        }});
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "annotations": {
                SKYHOOK.0.key("status_gpu"): "erroring",
                SKYHOOK.0.key("nodeState_gpu"): entry.to_string(),
            }},
        })
    };
    let packages = json!({"driver": {
        "version": "1.0.0", "image": "i", "uninstall": {"enabled": true},
    }});
    let mut gpu = cr(SKYHOOK, "gpu", 200, packages);
    gpu["metadata"]["deletionTimestamp"] = json!("2026-11-20T11:30:00Z");
    let items = json!([gpu, node("node-1"), node("node-2")]);
    let files = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    let ran = run("teardown --dry-run --from -").stdin(files.clone()).output();
    let next = "kubectl skyhook package logs driver --skyhook gpu --node node-1 --stage apply";
    assert!(ran.transcript().contains(next), "{}", ran.transcript());
    let document = run("teardown --dry-run -o json --from -").stdin(files.clone()).output().json();
    let blocker = &document["report"]["items"][0]["blockers"][0];
    assert_eq!(blocker["nodes"], json!(["node-1", "node-2"]), "{document:#}");
    let diagnosis = run("diagnose stuck --from -").stdin(files).output();
    assert!(diagnosis.stdout.contains(next), "{}", diagnosis.transcript());
}

#[test]
fn a_refused_drain_does_not_hold_a_deletion_without_uninstalls() {
    let capture = "tests/clusters/drain-blocked";
    let ran = run(&format!("teardown --dry-run --from {capture}/cluster.json --from {capture}/extra.json"))
        .output();
    ran.expect_code(0);
    ran.expect_stdout("changes that driver");
}
