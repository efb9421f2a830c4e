//! `teardown`: its preview, its order, and its outcome.

mod interruption;
mod recreation;

use insta::assert_snapshot;
use kubectl_skyhook::api::{ApiFlavor, keys};
use serde_json::{Value, json};

use crate::support::fake_api::{FakeApi, Reply, State};
use crate::support::object_builder::{NODEWRIGHT, ObjectBuilder, PackageRun, SKYHOOK};
use crate::support::run::{RunOutput, run};
use crate::support::test_cluster::TestCluster;

fn teardown(test_cluster: &TestCluster, words: &str) -> RunOutput {
    test_cluster.run(&format!("teardown --timeout 20s {words}"))
}

fn cr(world: ObjectBuilder, name: &str, priority: i64, packages: Value) -> Value {
    json!({
        "apiVersion": world.0.api_version(),
        "kind": world.0.kind(),
        "metadata": {
            "name": name,
            "uid": format!("uid-of-{name}"),
            "generation": 1,
            "creationTimestamp": "2026-11-20T11:00:00Z",
            "finalizers": [world.0.finalizer()],
        },
        "spec": {"packages": packages, "priority": priority},
        "status": {"status": "complete", "observedGeneration": 1},
    })
}

fn policy(world: ObjectBuilder, name: &str) -> Value {
    json!({
        "apiVersion": world.0.api_version(),
        "kind": "DeploymentPolicy",
        "metadata": {"name": name, "uid": format!("uid-of-policy-{name}")},
        "spec": {"default": {"budget": {"count": 1}, "strategy": {"fixed": {"initialBatch": 1}}}},
    })
}

fn tuning() -> Value {
    json!({"tuning": {"version": "1.2.0", "image": "example.com/tuning"}})
}

fn driver(interrupt: Option<&str>) -> Value {
    let mut package = json!({
        "version": "1.0.0",
        "image": "example.com/driver",
        "uninstall": {"enabled": true, "apply": false},
    });
    if let Some(kind) = interrupt {
        package["interrupt"] = json!({"type": kind});
    }
    json!({"driver": package})
}

/// A node with package entries of custom resources, such as `late driver|1.0.0 config complete`.
fn node(world: ObjectBuilder, name: &str, entries: &[&str]) -> Value {
    let mut annotations = serde_json::Map::new();
    for entry in entries {
        let words: Vec<&str> = entry.split(' ').collect();
        let (package, version) = words[1].split_once('|').expect("name|version");
        let state = json!({words[1]: {
            "name": package, "version": version, "image": format!("example.com/{package}"),
            "stage": words[2], "state": words[3],
        }});
        annotations.insert(keys::node_state(world.0, words[0]), state.to_string().into());
        annotations.insert(keys::status(world.0, words[0]), "complete".into());
    }
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "annotations": annotations, "creationTimestamp": "2026-11-20T10:00:00Z"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "capacity": {"nvidia.com/gpu": "8"}},
    })
}

/// Simulates the operator: a deleted custom resource disappears at once, with its node keys.
fn delete_at_once(fake: &FakeApi, world: ObjectBuilder, name: &'static str) {
    let plural = world.0.plural();
    let deletion = fake.on(&format!("DELETE {plural} {name}"));
    deletion.after(move |it| {
        let mut bare = it.store.find(plural, "", name).expect("the custom resource exists").clone();
        bare["metadata"]["finalizers"] = json!([]);
        remove(it, world, name);
        it.store.load(bare);
    });
}

fn remove(it: &mut State, world: ObjectBuilder, name: &str) {
    it.store.forget(world.0.plural(), "", name);
    for at in 1..=2 {
        let Some(node) = it.store.find("nodes", "", &format!("node-{at}")) else {
            continue;
        };
        let mut node = node.clone();
        if let Some(all) = node["metadata"]["annotations"].as_object_mut() {
            all.retain(|key, _| !key.ends_with(&format!("_{name}")));
        }
        it.store.load(node);
    }
}

/// Adds a running uninstall pod.
fn uninstalling(fake: &FakeApi, name: &str, node: &str) {
    let place = PackageRun { stage: "uninstall", node, ..PackageRun::default() };
    let containers = ["driver-uninstall running"];
    let mut pod = SKYHOOK.pod(&format!("{name}-driver"), &place, "Running", &containers);
    let meta = &mut pod["metadata"];
    meta["labels"][ApiFlavor::Skyhook.key("name")] = json!(name);
    let key = ApiFlavor::Skyhook.key("package");
    let note = meta["annotations"][&key].as_str().expect("a note");
    let mut note: Value = serde_json::from_str(note).expect("JSON");
    note["skyhook"] = json!(name);
    meta["annotations"][key] = json!(note.to_string());
    fake.load(pod);
    fake.started_now();
}

