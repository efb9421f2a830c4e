//! Tests of behavior that was derived from the source of the operator.

use std::time::Duration;

use serde_json::{Value, json};

use super::fixtures::{careful_policy, stopped};
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

/// The finalizer cleans annotations and labels, and leaves its conditions on the nodes.
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
    // The package cannot be uninstalled, so what is on the host stays written down.
    assert!(gpu.view().annotation("node-1", "nodeState_gpu").is_some());
}

/// Only what cannot be uninstalled stays written down.
pub fn deletion_leaves_no_state_of_uninstalled(cluster: &Cluster) {
    let gpu = cluster.apply(&skyhook("gpu").with(package("driver", "2.0.1").uninstallable()));
    gpu.until(complete()).delete().until(deleted());
    let node = cluster.node("node-1");
    let keys: Vec<_> =
        node["metadata"]["annotations"].as_object().into_iter().flatten().map(|(key, _)| key).collect();
    assert!(!keys.iter().any(|key| key.ends_with("_gpu")), "{keys:?}");
}

/// A batch reset does not help while a node is still erroring: it is counted once more, and the stop is back.
pub fn batch_stop_returns_after_a_reset(cluster: &Cluster) {
    careful_policy(cluster);
    cluster.result(pods("driver", "apply").on("node-1"), StepResult::Exit(1));
    let gpu = cluster.apply(&driver().set("deploymentPolicy", json!("careful")));
    gpu.until(entry("node-1", "driver|2.0.1", "apply", "erroring")).until(that("stopped", stopped));
    gpu.stays(&that("the others wait", |view| view.entries("driver|2.0.1").len() == 1), LONG_ENOUGH)
        .until(status("unknown"))
        .capture("old-rollout-stopped");
    // A merge patch leaves out what is zero or false, and so leaves it as it was: upstream's CLI of this version
    // says that it has reset the batch, and the stop is still there.
    cluster.upstream(&["deployment-policy", "reset", "gpu", "--confirm"]);
    assert!(stopped(&gpu.view()), "the stop survives upstream's reset");

    let reset = reset_batch(cluster);
    assert!(!stopped(&View { object: Some(reset), ..gpu.view() }), "zeros that are spelt out lift it");
    gpu.until(that("stopped again", stopped)).stays(&that("stopped", stopped), LONG_ENOUGH);
}

/// Every field, the zeros included; answers with the CR as it then was.
fn reset_batch(cluster: &Cluster) -> Value {
    let zero = json!({
        "currentBatch": 1, "consecutiveFailures": 0, "completedNodes": 0, "failedNodes": 0,
        "shouldStop": false, "lastBatchSize": 0, "lastBatchFailed": false,
    });
    let patch = json!({"status": {"compartmentStatuses": {"__default__": {"batchState": zero}}}});
    let path = format!("{SKYHOOKS}/gpu/status");
    cluster.api.merge(&path, &patch).expect("a status can be changed")
}

/// A post-interrupt pod that is lost sends the package back to apply.
pub fn lost_post_interrupt_restarts_at_apply(cluster: &Cluster) {
    cluster.result(pods("driver", "post-interrupt").on("node-1"), StepResult::Hang);
    let gpu = cluster.apply(&skyhook("gpu").with(package("driver", "2.0.1").interrupts("service")));
    gpu.until(entry("node-1", "driver|2.0.1", "post-interrupt", "in_progress"))
        .until(pod("driver", "post-interrupt"));
    let lost = gpu.view().pods_of("driver", "post-interrupt")[0]["metadata"]["name"].clone();
    let path = format!("/api/v1/namespaces/skyhook/pods/{}", lost.as_str().expect("pods have names"));
    cluster.result(pods("driver", "apply").on("node-1"), StepResult::Hang);
    cluster.api.delete(&path, &json!({})).expect("it can be deleted");
    gpu.until(pod("driver", "apply"));
    cluster.heal();
    gpu.until(everywhere("driver|2.0.1", "post-interrupt", "complete")).until(complete());
}

