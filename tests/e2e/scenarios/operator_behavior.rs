//! Behavior derived from the operator's source, confirmed with the real operator.

use std::time::Duration;

use serde_json::{Value, json};

use super::fixtures::{careful_policy, guarded_workload, stopped};
use super::remedies::{cure, first_change_made};
use super::writes::run;

use crate::{
    cluster::{Cluster, SKYHOOKS},
    kubelet::StepResult,
    manifest::{Skyhook, package, skyhook},
    rollout::pods,
    view::{View, complete, deleted, entry, everywhere, pod, status, that},
};

const LONG_ENOUGH: Duration = Duration::from_secs(7);

fn driver() -> Skyhook {
    skyhook("gpu").with(package("driver", "2.0.1"))
}

/// A deletion removes annotations and labels, but leaves the operator's conditions on the nodes.
pub fn deletion_leaves_conditions(cluster: &Cluster) {
    let gpu = cluster.apply(&driver());
    gpu.until(complete()).delete().until(deleted());
    let node = cluster.node("node-1");
    let of_gpu: Vec<_> = node["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|condition| condition["type"].as_str())
        .filter(|kind| kind.starts_with("skyhook.nvidia.com/gpu/"))
        .collect();
    assert_eq!(of_gpu, ["skyhook.nvidia.com/gpu/NotReady", "skyhook.nvidia.com/gpu/Erroring"]);
    assert_eq!(node["metadata"]["labels"]["skyhook.nvidia.com/status_gpu"], Value::Null);
    assert_eq!(gpu.view().annotation("node-1", "status_gpu"), None);
    // The package cannot be uninstalled, so its record stays on the node.
    assert!(gpu.view().annotation("node-1", "nodeState_gpu").is_some());
}

/// A deletion removes the records of uninstalled packages.
pub fn deletion_leaves_no_state_of_uninstalled(cluster: &Cluster) {
    let gpu = cluster.apply(&skyhook("gpu").with(package("driver", "2.0.1").uninstallable()));
    gpu.until(complete()).delete().until(deleted());
    let node = cluster.node("node-1");
    let keys: Vec<_> =
        node["metadata"]["annotations"].as_object().into_iter().flatten().map(|(key, _)| key).collect();
    assert!(!keys.iter().any(|key| key.ends_with("_gpu")), "{keys:?}");
}

/// A batch reset does not help while a node is erroring: the operator counts the failure again, and the
/// rollout stops again.
pub fn batch_stop_returns_after_a_reset(cluster: &Cluster) {
    careful_policy(cluster);
    cluster.result(pods("driver", "apply").on("node-1"), StepResult::Exit(1));
    let gpu = cluster.apply(&driver().set("deploymentPolicy", json!("careful")));
    gpu.until(entry("node-1", "driver|2.0.1", "apply", "erroring")).until(that("stopped", stopped));
    gpu.stays(&that("the others wait", |view| view.entries("driver|2.0.1").len() == 1), LONG_ENOUGH)
        .until(status("unknown"))
        .capture("old-rollout-stopped");
    // Upstream's CLI of this version omits zeros and `false` from its merge patch, so these fields keep their
    // values: it reports a reset, but the rollout stays stopped.
    cluster.upstream(&["deployment-policy", "reset", "gpu", "--confirm"]);
    assert!(stopped(&gpu.view()), "the stop survives upstream's reset");

    let reset = reset_batch(cluster);
    assert!(!stopped(&View { object: Some(reset), ..gpu.view() }), "zeros that are spelt out lift it");
    gpu.until(that("stopped again", stopped)).stays(&that("stopped", stopped), LONG_ENOUGH);
}

/// Resets all batch fields, with explicit zeros; returns the updated custom resource.
fn reset_batch(cluster: &Cluster) -> Value {
    let zero = json!({
        "currentBatch": 1, "consecutiveFailures": 0, "completedNodes": 0, "failedNodes": 0,
        "shouldStop": false, "lastBatchSize": 0, "lastBatchFailed": false,
    });
    let patch = json!({"status": {"compartmentStatuses": {"__default__": {"batchState": zero}}}});
    let path = format!("{SKYHOOKS}/gpu/status");
    cluster.api.merge(&path, &patch).expect("a status can be changed")
}

/// If a post-interrupt pod is lost, the package starts again at apply.
pub fn lost_post_interrupt_restarts_at_apply(cluster: &Cluster) {
    cluster.result(pods("driver", "post-interrupt").on("node-1"), StepResult::Hang);
    let gpu = cluster.apply(&skyhook("gpu").with(package("driver", "2.0.1").interrupts("service")));
    gpu.until(entry("node-1", "driver|2.0.1", "post-interrupt", "in_progress"))
        .until(pod("driver", "post-interrupt"));
    let lost = gpu.view().pods_of("driver", "post-interrupt")[0]["metadata"]["name"].clone();
    let path = format!("/api/v1/namespaces/skyhook/pods/{}", lost.as_str().expect("pods have names"));
    cluster.result(pods("driver", "apply").on("node-1"), StepResult::Hang);
    cluster.api.delete(&path, &json!({})).expect("the pod can be deleted");
    gpu.until(pod("driver", "apply"));
    cluster.heal();
    gpu.until(everywhere("driver|2.0.1", "post-interrupt", "complete")).until(complete());
}

/// A pod that the kubelet rejected prevents its own replacement.
pub fn rejected_pod_is_not_replaced(cluster: &Cluster) {
    cluster.result(pods("driver", "apply").on("node-2"), StepResult::Rejected);
    let gpu = cluster.apply(&driver());
    gpu.until(entry("node-1", "driver|2.0.1", "config", "complete"))
        .until(that("it is rejected", |view| view.pods.iter().any(|pod| pod["status"]["phase"] == "Failed")));
    cluster.heal();
    gpu.stays(&entry("node-2", "driver|2.0.1", "apply", "in_progress"), LONG_ENOUGH)
        .stays(
            &that("the same pod", |view| {
                view.pods.len() == 1 && view.pods[0]["status"]["reason"] == "OutOfcpu"
            }),
            LONG_ENOUGH,
        )
        .capture("old-pod-rejected");
    let subject = json!({"node": "node-2", "package": "driver"});
    cure(&gpu, "SKY204", subject, &["package", "retry"]);
    gpu.until(complete()).well();
}

/// SKY209: a package without dependencies never starts if more packages are complete than have no
/// dependencies.
pub fn package_added_to_a_finished_chain_never_starts(cluster: &Cluster) {
    let gpu = cluster.apply(
        &skyhook("gpu")
            .with(package("first", "1.0.0"))
            .with(package("second", "1.0.0").after("first", "1.0.0"))
            .with(package("third", "1.0.0").after("second", "1.0.0")),
    );
    gpu.until(complete());
    gpu.edit(
        json!({"packages": {"late": {"version": "1.0.0", "image": "ghcr.io/nvidia/skyhook-packages/late"}}}),
    );
    let never =
        that("late is not started", |view| view.entries("late|1.0.0").is_empty() && view.pods.is_empty());
    gpu.until(that("it is no longer complete", |view| view.status() != "complete"))
        .stays(&never, Duration::from_secs(15))
        .capture("old-late-package-never-begun");
    // The edit adds a dependency that is already complete.
    first_change_made(
        &gpu,
        "SKY209",
        &json!({"node": "node-1", "package": "late"}),
        "s/^    late:$/&\\n      dependsOn:\\n        first: 1.0.0/",
    );
    gpu.until(everywhere("late|1.0.0", "config", "complete")).until(complete()).well();
}

/// Two packages that depend on each other.
pub fn dependency_cycle(cluster: &Cluster) {
    let gpu = cluster.apply(
        &skyhook("gpu")
            .with(package("hen", "1.0.0").after("egg", "1.0.0"))
            .with(package("egg", "1.0.0").after("hen", "1.0.0")),
    );
    let nothing =
        that("nothing is begun", |view| view.pods.is_empty() && view.entries("hen|1.0.0").is_empty());
    gpu.until(that("it is seen", |view| !view.status().is_empty()))
        .stays(&nothing, LONG_ENOUGH)
        .capture("old-dependency-cycle");
    let edit = "/^      dependsOn:$/{N;/egg/d}";
    first_change_made(&gpu, "SKY207", &json!({"name": "gpu"}), edit);
    gpu.until(complete()).well();
}

/// A package has skipped its interrupt in favor of another package's, which does not exist: v0.17 runs the
/// interrupt, older versions did not.
pub fn skipped_interrupt_is_run(cluster: &Cluster) {
    let driver = package("driver", "2.0.1").interrupts("service");
    let gpu = cluster.apply(&skyhook("gpu").with(driver));
    gpu.until(complete());
    let skipped = "update-state gpu driver 2.0.1 interrupt skipped --node node-2 --confirm";
    run(cluster, &skipped.split(' ').collect::<Vec<_>>());
    gpu.well().until(entry("node-2", "driver|2.0.1", "post-interrupt", "complete")).until(complete()).well();
}

/// If the kubelet reports a reboot as a failed container, the node is erroring for a while, although all
/// packages are complete. Without a policy that stops at the first failure, the operator chooses the node
/// again, and in the end no error is reported.
pub fn violent_reboot_recovers(cluster: &Cluster) {
    cluster.result(pods("kernel", "interrupt").on("node-1"), StepResult::RoughReboot);
    let gpu = cluster.apply(&skyhook("gpu").with(package("kernel", "1.0.0").interrupts("reboot")));
    gpu.until(entry("node-2", "kernel|1.0.0", "post-interrupt", "complete"));
    gpu.until(that("the interrupt is over", |view| {
        view.entries("kernel|1.0.0")
            .iter()
            .any(|e| e.node == "node-1" && e.state == "complete" && e.stage.contains("interrupt"))
    }));
    cluster.capture("old-rough-reboot");
    gpu.until(complete()).well();
}

/// A complete custom resource that is paused has status `paused`; one that is disabled keeps status
/// `complete`.
pub fn disabled_complete_resource_stays_complete(cluster: &Cluster) {
    let gpu = cluster.apply(&driver());
    gpu.until(complete());
    gpu.annotate("disable", json!("true")).stays(&status("complete"), LONG_ENOUGH);
    gpu.annotate("disable", Value::Null).annotate("pause", json!("true")).until(status("paused")).well();
}

/// The runtime-required taint stays until the last custom resource that requires it is complete.
pub fn runtime_required_taint_stays_until_complete(cluster: &Cluster) {
    let taint = json!([{"key": "skyhook.nvidia.com", "value": "runtime-required", "effect": "NoSchedule"}]);
    cluster.patch_node("node-1", json!({"spec": {"taints": taint}}));
    cluster.result(pods("driver", "apply").on("node-1"), StepResult::Hang);
    let gpu = cluster.apply(&driver().set("runtimeRequired", json!(true)));
    let tainted =
        |view: &View| view.nodes[0]["spec"]["taints"].as_array().is_some_and(|taints| !taints.is_empty());
    gpu.until(entry("node-2", "driver|2.0.1", "config", "complete"))
        .stays(&that("tainted", tainted), LONG_ENOUGH)
        .well();
    gpu.capture("old-runtime-required");
    cluster.heal();
    gpu.until(complete()).until(that("free", move |view| !tainted(view)));
}

/// With `serial`, a reconcile returns before it records the pod that it created, so the same stage starts
/// forever.
pub fn serial_makes_no_progress(cluster: &Cluster) {
    // The script must hang: if it ends first, the pod controller records it.
    cluster.result(pods("driver", "apply"), StepResult::Hang);
    let gpu = cluster.apply(&driver().set("serial", json!(true)));
    gpu.until(that("a pod is made", |view| !view.pods.is_empty()))
        .stays(&that("nothing is written down", |view| view.entries("driver|2.0.1").is_empty()), LONG_ENOUGH)
        .until(status("waiting"))
        .capture("old-serial");
    let subject = json!({"kind": "Skyhook", "name": "gpu"});
    first_change_made(&gpu, "SKY214", &subject, "");
    cluster.heal();
    gpu.until(complete()).well();
}

/// A newer version is installed on all nodes at once, regardless of the budget.
pub fn upgrade_ignores_the_budget(cluster: &Cluster) {
    let gpu = cluster.apply(&driver().set("interruptionBudget", json!({"count": 1})));
    gpu.until(complete());
    cluster.result(pods("driver", "upgrade"), StepResult::Hang);
    gpu.edit(json!({"packages": {"driver": {"version": "2.1.0"}}}));
    gpu.until(that("all nodes are upgraded together", |view| view.pods_of("driver", "upgrade").len() == 3));
    cluster.heal();
    gpu.until(complete());
}

/// An ignored node delays a changed ConfigMap on all nodes.
pub fn config_change_waits_for_every_node(cluster: &Cluster) {
    let tuned = |value: &str| package("tuning", "1.2.0").set("configMap", json!({"sysctl.conf": value}));
    let ignore = |value: Value| json!({"metadata": {"labels": {"skyhook.nvidia.com/ignore": value}}});
    cluster.patch_node("node-2", ignore(json!("true")));
    let gpu = cluster.apply(&skyhook("gpu").with(tuned("a")));
    gpu.until(entry("node-1", "tuning|1.2.0", "config", "complete"))
        .until(entry("node-3", "tuning|1.2.0", "config", "complete"))
        .until(that("their pods are gone", |view| view.pods.is_empty()));
    gpu.edit(json!({"packages": {"tuning": {"configMap": {"sysctl.conf": "b"}}}}));
    let path = "/api/v1/namespaces/skyhook/configmaps/gpu-tuning-1.2.0";
    gpu.stays(&that("no script is run again", |view| view.pods.is_empty()), LONG_ENOUGH)
        .capture("old-config-change-held-up");
    let kept = cluster.api.get(path).expect("the ConfigMap is there");
    assert_eq!(kept["data"]["sysctl.conf"], "a", "the old content is still there");
    cluster.patch_node("node-2", ignore(Value::Null));
    gpu.until(complete());
    cluster.await_that("the new content is there", || {
        let now = cluster.api.get(path);
        now.is_ok_and(|now| now["data"]["sysctl.conf"] == "b")
    });
}

/// The operator adopts an administrator's cordon, and removes it after the interrupt.
pub fn foreign_cordon_is_released(cluster: &Cluster) {
    cluster.patch_node("node-2", json!({"spec": {"unschedulable": true}}));
    cluster.result(pods("driver", "apply"), StepResult::Hang);
    let gpu = cluster.apply(&skyhook("gpu").with(package("driver", "2.0.1").interrupts("service")));
    gpu.until(pod("driver", "apply")).capture("old-foreign-cordon-adopted");
    cluster.heal();
    gpu.until(complete());
    assert_eq!(cluster.node("node-2")["spec"]["unschedulable"], Value::Null);
}

/// A recreated custom resource finds the records of the deleted one, and runs nothing.
pub fn recreated_resource_runs_nothing(cluster: &Cluster) {
    let gpu = cluster.apply(&driver());
    gpu.until(complete()).delete().until(deleted());
    cluster.result(pods("driver", "apply"), StepResult::Hang);
    cluster.apply(&driver()).until(complete());
}

/// If a node has an entry for an older version as well, the operator runs an upgrade, which removes the older
/// entry.
pub fn old_entry_is_removed_by_an_upgrade(cluster: &Cluster) {
    let gpu = cluster.apply(&driver());
    gpu.until(complete());
    let entry = |version: &str| {
        json!({
            "name": "driver", "version": version, "image": "ghcr.io/nvidia/skyhook-packages/driver",
            "stage": "config", "state": "complete",
        })
    };
    let both = json!({"driver|2.0.0": entry("2.0.0"), "driver|2.0.1": entry("2.0.1")});
    cluster.annotate_node("node-2", "nodeState_gpu", json!(both.to_string()));
    gpu.until(pod("driver", "upgrade"))
        .until(that("the old entry is gone", |view| view.entries("driver|2.0.0").is_empty()))
        .until(complete())
        .well();
}

/// A refused drain ends the operator's work on its own custom resource, also on later nodes, but not on later custom
/// resources.
pub fn refused_drain_stops_one_custom_resource(cluster: &Cluster) {
    guarded_workload(cluster);
    cluster.add_node("node-4", json!({"pool": "storage"}));
    let others = json!({"matchExpressions": [{"key": "pool", "operator": "DoesNotExist"}]});
    let gpu = skyhook("gpu").with(package("driver", "2.0.1").interrupts("service"));
    let gpu = cluster.apply(&gpu.set("nodeSelectors", others));
    let refused = {
        let log = cluster.log_reader("operator");
        move || log().matches("Cannot evict pod as it would violate the pod's disruption budget").count()
    };
    cluster.await_that("the operator is refused", || refused() > 0);
    let storage = skyhook("storage")
        .with(package("tuning", "1.2.0"))
        .with(package("driver", "2.0.1").after("tuning", "1.2.0").interrupts("service"))
        .set("nodeSelectors", json!({"matchLabels": {"pool": "storage"}}));
    let before = refused();
    cluster.apply(&storage).until(complete());
    assert!(refused() > before, "the drain stays refused");
    // A node whose pod was created before the refusal may still record its stage.
    let untouched =
        that("node-2 records nothing", |view| view.annotation("node-2", "nodeState_gpu").is_none());
    gpu.stays(&untouched, LONG_ENOUGH);
    gpu.diagnosed("SKY401", json!({"node": "node-2"}));
}
