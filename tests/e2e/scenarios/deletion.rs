//! Stuck deletions, and the leftovers of deleted custom resources.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    cluster::Cluster,
    kubelet::StepResult,
    manifest::{package, skyhook},
    rollout::pods,
    view::{absent, complete, condition, deleted, entry, everywhere, pod, status, that},
};

/// Several reconciles: the operator requeues every two seconds while there is work.
const LONG_ENOUGH: Duration = Duration::from_secs(7);

pub fn deletion_waits_for_erroring_install(cluster: &Cluster) {
    cluster.result(pods("driver", "apply").on("node-2"), StepResult::Exit(1));
    let gpu = cluster.apply(&skyhook("gpu").with(package("driver", "2.0.1").uninstallable()));
    gpu.until(entry("node-1", "driver|2.0.1", "config", "complete"))
        .until(entry("node-2", "driver|2.0.1", "apply", "erroring"))
        .until(status("erroring"))
        .diagnosed("SKY201", json!({"node": "node-2", "package": "driver"}))
        .capture("old-apply-erroring");

    gpu.delete()
        .until(entry("node-2", "driver|2.0.1", "apply", "erroring"))
        .until(that("the other node is clean", |view| view.entries("driver|2.0.1").len() == 1));
    gpu.stays(&entry("node-2", "driver|2.0.1", "apply", "erroring"), LONG_ENOUGH)
        .diagnosed("SKY101", json!({"node": "node-2", "package": "driver"}))
        .capture("old-deleted-while-erroring");

    // The first documented remedy is to repair the package. In v0.17.0 that does not help once another node
    // has been uninstalled: uninstalled nodes stay in_progress until the custom resource is deleted, the
    // operator works only on nodes in progress, and it deleted the pod of the erroring node when the deletion
    // raised the generation.
    cluster.heal();
    gpu.stays(&that("no pod for node-2", |view| view.pods.is_empty()), LONG_ENOUGH);
    cluster.annotate_node("node-2", "status_gpu", json!("in_progress"));
    gpu.until(pod("driver", "apply")).until(pod("driver", "uninstall")).until(deleted());
}

/// If no node is in progress, repairing the package is enough.
pub fn deletion_freed_by_repair(cluster: &Cluster) {
    cluster.result(pods("driver", "apply"), StepResult::Exit(1));
    let gpu = cluster.apply(&skyhook("gpu").with(package("driver", "2.0.1").uninstallable()));
    gpu.until(everywhere("driver|2.0.1", "apply", "erroring"));
    let before: Vec<_> = gpu.view().pods.iter().map(uid).collect();
    // The deletion raises the generation, for which the operator recreates all pods.
    gpu.delete()
        .until(that("new pods", move |view| {
            view.pods.len() == 3 && !view.pods.iter().any(|pod| before.contains(&uid(pod)))
        }))
        .until(everywhere("driver|2.0.1", "apply", "erroring"))
        .stays(&everywhere("driver|2.0.1", "apply", "erroring"), LONG_ENOUGH)
        .diagnosed("SKY101", json!({"node": "node-1", "package": "driver"}));
    cluster.heal();
    gpu.until(pod("driver", "uninstall")).until(deleted());
}

fn uid(object: &Value) -> String {
    object["metadata"]["uid"].to_string()
}

/// The second documented remedy: resetting the node.
pub fn deletion_freed_by_reset(cluster: &Cluster) {
    cluster.result(pods("driver", "apply").on("node-2"), StepResult::Exit(1));
    let gpu = cluster.apply(&skyhook("gpu").with(package("driver", "2.0.1").uninstallable()));
    gpu.until(entry("node-1", "driver|2.0.1", "config", "complete")).until(status("erroring"));
    gpu.delete().until(that("the other node is clean", |view| view.entries("driver|2.0.1").len() == 1));
    cluster.upstream(&["node", "reset", "node-2", "--skyhook", "gpu", "--confirm"]);
    gpu.until(deleted());
}