/// Two custom resources, one after the other, and a policy.
fn two() -> FakeApi {
    FakeApi::new()
        .serving(ApiFlavor::Skyhook)
        .with(SKYHOOK.operator())
        .with(cr(SKYHOOK, "late", 300, driver(Some("reboot"))))
        .with(cr(SKYHOOK, "base", 100, tuning()))
        .with(policy(SKYHOOK, "careful"))
        .with(node(
            SKYHOOK,
            "node-1",
            &["late driver|1.0.0 config complete", "base tuning|1.2.0 config complete"],
        ))
        .with(node(SKYHOOK, "node-2", &["base tuning|1.2.0 config complete"]))
}

#[test]
fn preview_writes_nothing() {
    let test_cluster = TestCluster::serving(two());
    assert_snapshot!("teardown_preview", teardown(&test_cluster, "--dry-run").transcript());
    let json = teardown(&test_cluster, "--dry-run -o json");
    assert_eq!(json.code, Some(0));
    let json = json.json();
    assert_eq!(json["kind"], "Plan");
    let document = json!({"steps": json["steps"], "report": json["report"]});
    assert_snapshot!("teardown_preview_json", format!("{document:#}"));
    assert_eq!(test_cluster.writes(), [""; 0]);
}

#[test]
fn previews_of_captures_match_snapshots() {
    for cluster in [
        "deleted-while-erroring",
        "deleted-while-paused",
        "malformed-node-state",
        "uninstall-interrupt-stranded",
        "v0.17-rolled-back",
        "modelled-migration-hold",
        "finalizer-stripped",
    ] {
        let ran = run(&format!("teardown --from tests/clusters/{cluster}")).output();
        assert_snapshot!(format!("teardown_of_{cluster}"), ran.transcript());
    }
}

#[test]
fn unconfirmed_teardown_writes_nothing() {
    let test_cluster = TestCluster::serving(two());
    let ran = teardown(&test_cluster, "");
    ran.expect_code(3);
    ran.expect_stderr("there is no terminal for the prompt; nothing was changed");
    assert_eq!(test_cluster.writes(), [""; 0]);
}

#[test]
fn later_custom_resources_go_first_and_policies_last() {
    let fake = two();
    delete_at_once(&fake, SKYHOOK, "late");
    delete_at_once(&fake, SKYHOOK, "base");
    let test_cluster = TestCluster::serving(fake);
    let ran = teardown(&test_cluster, "--confirm");
    assert_snapshot!("teardown_done", ran.transcript());
    let api = format!("DELETE /apis/{}", ApiFlavor::Skyhook.api_version());
    assert_eq!(
        test_cluster.writes(),
        [
            format!("{api}/skyhooks/late"),
            format!("{api}/skyhooks/base"),
            format!("{api}/deploymentpolicies/careful"),
        ]
    );
    // Watches start at the version of the first list, without another list.
    let nodes = test_cluster.fake.lines().into_iter();
    let nodes = nodes.filter(|line| line.starts_with("GET /api/v1/nodes?"));
    let (watches, lists): (Vec<_>, Vec<_>) = nodes.partition(|l| l.contains("watch=true"));
    assert_eq!((watches.len(), lists.len()), (1, 1), "{watches:?} {lists:?}");
    let first = test_cluster.fake.writes().into_iter().find(|w| w.method == "DELETE");
    assert_eq!(
        first.expect("a deletion").body,
        json!({"preconditions": {"uid": "uid-of-late"}, "propagationPolicy": "Background"})
    );
    let again = teardown(&test_cluster, "--confirm");
    again.expect_code(0);
}

/// One journal holds everything, for `undo` and `undelete`.
#[test]
fn undo_restores_everything_deleted() {
    let fake = two();
    delete_at_once(&fake, SKYHOOK, "late");
    delete_at_once(&fake, SKYHOOK, "base");
    let test_cluster = TestCluster::serving(fake);
    let ran = teardown(&test_cluster, "--confirm -o json");
    ran.expect_code(0);
    let journal = ran.json()["journal"].clone();
    let shown = test_cluster.run("journal show -o json").json();
    assert_eq!(shown["begun"]["id"], journal);
    assert_eq!(shown["begun"]["plan"]["stages"][1]["after"], json!([0]));
    let undone = test_cluster.command("undo --confirm").output();
    undone.expect_code(0);
    for (kind, name, was) in [
        ("deploymentpolicies", "careful", policy(SKYHOOK, "careful")),
        ("skyhooks", "base", cr(SKYHOOK, "base", 100, tuning())),
        ("skyhooks", "late", cr(SKYHOOK, "late", 300, driver(Some("reboot")))),
    ] {
        let back = test_cluster.fake.get(kind, "", name).expect("undo recreates the object");
        assert_eq!(back["spec"], was["spec"], "{name}");
    }
    let api = format!("POST /apis/{}", ApiFlavor::Skyhook.api_version());
    assert_eq!(
        test_cluster.writes()[3..],
        [format!("{api}/deploymentpolicies"), format!("{api}/skyhooks"), format!("{api}/skyhooks"),]
    );
}

