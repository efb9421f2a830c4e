//! Nodes that are tainted, cordoned, ignored or not ready for a reason outside the custom resource. The first
//! remedy is run as printed.

use serde_json::{Value, json};

use super::{
    fixtures::chosen,
    remedies::{all_well, execute, first_change},
    writes::{self, DRIVER, LONG_ENOUGH},
};
use crate::{
    cluster::Cluster,
    kubelet::StepResult,
    manifest::{Skyhook, package, skyhook},
    rollout::{Rollout, pods},
    view::{complete, entry, everywhere, status, that},
};

const TAINT: &str = "skyhook.nvidia.com";

fn driver() -> Skyhook {
    skyhook("gpu").with(package("driver", "2.0.1"))
}

#[track_caller]
fn cure(gpu: &Rollout<'_>, code: &str, subject: Value) {
    let report = gpu.cluster.report(&[]);
    let finding = report.has(code, &subject);
    execute(gpu, finding, &first_change(finding));
    let report = gpu.cluster.report(&[]);
    assert!(report.with_code(code).is_empty(), "{code} is gone: {:#}", report.json);
}

fn is_tainted(node: &Value) -> bool {
    let taints = node["spec"]["taints"].as_array();
    taints.is_some_and(|taints| taints.iter().any(|t| t["key"] == TAINT))
}

/// SKY411: node-1 has the auto-taint annotation of an earlier custom resource, so the operator does not
/// consider it new, and does not taint it.
pub fn auto_taint_not_set(cluster: &Cluster) {
    cluster.annotate_node("node-1", "autoTaint_earlier", json!("2026-11-01T00:00:00Z"));
    cluster.result(pods("driver", "apply").on("node-1"), StepResult::Hang);
    let gpu =
        cluster.apply(&driver().set("runtimeRequired", json!(true)).set("autoTaintNewNodes", json!(true)));
    gpu.until(entry("node-1", DRIVER, "apply", "in_progress"))
        .until(everywhere(DRIVER, "config", "complete").but_for("node-1"))
        .capture("old-taint-that-was-not-set");
    assert!(!is_tainted(&cluster.node("node-1")));
    cure(&gpu, "SKY411", json!({"node": "node-1"}));
    assert!(is_tainted(&cluster.node("node-1")));
    cluster.heal();
    gpu.until(complete()).until(that("the taint is lifted", |view| !view.nodes.iter().any(is_tainted)));
    all_well(cluster);
}

/// SKY405: no custom resource with `runtimeRequired` selects the node that carries the taint.
pub fn taint_never_removed(cluster: &Cluster) {
    cluster.annotate_node("node-1", "autoTaint_earlier", json!("2026-11-01T00:00:00Z"));
    let taint = json!([{"key": TAINT, "value": "runtime-required", "effect": "NoSchedule"}]);
    cluster.patch_node("node-1", json!({"spec": {"taints": taint}}));
    cluster.patch_node("node-2", json!({"metadata": {"labels": {"pool": "gpu"}}}));
    let gpu = cluster.apply(
        &driver()
            .set("runtimeRequired", json!(true))
            .set("nodeSelectors", json!({"matchLabels": {"pool": "gpu"}})),
    );
    let stays = that("it keeps the taint", |view| is_tainted(&view.nodes[0]));
    gpu.until(complete()).stays(&stays, LONG_ENOUGH).capture("old-taint-that-nothing-lifts");
    cure(&gpu, "SKY405", json!({"name": "node-1"}));
    assert!(!is_tainted(&cluster.node("node-1")));
    all_well(cluster);
}

/// Where every package is complete, the operator lifts the runtime-required taint, also while the custom resource is
/// paused or disabled.
pub fn taint_is_lifted_while_paused(cluster: &Cluster) {
    let gpu = cluster.apply(&driver().set("runtimeRequired", json!(true)));
    gpu.until(complete());
    let taint = json!([{"key": TAINT, "value": "runtime-required", "effect": "NoSchedule"}]);
    for key in ["pause", "disable"] {
        gpu.annotate(key, json!("true"));
        cluster.patch_node("node-1", json!({"spec": {"taints": taint}}));
        gpu.until(that("the taint is lifted", |view| !view.nodes.iter().any(is_tainted)));
        gpu.annotate(key, Value::Null).until(complete());
    }
    all_well(cluster);
}

