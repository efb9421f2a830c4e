//! Rollouts blocked by something outside the package: order, policy, taints, cordons, names.

use std::time::Duration;

use serde_json::{Value, json};

use super::fixtures::{POLICIES, careful_policy, no_room_for_pods, stopped};
use super::remedies::{cure, first_change_made};
use crate::{
    cluster::Cluster,
    kubelet::StepResult,
    manifest::{Skyhook, package, skyhook},
    operator, ours,
    rollout::pods,
    view::{Condition, View, absent, complete, deleted, entry, everywhere, status, that},
};

const LONG_ENOUGH: Duration = Duration::from_secs(6);
const DRIVER: &str = "driver|2.0.1";

fn driver() -> Skyhook {
    skyhook("gpu").with(package("driver", "2.0.1"))
}

fn not_begun() -> Condition {
    that("nothing is begun", |view| view.pods.is_empty() && view.entries(DRIVER).is_empty())
}

/// SKY302: the custom resource with the lower `priority` goes first on each node.
pub fn waits_for_an_earlier_custom_resource(cluster: &Cluster) {
    cluster.result(pods("kernel", "apply").on("node-1"), StepResult::Exit(1));
    let first = cluster.apply(&skyhook("base").with(package("kernel", "1.0.0")).set("priority", json!(10)));
    let second = cluster.apply(&driver());
    first.until(entry("node-1", "kernel|1.0.0", "apply", "erroring"));
    second
        .until(entry("node-2", DRIVER, "config", "complete"))
        .stays(
            &that("not on node-1", |view| !view.entries(DRIVER).iter().any(|e| e.node == "node-1")),
            LONG_ENOUGH,
        )
        .diagnosed("SKY302", json!({"node": "node-1", "skyhook": "gpu"}))
        .capture("old-waits-for-earlier");
    cluster.heal();
    second.until(complete()).well();
}

/// SKY303: the deployment policy was deleted before the custom resource was created; no webhook prevented it.
pub fn policy_missing(cluster: &Cluster) {
    careful_policy(cluster);
    cluster.api.delete(&format!("{POLICIES}/careful"), &json!({})).expect("the policy can be deleted");
    let gpu = cluster.apply(&driver().set("deploymentPolicy", json!("careful")));
    gpu.until(status("blocked"))
        .stays(&not_begun(), LONG_ENOUGH)
        .diagnosed("SKY303", json!({"name": "gpu"}))
        .capture("old-policy-missing");
    careful_policy(cluster);
    // The operator does not watch policies: only another event triggers a reconcile.
    gpu.annotate("seen", json!("now")).until(complete()).well();
}

pub fn node_ignored(cluster: &Cluster) {
    cluster.patch_node("node-2", json!({"metadata": {"labels": {"skyhook.nvidia.com/ignore": "true"}}}));
    let gpu = cluster.apply(&driver());
    gpu.until(entry("node-1", DRIVER, "config", "complete"))
        .until(entry("node-3", DRIVER, "config", "complete"))
        .stays(&that("node-2 is left alone", |view| view.entries(DRIVER).len() == 2), LONG_ENOUGH)
        .capture("old-node-ignored");
    cure(&gpu, "SKY304", json!({"node": "node-2"}), &["unignore"]);
    gpu.until(complete()).well();
}

/// With a budget of one node, a failing node blocks the next one.
pub fn batch_held_by_a_node(cluster: &Cluster) {
    cluster.result(pods("driver", "apply"), StepResult::Exit(1));
    let gpu = cluster.apply(&driver().set("interruptionBudget", json!({"count": 1})));
    gpu.until(that("one is erroring", |view| view.entries(DRIVER).iter().any(|e| e.state == "erroring")))
        .stays(&that("and no other begun", |view| view.entries(DRIVER).len() == 1), Duration::from_secs(15))
        .capture("old-batch-held-by-a-node");
    // `deployment-policy reset --node` removes the failing node from the batch: it keeps failing, and the other nodes complete.
    let failing = gpu.view().entries(DRIVER)[0].node.clone();
    let nodes = ["node-1", "node-2", "node-3"];
    let (own, others): (Vec<_>, Vec<_>) = nodes.into_iter().partition(|n| *n == failing);
    let node = own[0];
    for other in others {
        cluster.result(pods("driver", "apply").on(other), StepResult::Succeed);
    }
    cure(&gpu, "SKY305", json!({"node": node}), &["deployment-policy", "--node"]);
    gpu.until(everywhere(DRIVER, "config", "complete").but_for(node))
        .until(entry(node, DRIVER, "apply", "erroring"));
    cluster.heal();
    gpu.until(complete()).well();
}

