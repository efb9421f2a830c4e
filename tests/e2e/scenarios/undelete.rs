//! `undelete` and `leftovers` with the real operator: a restored custom resource runs nothing again, and
//! other custom resources are not affected.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    remedies::all_well,
    strip::{STRIP, driver, owned, request, uninstallable},
    writes::run,
};
use crate::{
    cluster::{Cluster, SKYHOOKS},
    kubelet::{StepResult, Target},
    manifest::{Skyhook, package, skyhook},
    ours,
    rollout::{Rollout, pods},
    view::{PREFIX, View, absent, complete, condition, deleted, entry, everywhere, pod, status, that},
};

const LONG_ENOUGH: Duration = Duration::from_secs(7);
const DRIVER: &str = "driver|2.0.1";

/// Another program's finalizer stays after a strip, so the custom resource stays, too.
pub fn foreign_finalizer_is_kept(cluster: &Cluster) {
    let gpu = cluster.apply(&driver());
    gpu.until(complete());
    let path = format!("{SKYHOOKS}/gpu");
    let both = |own: &str| json!({"metadata": {"finalizers": ["example.com/keep", own]}});
    let own = format!("{PREFIX}/skyhook");
    cluster.api.merge(&path, &both(&own)).expect("the finalizers are accepted");
    cluster.stop_operator();
    gpu.delete();
    run(cluster, &STRIP);
    let left = request(&cluster.api, "gpu");
    assert_eq!(left["metadata"]["finalizers"], json!(["example.com/keep"]));
    let refused = ours::run(&cluster.kubeconfig("admin"), &["undelete", "gpu", "--confirm"]);
    assert_eq!(refused.exit, Some(3), "{refused:#?}");
    let none = json!({"metadata": {"finalizers": null}});
    cluster.api.merge(&path, &none).expect("finalizers can be removed");
    gpu.until(deleted());
    // The journal still has the deleted custom resource.
    cluster.result(Target::default(), StepResult::Hang);
    run(cluster, &["undelete", "gpu", "--confirm"]);
    cluster.start_operator();
    nothing_runs(&gpu);
}

/// Asserts that the operator starts no pod. Callers make pods hang, so that any pod would be seen.
#[track_caller]
fn nothing_runs(gpu: &Rollout<'_>) {
    gpu.until(complete())
        .stays(&that("no pod", |view: &View| view.pods.is_empty()), LONG_ENOUGH)
        .stays(&complete(), Duration::from_secs(1))
        .well();
}

fn two() -> Skyhook {
    uninstallable()
        .with(package("tuning", "1.2.0").interrupts("service").set("configMap", json!({"a.conf": "x"})))
}

/// The custom resource is stripped while the operator runs, then restored: no package runs.
pub fn undelete_after_a_strip(cluster: &Cluster) {
    let gpu = cluster.apply(&two());
    gpu.until(complete());
    run(cluster, &["pause", "gpu", "--confirm"]);
    gpu.delete().until(condition("DeletionBlocked", "PausedWithPendingUninstall"));
    let before = request(&cluster.api, "gpu");
    run(cluster, &[&STRIP[..], &["--purge-state"]].concat());
    gpu.until(deleted()).until(absent(DRIVER));
    cluster.await_that("nothing of it is left", || owned(cluster) == 0);

    cluster.result(Target::default(), StepResult::Hang);
    run(cluster, &["undelete", "gpu", "--confirm"]);
    let back = request(&cluster.api, "gpu");
    assert_eq!(back["spec"], before["spec"]);
    assert_ne!(back["metadata"]["uid"], before["metadata"]["uid"]);
    gpu.until(status("paused"));
    run(cluster, &["resume", "gpu", "--confirm"]);
    nothing_runs(&gpu);
    gpu.stays(&everywhere(DRIVER, "config", "complete"), Duration::ZERO);
}

/// The custom resource is terminating, and no uninstall has started: `undelete` restores it, and no package
/// runs.
pub fn undelete_while_terminating(cluster: &Cluster) {
    let gpu = cluster.apply(&two());
    gpu.until(complete());
    run(cluster, &["disable", "gpu", "--confirm"]);
    gpu.delete().until(condition("DeletionBlocked", "DisabledWithPendingUninstall"));
    cluster.result(Target::default(), StepResult::Hang);
    run(cluster, &["undelete", "gpu", "--confirm"]);
    run(cluster, &["enable", "gpu", "--confirm"]);
    nothing_runs(&gpu);
}

/// After a config change a package is complete without its interrupt. Only `status.configUpdates` shows that,
/// so `undelete` must restore it.
pub fn undelete_restores_config_updates(cluster: &Cluster) {
    const TUNING: &str = "tuning|1.2.0";
    let tuned = package("tuning", "1.2.0").interrupts("service").set("configMap", json!({"a.conf": "x"}));
    let gpu = cluster.apply(&skyhook("gpu").with(tuned));
    gpu.until(complete());
    gpu.edit(json!({"packages": {"tuning": {"configMap": {"a.conf": "y"}}}}))
        .until(pod("tuning", "config"))
        .until(everywhere(TUNING, "config", "complete"))
        .until(complete());
    let updates = request(&cluster.api, "gpu")["status"]["configUpdates"].clone();
    assert_eq!(updates["tuning"], json!(["a.conf"]), "only the status says so");
    cluster.stop_operator();
    gpu.delete();
    run(cluster, &STRIP);
    gpu.until(deleted());
    cluster.start_operator();
    cluster.result(Target::default(), StepResult::Hang);
    let rehearsed = run(cluster, &["undelete", "gpu", "--dry-run=server"]);
    let beyond =
        "skyhook/gpu is not deleted or created in a dry run, so the dry run could not check this step";
    assert!(rehearsed.stderr.contains(beyond), "{rehearsed:#?}");
    gpu.until(deleted());
    run(cluster, &["undelete", "gpu", "--confirm"]);
    nothing_runs(&gpu);
    gpu.stays(&everywhere(TUNING, "config", "complete"), Duration::ZERO);
}

