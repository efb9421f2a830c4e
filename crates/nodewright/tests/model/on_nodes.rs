//! Predecessors and drains where the recorded node state alone suggests another answer.

use nodewright::cluster::Cluster;
use nodewright::model::{Model, effects, knows_workloads_on, profile};
use serde_json::{Value, json};

use super::setting::{Setting, package, state};

/// The custom resource `later` after a `first` one with this package, whose node n1 has this state.
fn after(package: &Value, state: &Value, edit: fn(Setting) -> Setting) -> Cluster {
    let first = json!({"packages": {"aa": package}, "priority": 1});
    edit(Setting::new("v0.20.0").skyhook("first", first, json!({})))
        .skyhook("later", json!({"packages": {"aa": super::setting::package(&[])}}), json!({}))
        .node("n1", "first", "complete", state)
        .cluster()
}

/// The names of the nodes on which `later` may start, and of those on which it waits for `first`.
fn free_and_waiting(cluster: &Cluster) -> (Vec<&str>, Vec<&str>) {
    let model = Model::new(cluster);
    let later = cluster.skyhook("later").expect("a custom resource");
    let free = model.actionable_nodes(later).iter().map(|node| node.name.as_str()).collect();
    let nodes = cluster.nodes.iter();
    let waits = nodes.filter(|node| model.predecessor_on(later, node).is_some());
    (free, waits.map(|node| node.name.as_str()).collect())
}

/// The operator counts a package as complete until its uninstall starts, and starts none while paused (operator
/// `IsComplete`, `HandleUninstallRequests`).
#[test]
fn a_paused_deletion_holds_up_no_later_custom_resource() {
    let mut enabled = package(&[]);
    enabled["uninstall"] = json!({"enabled": true, "apply": false});
    let complete = state(&[("aa", "config", "complete")]);
    let paused = after(&enabled, &complete, |first| first.deleted().paused());
    assert_eq!(free_and_waiting(&paused), (vec!["n1"], vec![]));
    let running = after(&enabled, &complete, Setting::deleted);
    assert_eq!(free_and_waiting(&running), (vec![], vec!["n1"]));
}

/// The operator upgrades a package again while an older version of it is recorded (operator `HandleVersionChange`).
#[test]
fn an_older_version_beside_the_current_one_holds_up_later_custom_resources() {
    let mut both = state(&[("aa", "config", "complete")]);
    let current = after(&package(&[]), &both, |first| first);
    assert_eq!(free_and_waiting(&current), (vec!["n1"], vec![]));
    let mut old = both["aa|1.0.0"].clone();
    old["version"] = json!("0.9.0");
    both["aa|0.9.0"] = old;
    let left = after(&package(&[]), &both, |first| first);
    assert_eq!(free_and_waiting(&left), (vec![], vec!["n1"]));
}

/// The operator removes the entry of an ended uninstall in the same pass (operator `HandleUninstallRequests`).
#[test]
fn an_ended_uninstall_holds_up_no_later_custom_resource() {
    let mut applied = package(&[]);
    applied["uninstall"] = json!({"enabled": true, "apply": true});
    let at = |state_of_stage| state(&[("aa", "uninstall-interrupt", state_of_stage)]);
    let ended = after(&applied, &at("complete"), |first| first);
    assert_eq!(free_and_waiting(&ended), (vec!["n1"], vec![]));
    let running = after(&applied, &at("in_progress"), |first| first);
    assert_eq!(free_and_waiting(&running), (vec![], vec!["n1"]));
}

/// A stage that follows another one in its turn starts without a drain; a repeated stage config drains (operator
/// `ProcessInterrupt`).
#[test]
fn stage_config_after_apply_needs_no_drain() {
    let drained = |stage: &str, state_of_stage: &str| {
        let mut reboots = package(&[]);
        reboots["interrupt"] = json!({"type": "reboot"});
        let cluster = Setting::new("v0.17.0")
            .skyhook("tune", json!({"packages": {"aa": reboots}}), json!({}))
            .node("n1", "tune", "in_progress", &state(&[("aa", stage, state_of_stage)]))
            .cluster();
        Model::new(&cluster).drains().len()
    };
    let stages = [("apply", "in_progress"), ("apply", "complete"), ("config", "in_progress")];
    let stages = stages.map(|(stage, state)| drained(stage, state));
    assert_eq!((stages, drained("config", "complete")), ([1, 0, 1], 0));
}