/// A policy stops at the first failure. A reboot that the kubelet reports as a failure stops the rollout,
/// although every package is complete.
pub fn stale_erroring_after_reboot(cluster: &Cluster) {
    careful_policy(cluster);
    cluster.result(pods("kernel", "interrupt"), StepResult::RoughReboot);
    let gpu = cluster.apply(
        &skyhook("gpu")
            .with(package("kernel", "1.0.0").interrupts("reboot"))
            .set("deploymentPolicy", json!("careful")),
    );
    let interrupted = |view: &View| {
        let mut entries = view.entries("kernel|1.0.0").into_iter();
        let entry = entries.find(|entry| entry.stage == "interrupt" && entry.state == "complete")?;
        Some(entry.node.clone())
    };
    gpu.until(that("stopped", stopped))
        .until(that("past its interrupt", move |view| interrupted(view).is_some()));
    let node = interrupted(&gpu.view()).expect("it stays so");
    gpu.stays(&that("stopped", stopped), LONG_ENOUGH).capture("old-stale-erroring-after-reboot");
    cluster.heal();
    let words = ["deployment-policy", "reset"];
    cure(&gpu, "SKY306", json!({"node": node}), &words);
    gpu.until(complete()).well();
}

pub fn no_node_selected(cluster: &Cluster) {
    let gpu = cluster.apply(&driver().set("nodeSelectors", json!({"matchLabels": {"gpu": "none"}})));
    gpu.until(status("complete")).stays(&not_begun(), LONG_ENOUGH).capture("old-no-node-selected");
    let edit = "/^  nodeSelectors:$/,/^      gpu: none$/d";
    first_change_made(&gpu, "SKY307", &json!({"name": "gpu"}), edit);
    gpu.until(everywhere(DRIVER, "config", "complete")).well();
}

/// A stripped finalizer leaves the cordon and its annotation behind; a normal deletion would remove both.
pub fn cordon_without_owner(cluster: &Cluster) {
    let gpu =
        cluster.apply(&skyhook("gpu").with(package("driver", "2.0.1").interrupts("service").uninstallable()));
    cluster.result(pods("driver", "interrupt"), StepResult::Hang);
    gpu.until(that("cordoned", |view| view.nodes.iter().all(|node| node["spec"]["unschedulable"] == true)))
        .until(that("interrupting", |view| view.pods_of("driver", "interrupt").len() == 3));
    cluster.stop_operator();
    gpu.delete().strip_finalizer().until(deleted());
    cluster.start_operator();
    gpu.until(that("no pod is left", |view| view.pods.is_empty())).stays(
        &that("still cordoned", |view| view.nodes.iter().all(|node| node["spec"]["unschedulable"] == true)),
        LONG_ENOUGH,
    );
    let report = cluster.report(&[]);
    report.has("SKY402", &json!({"node": "node-1"}));
    report.has("SKY701", &json!({"node": "node-1"}));
    cluster.capture("old-cordon-without-owner");
}

pub fn untolerated_taint(cluster: &Cluster) {
    let taint = json!([{"key": "example.com/reserved", "value": "yes", "effect": "NoSchedule"}]);
    cluster.patch_node("node-2", json!({"spec": {"taints": taint}}));
    let gpu = cluster.apply(&driver());
    gpu.until(entry("node-1", DRIVER, "config", "complete"))
        .stays(
            &that("not on node-2", |view| !view.entries(DRIVER).iter().any(|e| e.node == "node-2")),
            LONG_ENOUGH,
        )
        .diagnosed("SKY403", json!({"node": "node-2"}))
        .capture("old-untolerated-taint");
    cluster.patch_node("node-2", json!({"spec": {"taints": null}}));
    gpu.until(complete()).well();
}

pub fn interrupt_waits_for_workload(cluster: &Cluster) {
    cluster.run_pod("training", "node-2", json!({"app": "training"}));
    let gpu = cluster.apply(
        &skyhook("gpu")
            .with(package("driver", "2.0.1").interrupts("service"))
            .set("podNonInterruptLabels", json!({"matchLabels": {"app": "training"}})),
    );
    gpu.until(entry("node-1", DRIVER, "post-interrupt", "complete"))
        .stays(
            &that("not on node-2", |view| !view.entries(DRIVER).iter().any(|e| e.node == "node-2")),
            LONG_ENOUGH,
        )
        .diagnosed("SKY404", json!({"node": "node-2"}))
        .capture("old-interrupt-waits-for-workload");
    cluster.api.delete("/api/v1/namespaces/default/pods/training", &json!({})).expect("the workload ends");
    gpu.until(complete()).well();
}

/// SKY407: the earlier custom resource does not tolerate the taint that only the later one would remove.
pub fn runtime_required_deadlock(cluster: &Cluster) {
    let taint = json!([{"key": "skyhook.nvidia.com", "value": "runtime-required", "effect": "NoSchedule"}]);
    cluster.patch_node("node-1", json!({"spec": {"taints": taint}}));
    let first = cluster.apply(&skyhook("base").with(package("kernel", "1.0.0")).set("priority", json!(10)));
    let gate = cluster.apply(&driver().set("runtimeRequired", json!(true)));
    gate.until(entry("node-2", DRIVER, "config", "complete")).stays(
        &that("not on node-1", |view| !view.entries(DRIVER).iter().any(|e| e.node == "node-1")),
        LONG_ENOUGH,
    );
    let report = cluster.report(&[]);
    report.has("SKY407", &json!({"node": "node-1", "skyhook": "base"}));
    cluster.capture("old-runtime-required-deadlock");
    first.edit(json!({"runtimeRequired": true}));
    gate.until(complete()).until(that("free", |view| view.nodes[0]["spec"]["taints"].is_null()));
    assert!(cluster.report(&[]).errors().is_empty(), "all is well again");
}