/// An uninstall is in progress: only this package is installed again, and no pause stays.
pub fn undelete_during_an_uninstall(cluster: &Cluster) {
    let gpu = cluster.apply(&two());
    gpu.until(complete());
    cluster.result(pods("driver", "uninstall"), StepResult::Hang);
    gpu.delete().until(pod("driver", "uninstall"));
    run(cluster, &["undelete", "gpu", "--confirm"]);
    let back = request(&cluster.api, "gpu");
    assert_eq!(back["metadata"]["deletionTimestamp"], Value::Null);
    let paused = &back["metadata"]["annotations"][format!("{PREFIX}/pause")];
    assert_eq!(*paused, Value::Null, "it is not left paused");
    cluster.result(pods("tuning", "apply"), StepResult::Hang);
    gpu.until(everywhere(DRIVER, "config", "complete")).until(complete()).well();
}

/// The uninstall has set all nodes to in_progress. After `undelete`, the operator installs the package within the
/// interruption budget again.
pub fn undelete_keeps_the_budget(cluster: &Cluster) {
    let gpu = cluster.apply(&uninstallable().set("interruptionBudget", json!({"count": 1})));
    gpu.until(complete());
    cluster.result(pods("driver", "uninstall").on("node-3"), StepResult::Hang);
    gpu.delete().until(that("uninstalled on two nodes", |view: &View| view.entries(DRIVER).len() == 1));
    for node in ["node-1", "node-2"] {
        let annotations = cluster.node(node)["metadata"]["annotations"].clone();
        assert_eq!(annotations[format!("{PREFIX}/status_gpu")], "in_progress", "{node}");
    }
    run(cluster, &STRIP);
    gpu.until(deleted());
    cluster.heal();
    cluster.result(pods("driver", "apply"), StepResult::Hang);
    run(cluster, &["undelete", "gpu", "--confirm"]);
    // The operator may delete the first pod and create another one.
    let within_budget =
        that("at most one node at work", |view: &View| view.pods_of("driver", "apply").len() <= 1);
    gpu.until(pod("driver", "apply")).stays(&within_budget, LONG_ENOUGH).until(pod("driver", "apply"));
    cluster.heal();
    gpu.until(complete()).well();
}

/// A finalizer is removed by hand during an interrupt; `leftovers --clean` cleans up.
pub fn leftovers_of_an_orphan(cluster: &Cluster) {
    cluster.result(pods("driver", "interrupt").on("node-2"), StepResult::Hang);
    let interrupts = package("driver", "2.0.1").interrupts("service");
    let gpu = cluster.apply(&skyhook("gpu").with(interrupts));
    gpu.until(entry("node-1", DRIVER, "post-interrupt", "complete")).until(entry(
        "node-2",
        DRIVER,
        "interrupt",
        "in_progress",
    ));
    cluster.apply(&skyhook("net").with(package("tuning", "1.2.0")));
    cluster.stop_operator();
    let net = nodes_of(cluster, "net");
    gpu.delete().strip_finalizer().until(deleted());
    cluster.report(&[]).has("SKY701", &json!({"node": "node-2"}));

    let listed = cluster.ours(&["leftovers"]);
    let items = listed["items"].as_array().expect("items");
    assert!(items.iter().all(|i| i["skyhook"] == "gpu"), "{listed:#}");
    // Other nodes may not be uncordoned yet.
    let held = |i: &&Value| i["cordoned"] == true && i["node"] == "node-2";
    assert_eq!(items.iter().filter(held).count(), 1, "{listed:#}");

    run(cluster, &["leftovers", "--clean", "--confirm"]);
    for node in ["node-1", "node-2", "node-3"] {
        let node = cluster.node(node);
        assert_eq!(node["spec"]["unschedulable"], Value::Null, "{node:#}");
    }
    gpu.stays(&that("the record stays", |view| view.entries(DRIVER).len() == 3), Duration::ZERO);
    let purge = ["leftovers", "--clean", "--purge-state", "--confirm"];
    run(cluster, &purge);
    assert_eq!(nodes_of(cluster, "gpu"), Vec::<String>::new());
    assert_eq!(nodes_of(cluster, "net"), net, "what lives is left alone");
    assert_eq!(cluster.ours(&["leftovers"])["items"], json!([]));
    assert_eq!(owned(cluster), 0);
    cluster.heal();
    cluster.start_operator();
    cluster.rollout("net").until(complete());
    all_well(cluster);
}

/// All keys and conditions of a custom resource, on all nodes.
fn nodes_of(cluster: &Cluster, name: &str) -> Vec<String> {
    let mut found = Vec::new();
    for node in cluster.api.items("/api/v1/nodes").expect("nodes") {
        let on = node["metadata"]["name"].as_str().unwrap_or_default();
        for map in ["annotations", "labels"] {
            let all = node["metadata"][map].as_object().into_iter().flatten();
            let ours = all.filter(|(key, _)| key.starts_with(PREFIX) && key.ends_with(&format!("_{name}")));
            found.extend(ours.map(|(key, value)| format!("{on} {key}={value}")));
        }
        let conditions = node["status"]["conditions"].as_array();
        let kinds = conditions.into_iter().flatten().map(|c| &c["type"]);
        let ours = kinds.filter_map(Value::as_str);
        let ours = ours.filter(|kind| kind.starts_with(&format!("{PREFIX}/{name}/")));
        found.extend(ours.map(|kind| format!("{on} {kind}")));
    }
    found.sort();
    found
}