/// The budgets of the pods on the nodes that an interrupt drains refuse, unless the operator deletes pods instead of
/// evicting them (operator `EnsureNodeIsReadyForInterrupt`).
#[test]
fn refusing_budgets_matter_only_for_evictions() {
    let rollout = |drain: Value| {
        let mut reboots = package(&[]);
        reboots["interrupt"] = json!({"type": "reboot"});
        let spec = json!({"packages": {"aa": reboots}, "drainConfig": drain});
        let cluster = Setting::new("v0.20.0")
            .skyhook("tune", spec, json!({}))
            .node("n1", "tune", "waiting", &json!({}))
            .object(json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {
                    "name": "web", "namespace": "apps", "labels": {"app": "web"},
                    "ownerReferences": [{"kind": "ReplicaSet", "name": "web", "uid": "u", "controller": true}],
                },
                "spec": {"nodeName": "n1"}, "status": {"phase": "Running"},
            }))
            .object(json!({
                "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                "metadata": {"name": "web", "namespace": "apps", "generation": 1},
                "spec": {"selector": {"matchLabels": {"app": "web"}}},
                "status": {
                    "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1,
                    "observedGeneration": 1,
                },
            }))
            .cluster();
        let nodes: Vec<_> = cluster.nodes.iter().collect();
        assert!(knows_workloads_on(&cluster, &nodes));
        effects(&cluster, &cluster, &["tune"]).remove(0).rollout
    };
    let evicts = rollout(json!({}));
    assert_eq!((evicts.cordoned, evicts.evicted_pods), (vec!["n1".to_owned()], Some(1)));
    let [budget] = evicts.refusing_budgets.as_slice() else {
        panic!("{:?}", evicts.refusing_budgets);
    };
    assert_eq!((budget.budget.as_str(), budget.nodes.as_slice()), ("apps/web", &["n1".to_owned()][..]));
    assert_eq!(rollout(json!({"disableEviction": true})).refusing_budgets, []);
}

/// Up to v0.17 an edit ends a running stage if its package is removed, or if its pod would get another image or environment
/// (operator `ValidateRunningPackages`).
#[test]
fn edits_end_the_pods_that_they_outdate() {
    let stopped = |edit: &dyn Fn(&mut Value)| {
        let cluster = |spec: &Value| {
            Setting::new("v0.17.0")
                .skyhook("tune", spec.clone(), json!({}))
                .node("n1", "tune", "in_progress", &state(&[("aa", "apply", "in_progress")]))
                .object(json!({
                    "apiVersion": "v1", "kind": "Pod",
                    "metadata": {
                        "name": "tune-aa", "namespace": "skyhook",
                        "labels": {"skyhook.nvidia.com/name": "tune", "skyhook.nvidia.com/package": "aa-1.0.0"},
                        "annotations": {"skyhook.nvidia.com/package": json!({
                            "name": "aa", "version": "1.0.0", "skyhook": "tune", "stage": "apply", "image": "i",
                        }).to_string()},
                    },
                    "spec": {"nodeName": "n1"}, "status": {"phase": "Running"},
                }))
                .cluster()
        };
        let live = json!({"packages": {"aa": package(&[]), "bb": package(&[])}});
        let mut edited = live.clone();
        edit(&mut edited["packages"]);
        let [live, edited] = [&live, &edited].map(cluster);
        effects(&live, &edited, &["tune"]).remove(0).rollout.stopped
    };
    assert_eq!(stopped(&|packages| _ = packages.as_object_mut().expect("packages").remove("aa")), ["n1"]);
    assert_eq!(stopped(&|packages| packages["aa"]["image"] = "other".into()), ["n1"]);
    assert_eq!(stopped(&|packages| packages["aa"]["env"] = json!([{"name": "A", "value": "1"}])), ["n1"]);
    assert_eq!(stopped(&|packages| packages["bb"]["image"] = "other".into()), [""; 0]);
}

/// A custom resource that is paused keeps the runtime-required taint on nodes where it is complete (operator
/// `HandleRuntimeRequired`).
#[test]
fn a_deletion_keeps_the_taint_and_a_pause_does_not() {
    let kept = |edit: fn(Setting) -> Setting| {
        let spec = json!({"packages": {"aa": package(&[])}, "runtimeRequired": true});
        let mut cluster = edit(Setting::new("v0.20.0").skyhook("tune", spec, json!({})))
            .node("n1", "tune", "complete", &state(&[("aa", "config", "complete")]))
            .cluster();
        let nodes = cluster.nodes.available_mut().expect("the nodes were read");
        let taint = json!([{"key": nodewright::api::ApiFlavor::NodeWright.group(), "value": "runtime-required", "effect": "NoSchedule"}]);
        let taints = Some(serde_json::from_value(taint).expect("taints"));
        nodes[0].edit(nodewright::cluster::NodeEdit { taints, ..Default::default() });
        cluster.reset_indexes();
        let model = Model::new(&cluster);
        model.taint_kept_by(&cluster.nodes.items()[0]).len()
    };
    assert_eq!([kept(|setting| setting), kept(Setting::paused), kept(Setting::deleted)], [0, 0, 1]);
}

#[test]
fn cycles_list_their_packages_once() {
    let cycles = |packages: Value| {
        let cluster =
            Setting::new("v0.20.0").skyhook("tune", json!({"packages": packages}), json!({})).cluster();
        let cycles = profile::cycles(&cluster.skyhooks.items()[0]);
        cycles.into_iter().map(|cycle| cycle.join(" ")).collect::<Vec<_>>()
    };
    assert_eq!(cycles(json!({"aa": package(&["bb"]), "bb": package(&[])})), [""; 0]);
    let circle = json!({"aa": package(&["bb"]), "bb": package(&["cc"]), "cc": package(&["bb"])});
    assert_eq!(cycles(circle), ["bb cc"]);
}