#[test]
fn undelete_restores_one_custom_resource() {
    let fake = two();
    delete_at_once(&fake, SKYHOOK, "late");
    delete_at_once(&fake, SKYHOOK, "base");
    let test_cluster = TestCluster::serving(fake);
    assert_eq!(teardown(&test_cluster, "--confirm").code, Some(0));
    let back = test_cluster.run("undelete base --confirm");
    back.expect_code(0);
    assert!(test_cluster.fake.get("skyhooks", "", "base").is_some());
    assert!(test_cluster.fake.get("skyhooks", "", "late").is_none());
}

/// An object that is being deleted cannot be recreated, and one that was not deleted need not be.
#[test]
fn undo_skips_objects_still_being_deleted() {
    let fake = two();
    let mut held = cr(SKYHOOK, "late", 300, driver(None));
    held["metadata"]["annotations"] = json!({ApiFlavor::Skyhook.key("disable"): "true"});
    fake.load(held);
    let test_cluster = TestCluster::serving(fake);
    assert_eq!(teardown(&test_cluster, "--confirm").code, Some(2));
    let undone = test_cluster.command("undo --confirm").output();
    undone.expect_code(3);
    undone.expect_stderr("skyhook/late (it still exists, and is being deleted); nothing was changed");
    assert_eq!(test_cluster.writes().len(), 1);
}

/// The order is in the plan, so a saved plan deletes in the same order.
#[test]
fn teardown_plan_can_be_saved_and_applied() {
    let fake = two();
    delete_at_once(&fake, SKYHOOK, "late");
    delete_at_once(&fake, SKYHOOK, "base");
    let test_cluster = TestCluster::serving(fake);
    let plan = test_cluster.state.path().join("plan.json").display().to_string();
    let saved = teardown(&test_cluster, &format!("--plan-out {plan}"));
    saved.expect_code(0);
    assert_eq!(test_cluster.writes(), [""; 0]);
    let ran = test_cluster.run(&format!("apply-plan {plan} --confirm"));
    ran.expect_code(0);
    assert_snapshot!("teardown_applied", ran.stderr_text());
    let api = format!("DELETE /apis/{}", ApiFlavor::Skyhook.api_version());
    assert_eq!(
        test_cluster.writes(),
        [
            format!("{api}/skyhooks/late"),
            format!("{api}/skyhooks/base"),
            format!("{api}/deploymentpolicies/careful"),
        ]
    );
}

#[test]
fn empty_cluster_is_safe() {
    let fake = FakeApi::new().serving(ApiFlavor::Skyhook).with(SKYHOOK.operator());
    let ran = teardown(&TestCluster::serving(fake), "--confirm");
    assert_snapshot!("teardown_of_nothing", ran.transcript());
}

