//! Whatever fails during a collection, the capture is usable and names what was not read.

use std::time::Instant;

use serde_json::{Value, json};

use super::{Scene, outcomes, timeless};
use crate::support::clusters;
use crate::support::fake_api::{FakeApi, Reply};
use crate::support::object_builder::NODEWRIGHT;
use crate::support::sample::some;

fn cluster() -> FakeApi {
    clusters::named("nodewright-in-progress").served()
}

/// Each fault, the affected source, and its recorded outcome.
#[test]
fn read_failures_are_recorded_in_the_capture() {
    for (pattern, reply, source, outcome) in some(
        [
            ("LIST nodes", Reply::Forbidden, "nodes", "refused"),
            ("LIST nodewrights", Reply::Forbidden, "nodewrights", "refused"),
            ("LIST pods", Reply::Forbidden, "package-pods", "refused"),
            ("LIST jobs", Reply::Forbidden, "jobs", "refused"),
            ("LIST deployments", Reply::Forbidden, "operators", "refused"),
            ("LIST validatingwebhookconfigurations", Reply::Forbidden, "webhooks", "refused"),
            ("LIST configmaps", Reply::Forbidden, "config-maps", "refused"),
            ("LIST events", Reply::from(500), "events", "failed"),
            ("LIST jobs", Reply::Body("<html>".to_owned()), "jobs", "failed"),
            ("LIST nodes", Reply::Half, "nodes", "failed"),
            ("LIST poddisruptionbudgets", Reply::Cut, "disruption-budgets", "failed"),
            ("LIST pods", Reply::Hang, "package-pods", "failed"),
            ("GET customresourcedefinitions", Reply::Forbidden, "definitions", "refused"),
        ],
        4,
    ) {
        let fake = cluster();
        fake.on(pattern).reply(reply.clone());
        let scene = Scene::of(&fake);
        let patience = if matches!(reply, Reply::Hang) { "3s" } else { "30s" };
        let started = Instant::now();
        let collected = scene.collect(&format!("--timeout {patience}"));
        assert!(started.elapsed().as_secs() < 20, "{pattern}");
        let place = format!("{pattern} {reply:?}: {}", collected.transcript());
        assert_eq!(collected.code, Some(4), "{place}");
        assert!(collected.stderr.contains("missing: "), "{place}");
        assert_eq!(outcomes(&scene.index())[source], outcome, "{place}");
        if source == "definitions" {
            continue;
        }
        // The capture gives the same output as the server.
        let words = match source {
            "config-maps" => "leftovers -o json",
            _ => "diagnose stuck --fail-on never -o json",
        };
        let from = scene.from(words);
        if words.starts_with("diagnose") {
            let report = from.json();
            let unchecked = report["notChecked"].as_array().expect("a list");
            assert!(!unchecked.is_empty(), "{place}");
        }
        if matches!(reply, Reply::Forbidden) {
            let live = scene.live(words);
            assert_eq!(timeless(&from), timeless(&live), "{place}");
            assert_eq!(from.code, live.code, "{place}");
        }
    }
}

/// An item without a readable name is reported, and the others are used, as on the server.
#[test]
fn incomplete_lists_are_incomplete_in_the_capture() {
    for (plural, kind, version, source) in some(
        [
            ("nodes", "Node", "v1", "nodes"),
            ("nodewrights", "NodeWright", &NODEWRIGHT.0.api_version(), "nodewrights"),
            ("pods", "Pod", "v1", "package-pods"),
            ("jobs", "Job", "batch/v1", "jobs"),
            ("events", "Event", "v1", "events"),
            ("deployments", "Deployment", "apps/v1", "operators"),
            ("poddisruptionbudgets", "PodDisruptionBudget", "policy/v1", "disruption-budgets"),
        ],
        4,
    ) {
        let fake = clusters::named("nodewright-apply-erroring").served();
        let mut items: Vec<Value> = fake.objects();
        items.retain(|object| object["kind"] == kind);
        items.push(json!({"metadata": {"name": 7}}));
        let list = json!({
            "apiVersion": version, "kind": format!("{kind}List"), "metadata": {}, "items": items,
        });
        fake.on(&format!("LIST {plural}")).reply(Reply::Body(list.to_string()));
        let scene = Scene::of(&fake);
        let collected = scene.collect("");
        let place = format!("{plural}: {}", collected.transcript());
        assert_eq!(collected.code, Some(4), "{place}");
        assert!(collected.stderr.contains("cannot be identified"), "{place}");
        assert_eq!(outcomes(&scene.index())[source], "incomplete", "{place}");
        for words in ["diagnose stuck --all -o json", "node status -o json", "status -o json"] {
            let (live, from) = (scene.live(words), scene.from(words));
            assert_eq!(timeless(&from), timeless(&live), "{words}, {place}");
            assert_eq!(from.code, live.code, "{words}, {place}");
        }
        let report = scene.from("diagnose stuck -o json").json();
        let unchecked = report["notChecked"].to_string();
        assert!(unchecked.contains("cannot be identified"), "{plural}: {unchecked}");
    }
}

