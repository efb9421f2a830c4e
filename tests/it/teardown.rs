//! `teardown`: its preview, its order, and its outcome.

mod blocked;
mod interruption;
mod recreation;
mod server_errors;
mod undo;

use insta::assert_snapshot;
use kubectl_skyhook::api::{ApiFlavor, keys};
use serde_json::{Value, json};

use crate::support::fake_api::{FakeApi, State};
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

/// A preview shows the later custom resources that start on the nodes, the stages that end with their pods, also those of
/// the older API and none of suspended Jobs, the cordons that are lifted, the uninstalls that have begun, and the failure at
/// which it ends.
#[test]
fn previews_show_what_a_deletion_ends_and_starts() {
    for [capture, name] in [
        ["two-priorities", "first"],
        ["nodewright-two-priorities", "prio-a"],
        ["drain-blocked", ""],
        ["modelled-job-given-up", ""],
        ["modelled-migration-hold", ""],
        ["modelled-paused-suspended-job", ""],
        ["uninstall-in-progress", ""],
    ] {
        let ran = run(&format!("teardown {name} --dry-run --from tests/clusters/{capture}")).output();
        assert_snapshot!(format!("later_{capture}"), ran.transcript());
    }
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

/// A requested deletion cannot be canceled, so the preview names what would hold it.
#[test]
fn finalizers_of_others_are_foreseen() {
    let fake = two();
    let mut late = fake.get("skyhooks", "", "late").expect("it exists");
    let finalizers = late["metadata"]["finalizers"].as_array_mut().expect("a list");
    finalizers.push("example.com/hold".into());
    fake.load(late);
    let ran = teardown(&TestCluster::serving(fake), "--dry-run");
    assert_snapshot!(ran.transcript());
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

/// The others, their pods, and the policies are left.
#[test]
fn only_the_named_custom_resource_is_deleted() {
    let fake = two();
    delete_at_once(&fake, SKYHOOK, "late");
    uninstalling(&fake, "base", "node-2");
    let test_cluster = TestCluster::serving(fake);
    assert_snapshot!("teardown_of_a_name_preview", teardown(&test_cluster, "late --dry-run").transcript());
    assert_snapshot!("teardown_of_a_name", teardown(&test_cluster, "late --confirm").transcript());
    let api = format!("DELETE /apis/{}", ApiFlavor::Skyhook.api_version());
    assert_eq!(test_cluster.writes(), [format!("{api}/skyhooks/late")]);
    let unknown = teardown(&test_cluster, "lat --dry-run");
    unknown.expect_code(1);
    unknown.expect_stderr("Skyhook \"lat\" not found");
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
fn object_without_finalizer_is_deleted_at_once() {
    let fake = FakeApi::new().serving(ApiFlavor::Skyhook).with(SKYHOOK.operator());
    let mut bare = cr(SKYHOOK, "bare", 200, tuning());
    bare["metadata"]["finalizers"] = json!([]);
    let test_cluster = TestCluster::serving(fake.with(bare));
    let ran = teardown(&test_cluster, "--confirm");
    ran.expect_code(0);
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