/// A pod the kubelet rejected is in the way of its own replacement, for ever.
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

/// A package that nothing depends on, added when more packages are complete than are left, is never begun.
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
    // It is given a dependency that is complete.
    first_change_made(
        &gpu,
        "SKY209",
        &json!({"node": "node-1", "package": "late"}),
        "s/^    late:$/&\\n      dependsOn:\\n        first: 1.0.0/",
    );
    gpu.until(everywhere("late|1.0.0", "config", "complete")).until(complete()).well();
}

/// Two packages that wait for each other.
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

/// A package whose interrupt another was to bring, and none that does is left: v0.17 takes it up, older ones did not.
pub fn skipped_interrupt_is_run(cluster: &Cluster) {
    let driver = package("driver", "2.0.1").interrupts("service");
    let gpu = cluster.apply(&skyhook("gpu").with(driver));
    gpu.until(complete());
    let skipped = "update-state gpu driver 2.0.1 interrupt skipped --node node-2 --confirm";
    run(cluster, &skipped.split(' ').collect::<Vec<_>>());
    gpu.well().until(entry("node-2", "driver|2.0.1", "post-interrupt", "complete")).until(complete()).well();
}

/// A reboot whose violent end the kubelet reports makes the node erroring for a moment, though every package is well.
/// Without a policy that stops at the first failure, the node has its turn again, and no error is found at the end.
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

/// A paused CR that is complete says paused, a disabled one goes on saying complete.
pub fn disabled_complete_resource_stays_complete(cluster: &Cluster) {
    let gpu = cluster.apply(&driver());
    gpu.until(complete());
    gpu.annotate("disable", json!("true")).stays(&status("complete"), LONG_ENOUGH);
    gpu.annotate("disable", Value::Null).annotate("pause", json!("true")).until(status("paused")).well();
}

/// While the taint is on a node, nothing else may run there; it goes when the last required CR is complete.
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

/// With `serial` the pass returns before it has written down what it began, and so it begins for ever.
pub fn serial_makes_no_progress(cluster: &Cluster) {
    // A script that ends before the next pass is written down by the controller of pods.
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

/// A raised version is worked on everywhere at once, whatever the budget says.
pub fn upgrade_ignores_the_budget(cluster: &Cluster) {
    let gpu = cluster.apply(&driver().set("interruptionBudget", json!({"count": 1})));
    gpu.until(complete());
    cluster.result(pods("driver", "upgrade"), StepResult::Hang);
    gpu.edit(json!({"packages": {"driver": {"version": "2.1.0"}}}));
    gpu.until(that("all nodes are upgraded together", |view| view.pods_of("driver", "upgrade").len() == 3));
    cluster.heal();
    gpu.until(complete());
}

/// One node that takes no part keeps a changed ConfigMap from all of them.
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

/// An administrator's cordon is taken for its own, and lifted when the interrupt is over.
pub fn foreign_cordon_is_released(cluster: &Cluster) {
    cluster.patch_node("node-2", json!({"spec": {"unschedulable": true}}));
    cluster.result(pods("driver", "apply"), StepResult::Hang);
    let gpu = cluster.apply(&skyhook("gpu").with(package("driver", "2.0.1").interrupts("service")));
    gpu.until(pod("driver", "apply")).capture("old-foreign-cordon-adopted");
    cluster.heal();
    gpu.until(complete());
    assert_eq!(cluster.node("node-2")["spec"]["unschedulable"], Value::Null);
}

/// What a deleted CR left written down counts for its successor: nothing is run.
pub fn recreated_resource_runs_nothing(cluster: &Cluster) {
    let gpu = cluster.apply(&driver());
    gpu.until(complete()).delete().until(deleted());
    cluster.result(pods("driver", "apply"), StepResult::Hang);
    cluster.apply(&driver()).until(complete());
}

/// An entry of an older version beside the new one makes the node upgrade once more, which removes it.
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