#[test]
fn object_already_being_deleted_is_not_written() {
    let mut paused = cr(SKYHOOK, "late", 300, driver(None));
    paused["metadata"]["deletionTimestamp"] = json!("2026-11-20T11:30:00Z");
    paused["metadata"]["annotations"] = json!({ApiFlavor::Skyhook.key("pause"): "true"});
    let fake = two();
    fake.load(paused);
    fake.change(|it| it.store.forget("skyhooks", "", "base"));
    fake.change(|it| it.store.forget("deploymentpolicies", "", "careful"));
    let test_cluster = TestCluster::serving(fake);
    assert_snapshot!("teardown_stalled", teardown(&test_cluster, "").transcript());
    assert_eq!(test_cluster.writes(), [""; 0]);
}

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
            (Some("skyhook/late"), Some("blocked")),
            (Some("skyhook/base"), Some("not-started")),
            (Some("deploymentpolicy/careful"), Some("not-started")),
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
fn object_without_finalizer_is_deleted_at_once() {
    let fake = FakeApi::new().serving(ApiFlavor::Skyhook).with(SKYHOOK.operator());
    let mut bare = cr(SKYHOOK, "bare", 200, tuning());
    bare["metadata"]["finalizers"] = json!([]);
    let test_cluster = TestCluster::serving(fake.with(bare));
    let ran = teardown(&test_cluster, "--confirm");
    ran.expect_code(0);
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
fn unreadable_sources_are_never_reported_safe() {
    let fake = two();
    delete_at_once(&fake, SKYHOOK, "late");
    delete_at_once(&fake, SKYHOOK, "base");
    fake.on("LIST pods").reply(403);
    let test_cluster = TestCluster::serving(fake);
    let dry = teardown(&test_cluster, "--dry-run");
    dry.expect_code(1);
    let ran = teardown(&test_cluster, "--confirm");
    ran.expect_code(4);
    ran.expect_stdout("Cannot tell whether it is safe");
    ran.expect_no_stdout(": it is safe to");
}

/// The deletion and all later reads time out, so the result is unknown.
#[test]
fn deletion_with_a_lost_answer_is_not_reported_refused() {
    let fake = two();
    fake.on("DELETE skyhooks late").reply(Reply::from(504));
    // The plan reads the object once.
    let afterwards = fake.on("GET skyhooks late").nth(2).times(100);
    afterwards.reply(Reply::from(504));
    let test_cluster = TestCluster::serving(fake);
    let ran = teardown(&test_cluster, "--confirm");
    ran.expect_code(4);
    ran.expect_stdout("skyhook/late  unknown  request did not complete");
    ran.expect_no_stdout("1 failed");
    assert!(test_cluster.fake.get("skyhooks", "", "base").is_some());
}

/// The response to the deletion is cut off, but the object shows the deletion.
#[test]
fn deletion_visible_on_the_object_is_awaited() {
    let fake = two();
    fake.on("DELETE skyhooks late").reply(Reply::Half);
    let test_cluster = TestCluster::serving(fake);
    let ran = test_cluster.run("teardown --confirm --timeout 1s");
    ran.expect_code(5);
    let deletions = test_cluster.writes().into_iter().filter(|w| w.ends_with("late"));
    assert_eq!(deletions.count(), 1, "{}", ran.transcript());
}

#[test]
fn unreadable_custom_resources_do_not_count_as_deleted() {
    let fake = two();
    fake.on("LIST skyhooks").reply(403);
    let test_cluster = TestCluster::serving(fake);
    let ran = teardown(&test_cluster, "--confirm");
    ran.expect_code(1);
    ran.expect_stderr("cannot read custom resources");
    assert_eq!(test_cluster.writes(), [""; 0]);
}

#[test]
fn missing_permission_is_reported_before_any_write() {
    let fake = two();
    fake.on("DELETE skyhooks").reply(403);
    let test_cluster = TestCluster::serving(fake);
    let ran = teardown(&test_cluster, "--confirm");
    ran.expect_code(1);
    ran.expect_stderr("missing permission: delete");
    assert_eq!(test_cluster.writes(), [""; 0]);
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

/// No deletion removes the runtime-required taint: the preview announces this, and its impact covers only
/// actual changes.
#[test]
fn preview_foresees_taints_that_stay() {
    let mut late = cr(SKYHOOK, "late", 300, tuning());
    late["spec"]["runtimeRequired"] = json!(true);
    let tainted = |name: &str, entries: &[&str]| {
        let mut node = node(SKYHOOK, name, entries);
        node["spec"]["taints"] = json!([
            {"key": ApiFlavor::Skyhook.taint_key(), "value": "runtime-required", "effect": "NoSchedule"},
        ]);
        node
    };
    let fake = FakeApi::new()
        .serving(ApiFlavor::Skyhook)
        .with(SKYHOOK.operator())
        .with(late)
        .with(tainted("node-1", &["late tuning|1.2.0 apply in_progress"]))
        .with(node(SKYHOOK, "node-2", &["late tuning|1.2.0 config complete"]));
    let test_cluster = TestCluster::serving(fake);
    let ran = teardown(&test_cluster, "--dry-run");
    assert_snapshot!("teardown_preview_with_taints", ran.transcript());
    ran.expect_code(2);
    assert_eq!(test_cluster.writes(), [""; 0]);
}

/// The next step is one command for all nodes, as in `diagnose stuck`, rather than a command for each node.
#[test]
fn the_next_step_is_for_all_nodes_that_hold_the_deletion() {
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
    let next = "kubectl skyhook package logs driver --skyhook gpu --node node-1 --node node-2 --stage apply";
    assert!(ran.transcript().contains(next), "{}", ran.transcript());
    let document = run("teardown --dry-run -o json --from -").stdin(files.clone()).output().json();
    let blocker = &document["report"]["items"][0]["blockers"][0];
    assert_eq!(blocker["nodes"], json!(["node-1", "node-2"]), "{document:#}");
    let diagnosis = run("diagnose stuck --from -").stdin(files).output();
    assert!(diagnosis.stdout.contains(next), "{}", diagnosis.transcript());
}