/// SKY406: the operator would uncordon a node that an administrator has cordoned.
pub fn manual_cordon(cluster: &Cluster) {
    cluster.result(pods("driver", "apply"), StepResult::Hang);
    let gpu = skyhook("gpu")
        .with(package("driver", "2.0.1").interrupts("service"))
        .set("interruptionBudget", json!({"count": 1}));
    let gpu = cluster.apply(&gpu);
    let (first, [by_hand, _]) = chosen(&gpu);
    cluster.patch_node(by_hand, json!({"spec": {"unschedulable": true}}));
    gpu.until(entry(first, DRIVER, "apply", "in_progress")).capture("old-cordon-by-hand");
    cure(&gpu, "SKY406", json!({"node": by_hand}));
    cluster.heal();
    gpu.until(everywhere(DRIVER, "post-interrupt", "complete").but_for(by_hand)).stays(
        &that("it stays cordoned", move |view| {
            let mut nodes = view.nodes.iter();
            let node = nodes.find(|n| n["metadata"]["name"] == by_hand);
            node.is_some_and(|n| n["spec"]["unschedulable"] == true)
        }),
        LONG_ENOUGH,
    );
    cluster.patch_node(by_hand, json!({"spec": {"unschedulable": null}}));
    writes::run(cluster, &["node", "unignore", by_hand, "--confirm"]);
    gpu.until(complete());
    all_well(cluster);
}

/// SKY409: a node becomes not ready while packages run on it; it blocks the batch.
pub fn node_not_ready_during_work(cluster: &Cluster) {
    cluster.result(pods("driver", "apply"), StepResult::Hang);
    let gpu = cluster.apply(&driver().set("interruptionBudget", json!({"count": 1})));
    let (away, others) = chosen(&gpu);
    gpu.until(entry(away, DRIVER, "apply", "in_progress"));
    let ready = |status: &str| {
        let since = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(1);
        let condition = json!({"type": "Ready", "status": status, "lastTransitionTime": since.to_string()});
        let mut conditions = cluster.node(away)["status"]["conditions"].take();
        let all = conditions.as_array_mut().expect("a list");
        all.retain(|c| c["type"] != "Ready");
        all.push(condition);
        let path = format!("/api/v1/nodes/{away}/status");
        let patched = cluster.api.merge(&path, &json!({"status": {"conditions": conditions}}));
        patched.expect("a node has conditions");
    };
    ready("Unknown");
    for node in others {
        cluster.result(pods("driver", "apply").on(node), StepResult::Succeed);
    }
    gpu.stays(&that("no other is begun", |view| view.entries(DRIVER).len() == 1), LONG_ENOUGH)
        .capture("old-node-that-went-away");
    cure(&gpu, "SKY409", json!({"node": away}));
    gpu.until(everywhere(DRIVER, "config", "complete").but_for(away));
    ready("True");
    cluster.heal();
    writes::run(cluster, &["node", "unignore", away, "--confirm"]);
    gpu.until(complete());
    all_well(cluster);
}

/// SKY314: ignored nodes that wait for an earlier custom resource fill every batch; a formerly ignored node
/// is chosen last, and so never.
pub fn batch_of_ignored_nodes(cluster: &Cluster) {
    let nodes = ["node-1", "node-2", "node-3"];
    let [ignored @ .., free] = nodes;
    for node in ignored {
        cluster.result(pods("kernel", "apply").on(node), StepResult::PullFails);
    }
    let base = skyhook("base").with(package("kernel", "1.0.0")).set("priority", json!(10));
    let base = cluster.apply(&base);
    base.until(entry(free, "kernel|1.0.0", "config", "complete"));
    let ignore = |node: &str, value: Value| {
        let labels = json!({"skyhook.nvidia.com/ignore": value});
        cluster.patch_node(node, json!({"metadata": {"labels": labels}}));
    };
    for node in nodes {
        ignore(node, json!("true"));
    }
    let gpu = cluster.apply(&driver().set("interruptionBudget", json!({"count": 1})));
    gpu.until(that("it is blocked", move |view| {
        let mut nodes = view.nodes.iter();
        let node = nodes.find(|n| n["metadata"]["name"] == free);
        let status = "skyhook.nvidia.com/status_gpu";
        node.is_some_and(|n| n["metadata"]["annotations"][status] == "blocked")
    }));
    ignore(free, Value::Null);
    let nothing = that("nothing is begun", |view| view.entries(DRIVER).is_empty());
    gpu.stays(&nothing, LONG_ENOUGH).capture("old-batch-of-ignored-nodes");
    let report = cluster.report(&[]);
    let finding = report.has("SKY314", &json!({"name": "gpu"}));
    execute(&gpu, finding, &first_change(finding));
    gpu.until(status("paused"));
    execute(&gpu, finding, &["resume"]);
    gpu.until(entry(free, DRIVER, "config", "complete"));
    let report = cluster.report(&[]);
    assert!(report.with_code("SKY314").is_empty(), "{:#}", report.json);
    cluster.heal();
    for node in ignored {
        ignore(node, Value::Null);
    }
    base.until(complete());
    gpu.until(complete());
    all_well(cluster);
}