pub fn name_equals_taint_key(cluster: &Cluster) {
    let name = "skyhook.nvidia.com";
    let record = format!("autoTaint_{name}");
    let gate = cluster.apply(
        &skyhook(name)
            .with(package("tuning", "1.2.0"))
            .set("runtimeRequired", json!(true))
            .set("autoTaintNewNodes", json!(true)),
    );
    let is_kept = record.clone();
    gate.until(that("the record is kept", move |view| view.annotation("node-1", &is_kept).is_some()))
        .until(complete());
    gate.diagnosed("SKY106", json!({"kind": "Skyhook", "name": name})).capture("old-name-equals-taint-key");
    gate.delete().until(deleted());
    assert_eq!(gate.view().annotation("node-1", &record), None, "deleting the CR took the record along");
}

pub fn orphaned_uninstall_complete(cluster: &Cluster) {
    let gpu = skyhook("gpu").with(package("driver", "2.0.1").uninstallable());
    let rollout = cluster.apply(&gpu);
    rollout.until(complete());
    cluster.result(pods("driver", "uninstall"), StepResult::Hang);
    rollout.uninstall("driver", true).until(that("the script runs", |view| {
        view.pods_of("driver", "uninstall")
            .iter()
            .filter(|pod| pod["status"]["startTime"].is_string())
            .count()
            == 3
    }));
    // Stop the garbage collector, so that the pods end before it deletes them.
    cluster.stop("kube-controller-manager");
    rollout.delete().strip_finalizer().until(deleted());
    cluster.heal();
    rollout.until(everywhere("driver|2.0.1", "uninstall", "complete"));
    let report = cluster.report(&[]);
    report.has("SKY107", &json!({"node": "node-2"}));
    rollout.capture("old-orphaned-uninstall-complete");

    // The recreated custom resource runs apply again, as documented.
    cluster.result(pods("driver", "apply"), StepResult::Hang);
    cluster
        .apply(&skyhook("gpu").with(package("driver", "2.0.1").uninstalling()))
        .until(pod("driver", "apply"));
    cluster.heal();
    rollout.until(absent("driver|2.0.1")).until(complete());
}

pub fn deletion_blocked_by_malformed_state(cluster: &Cluster) {
    let gpu = cluster.apply(&skyhook("gpu").with(package("driver", "2.0.1").uninstallable()));
    gpu.until(complete());
    let kept = gpu.view().annotation("node-2", "nodeState_gpu").expect("the node has a state").to_owned();
    cluster.annotate_node("node-2", "nodeState_gpu", json!("{\"driver|2.0.1\": broken"));
    gpu.until(condition("NodeStateMalformed", "ParseError"));
    gpu.delete()
        .until(condition("DeletionBlocked", "MalformedNodeState"))
        .diagnosed("SKY108", json!({"node": "node-2"}))
        .capture("old-deletion-blocked-by-malformed-state");
    cluster.annotate_node("node-2", "nodeState_gpu", json!(kept));
    gpu.until(deleted());
}

pub fn deletion_blocked_while_paused(cluster: &Cluster) {
    blocked_deletion(cluster, "pause", "PausedWithPendingUninstall", "SKY109");
}

pub fn deletion_blocked_while_disabled(cluster: &Cluster) {
    blocked_deletion(cluster, "disable", "DisabledWithPendingUninstall", "SKY110");
}

fn blocked_deletion(cluster: &Cluster, annotation: &str, reason: &str, code: &str) {
    let gpu = cluster.apply(&skyhook("gpu").with(package("driver", "2.0.1").uninstallable()));
    gpu.until(complete()).annotate(annotation, json!("true"));
    gpu.delete()
        .until(condition("DeletionBlocked", reason))
        .stays(&everywhere("driver|2.0.1", "config", "complete"), LONG_ENOUGH)
        .diagnosed(code, json!({"kind": "Skyhook", "name": "gpu"}))
        .capture(&format!("old-deletion-blocked-{annotation}"));
    gpu.annotate(annotation, Value::Null).until(deleted());
}