/// 54 characters: one too many for the annotation key of the node state.
pub fn name_too_long(cluster: &Cluster) {
    let name = "g".repeat(54);
    let long = cluster.apply(&skyhook(&name).with(package("driver", "2.0.1")));
    long.until(that("the operator tries", |view| !view.status().is_empty()))
        .stays(&absent(DRIVER), LONG_ENOUGH)
        .capture("old-name-too-long");
    first_change_made(&long, "SKY502", &json!({"name": name}), "");
    long.until(deleted());
}

/// A pod with the operator's label but without its annotation makes the operator panic in every reconcile.
pub fn pod_missing_package_annotation(cluster: &Cluster) {
    cluster.result(pods("driver", "apply").on("node-1"), StepResult::Hang);
    let gpu = cluster.apply(&driver());
    gpu.until(entry("node-2", DRIVER, "config", "complete"));
    cluster.run_pod("look-alike", "node-2", json!({"skyhook.nvidia.com/name": "gpu"}));
    let log = cluster.log_reader("operator");
    cluster.await_that("the operator panics", || log().contains("panic"));
    cluster.heal();
    gpu.stays(
        &that("node-1 is not finished", |view| {
            view.entries(DRIVER)
                .iter()
                .any(|e| e.node == "node-1" && (e.stage.as_str(), e.state.as_str()) != ("config", "complete"))
        }),
        LONG_ENOUGH,
    )
    .capture("old-pod-missing-package-annotation");
    first_change_made(&gpu, "SKY504", &json!({"node": "node-2"}), "");
    gpu.annotate("seen", json!("now"))
        .until(everywhere(DRIVER, "config", "complete"))
        .until(complete())
        .well();
}

/// The operator's Deployment has no available replica.
pub fn operator_not_running(cluster: &Cluster) {
    let gpu = cluster.apply(&driver());
    gpu.until(complete());
    cluster.stop_operator();
    let path = format!("{}/status", operator::deployment(operator::NAMESPACE));
    let down = json!({"status": {
        "readyReplicas": 0, "availableReplicas": 0, "unavailableReplicas": 1,
        "conditions": [{"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable"}],
    }});
    cluster.api.merge(&path, &down).expect("a Deployment has a status");
    gpu.uninstall("driver", true);
    gpu.stays(&everywhere(DRIVER, "config", "complete"), LONG_ENOUGH);
    let report = cluster.report(&[]);
    assert!(!report.with_code("SKY501").is_empty(), "{:#}", report.json);
    cluster.capture("old-operator-not-running");
}

/// SKY206: the node state is malformed; no deletion is involved.
pub fn malformed_state(cluster: &Cluster) {
    let gpu = cluster.apply(&driver());
    gpu.until(complete());
    let kept = gpu.view().annotation("node-2", "nodeState_gpu").expect("the node has a state").to_owned();
    cluster.annotate_node("node-2", "nodeState_gpu", json!("{\"driver|2.0.1\": broken"));
    gpu.until(crate::view::condition("NodeStateMalformed", "ParseError"))
        .diagnosed("SKY206", json!({"node": "node-2"}))
        .capture("old-malformed-state");
    cluster.annotate_node("node-2", "nodeState_gpu", Value::String(kept));
    gpu.until(complete()).well();
}

/// SKY228: a quota blocks all package pods, and a capture of that moment is diagnosed later.
pub fn operator_makes_no_progress(cluster: &Cluster) {
    let quota = no_room_for_pods(cluster, "skyhook");
    let gpu = cluster.apply(&driver());
    gpu.until(that("the operator has looked at it", |view| {
        view.object.as_ref().is_some_and(|o| o["status"]["status"].is_string())
    }))
    .stays(&not_begun(), LONG_ENOUGH)
    .capture("old-nothing-at-work");
    let kubeconfig = cluster.kubeconfig("admin");
    let file = kubeconfig.with_file_name("quiet.tar.gz");
    let file = file.to_str().expect("a path of letters");
    let collected = ours::run(&kubeconfig, &["collect", "--force", "-o", file]);
    assert_eq!(collected.exit, Some(0), "{collected:?}");
    for minutes in [40, 150] {
        let now = jiff::Timestamp::now() + jiff::SignedDuration::from_mins(minutes);
        let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let report = ours::diagnose(&kubeconfig, &["--from", file, "--now", &now]);
        let finding = report.has("SKY228", &json!({"node": "node-1"}));
        assert_eq!(finding["severity"], "Error", "{:#}", report.json);
    }
    cluster.api.delete(&quota, &json!({})).expect("a quota can be deleted");
    // The quota is deleted; the next reconcile continues.
    gpu.annotate("seen", json!("now")).until(complete()).well();
}