/// Two operators run in one namespace; the Lease shows that the older one leads.
fn two_operators() -> FakeApi {
    let fake = cluster();
    let namespace = NODEWRIGHT.namespace();
    for (name, version) in [("operator", "v0.20.0"), ("older", "v0.19.0")] {
        let mut operator = NODEWRIGHT.operator();
        operator["metadata"]["name"] = name.into();
        let container = &mut operator["spec"]["template"]["spec"]["containers"][0];
        container["image"] = format!("ghcr.io/nvidia/nodewright/operator:{version}").into();
        fake.load(operator);
    }
    fake.load(serde_json::json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "3c22c1ae.nvidia.com", "namespace": namespace},
        "spec": {"holderIdentity": "older-7c4-x2", "leaseDurationSeconds": 15, "renewTime": "9999-01-01T00:00:00.000000Z"},
    }));
    fake
}

#[test]
fn leases_that_decide_which_operator_acts_are_in_the_capture() {
    let scene = Scene::of(&two_operators());
    scene.collect("").expect_code(0);
    assert_eq!(outcomes(&scene.index())["leases"], "read");
    let live = scene.live("status -o json");
    assert_eq!(live.json()["operator"]["version"], "v0.19.0");
    assert_eq!(timeless(&scene.from("status -o json")), timeless(&live));
}

/// Without the leases it is not known which operator acts.
#[test]
fn refused_leases_are_reported() {
    let fake = two_operators();
    fake.on("LIST leases").reply(403);
    let scene = Scene::of(&fake);
    scene.collect("").expect_code(4);
    assert_eq!(outcomes(&scene.index())["leases"], "refused");
    let words = "diagnose stuck --fail-on never -o json";
    let live = scene.live(words);
    let unchecked = live.json()["notChecked"].to_string();
    assert!(unchecked.contains("leases"), "{unchecked}");
    assert_eq!(timeless(&scene.from(words)), timeless(&live));
}

/// An expired list is restarted, and no item is recorded twice.
#[test]
fn expired_list_is_restarted_without_duplicates() {
    let fake = cluster();
    for n in 0..600 {
        fake.load(serde_json::json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("more-{n:03}")},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}}));
    }
    fake.on("LIST nodes").continued().times(1).reply(410);
    let scene = Scene::of(&fake);
    let collected = scene.collect("");
    collected.expect_code(0);
    assert_eq!(scene.files()["nodes.json"].matches("\"more-599\"").count(), 1);
    let nodes = fake.objects().iter().filter(|o| o["kind"] == "Node").count();
    let index = scene.index();
    let mut sources = index["sources"].as_array().expect("a list").iter();
    assert_eq!(sources.find(|s| s["name"] == "nodes").map(|s| &s["items"]), Some(&nodes.into()));
}

/// Without a response there is nothing to write.
#[test]
fn unreachable_server_writes_no_capture() {
    let fake = cluster();
    fake.on("GET /apis/nodewright.nvidia.com/v1alpha1").reply(401);
    let scene = Scene::of(&fake);
    let collected = scene.collect("");
    collected.expect_code(1);
    assert!(!scene.archive().exists());
}

/// A forbidden log is recorded, and stderr names the command that prints the required role.
#[test]
fn forbidden_logs_are_recorded_in_the_capture() {
    let fake = clusters::named("nodewright-apply-erroring").served();
    fake.on("GET pods/log").reply(403);
    let scene = Scene::of(&fake);
    let collected = scene.collect("");
    collected.expect_code(4);
    assert!(collected.stderr.contains("rbac --for collect"), "{}", collected.stderr);
    let logs = scene.index()["logs"].clone();
    assert_eq!(logs[0]["outcome"], "refused", "{logs}");
}
