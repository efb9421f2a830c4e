//! Healthy operations: no diagnosis may report an error at any time.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    cluster::Cluster,
    kubelet::StepResult,
    manifest::{Skyhook, package, skyhook},
    rollout::{Rollout, pods},
    view::{absent, complete, deleted, entry, everywhere, pod, status, that},
};

/// Slow enough that several diagnoses per second see each step.
const UNHURRIED: Duration = Duration::from_millis(150);

fn gpu() -> Skyhook {
    skyhook("gpu")
        .with(package("tuning", "1.2.0").set("configMap", json!({"sysctl.conf": "vm.swappiness=10"})))
        .with(package("driver", "2.0.1").uninstallable().interrupts("service").after("tuning", "1.2.0"))
}

fn installed(cluster: &Cluster) -> Rollout<'_> {
    let gpu = cluster.apply(&gpu());
    gpu.until(complete());
    gpu
}

pub fn rollout(cluster: &Cluster) {
    cluster.kubelet.pace(UNHURRIED);
    cluster.without_an_error(|| {
        let gpu = cluster.apply(&gpu());
        gpu.until(entry("node-1", "tuning|1.2.0", "apply", "in_progress")).capture("old-in-progress");
        gpu.until(complete())
            .until(everywhere("driver|2.0.1", "post-interrupt", "complete"))
            .until(everywhere("tuning|1.2.0", "config", "complete"))
            .capture("old-complete");
    });
    let list = cluster.ours(&["node", "list", "--skyhook", "gpu"]);
    let seen: Vec<_> = list["items"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|node| (&node["node"], &node["status"], &node["packagesComplete"]))
        .collect();
    let done = |node| (json!(node), json!("complete"), json!(2));
    let wanted = ["node-1", "node-2", "node-3"].map(done);
    assert_eq!(seen, wanted.iter().map(|(a, b, c)| (a, b, c)).collect::<Vec<_>>());
    let theirs: Value =
        serde_json::from_str(&cluster.upstream(&["node", "list", "--skyhook", "gpu", "-o", "json"]))
            .expect("upstream's JSON");
    let list = cluster.ours(&["node", "list", "--skyhook", "gpu", "--compat"]);
    for (ours, theirs) in
        list["nodes"].as_array().into_iter().flatten().zip(theirs["nodes"].as_array().into_iter().flatten())
    {
        for field in ["nodeName", "status", "packagesComplete", "packagesTotal", "restarts"] {
            assert_eq!(ours[field], theirs[field], "{field} as upstream's CLI has it");
        }
    }
}

/// With a budget of one node, one node is complete while another is waiting.
pub fn rollout_with_a_budget(cluster: &Cluster) {
    cluster.kubelet.pace(UNHURRIED);
    cluster.without_an_error(|| {
        let gpu = cluster.apply(&gpu().set("interruptionBudget", json!({"count": 1})));
        gpu.until(that("one node is done and another waits", |view| {
            let statuses =
                view.object.as_ref().map(|object| object["status"]["nodeStatus"].clone()).unwrap_or_default();
            let has = |wanted: &str| {
                statuses.as_object().is_some_and(|nodes| nodes.values().any(|status| status == wanted))
            };
            has("complete") && has("waiting")
        }))
        .capture("old-budget-one-at-a-time");
        gpu.until(complete());
    });
}

pub fn upgrade(cluster: &Cluster) {
    let gpu = installed(cluster);
    cluster.kubelet.pace(UNHURRIED);
    cluster.without_an_error(|| {
        gpu.edit(json!({"packages": {"driver": {"version": "2.1.0"}}}));
        gpu.until(pod("driver", "upgrade")).capture("old-upgrade-in-progress");
        gpu.until(everywhere("driver|2.1.0", "post-interrupt", "complete"))
            .until(absent("driver|2.0.1"))
            .until(complete());
    });
}

pub fn config_change(cluster: &Cluster) {
    let gpu = installed(cluster);
    cluster.kubelet.pace(UNHURRIED);
    cluster.without_an_error(|| {
        gpu.edit(json!({"packages": {"tuning": {"configMap": {"sysctl.conf": "vm.swappiness=1"}}}}));
        gpu.until(pod("tuning", "config")).until(complete());
    });
}

pub fn uninstall_and_reinstall(cluster: &Cluster) {
    let gpu = installed(cluster);
    cluster.kubelet.pace(UNHURRIED);
    cluster.without_an_error(|| {
        gpu.uninstall("driver", true);
        gpu.until(pod("driver", "uninstall")).capture("old-uninstall-in-progress");
        gpu.until(absent("driver|2.0.1")).until(complete()).capture("old-uninstall-complete");
        gpu.uninstall("driver", false)
            .until(everywhere("driver|2.0.1", "post-interrupt", "complete"))
            .until(complete());
    });
}

/// The nodes restart during the interrupt; the kubelet reports a restarted container, not a failed one.
pub fn reboot(cluster: &Cluster) {
    cluster.kubelet.pace(UNHURRIED);
    let before = cluster.node("node-1")["status"]["nodeInfo"]["bootID"].clone();
    cluster.without_an_error(|| {
        let gpu = cluster.apply(&skyhook("gpu").with(package("kernel", "1.0.0").interrupts("reboot")));
        gpu.until(everywhere("kernel|1.0.0", "post-interrupt", "complete")).until(complete());
    });
    let node = cluster.node("node-1");
    assert_ne!(node["status"]["nodeInfo"]["bootID"], before, "the node has restarted");
    assert_eq!(node["spec"]["unschedulable"], Value::Null, "and takes work again");
}

pub fn pause_and_resume(cluster: &Cluster) {
    cluster.kubelet.pace(UNHURRIED);
    cluster.result(pods("tuning", "apply").on("node-3"), StepResult::Hang);
    cluster.without_an_error(|| {
        let gpu = cluster.apply(&gpu());
        gpu.until(everywhere("tuning|1.2.0", "config", "complete").but_for("node-3"));
        gpu.annotate("pause", json!("true")).until(status("paused")).capture("old-paused");
        cluster.heal();
        gpu.annotate("pause", Value::Null).until(complete());
    });
}

pub fn disable_and_enable(cluster: &Cluster) {
    cluster.kubelet.pace(UNHURRIED);
    cluster.result(pods("tuning", "apply").on("node-3"), StepResult::Hang);
    cluster.without_an_error(|| {
        let gpu = cluster.apply(&gpu());
        gpu.until(pod("tuning", "apply"));
        gpu.annotate("disable", json!("true")).until(status("disabled")).capture("old-disabled");
        cluster.heal();
        gpu.annotate("disable", Value::Null).until(complete());
    });
}

pub fn deletion(cluster: &Cluster) {
    let gpu = installed(cluster);
    cluster.kubelet.pace(UNHURRIED);
    cluster.without_an_error(|| {
        gpu.delete().until(pod("driver", "uninstall")).capture("old-deletion-in-progress");
        gpu.until(deleted()).capture("old-deleted");
    });
}

/// The drain evicts workloads that terminate slowly.
pub fn drain(cluster: &Cluster) {
    cluster.kubelet.pace(UNHURRIED);
    for node in ["node-1", "node-2", "node-3"] {
        cluster.run_pod(&format!("work-on-{node}"), node, json!({"app": "work"}));
    }
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let budget = json!({
        "metadata": {"name": "work"},
        "spec": {"minAvailable": 0, "selector": {"matchLabels": {"app": "work"}}},
    });
    cluster.api.post(budgets, &budget).expect("a budget can be created");
    cluster.await_that("the budget is computed", || {
        let budget = cluster.api.get(&format!("{budgets}/work"));
        budget.is_ok_and(|budget| budget["status"]["disruptionsAllowed"] == 3)
    });
    cluster.without_an_error(|| {
        cluster.apply(&gpu()).until(complete());
    });
    let left = cluster.api.items("/api/v1/namespaces/default/pods");
    assert!(left.expect("the API server responds").is_empty(), "all were evicted");
}

/// New nodes are tainted by the operator, become ready, and lose the taint.
pub fn joining_nodes(cluster: &Cluster) {
    cluster.kubelet.pace(UNHURRIED);
    let gate = skyhook("gpu")
        .with(package("tuning", "1.2.0"))
        .set("runtimeRequired", json!(true))
        .set("autoTaintNewNodes", json!(true));
    cluster.without_an_error(|| {
        let gate = cluster.apply(&gate);
        gate.until(complete());
        for node in ["node-4", "node-5"] {
            cluster.add_node(node, json!({}));
        }
        gate.until(everywhere("tuning|1.2.0", "config", "complete"))
            .until(complete())
            .until(that("released", |view| view.nodes.iter().all(|node| node["spec"]["taints"].is_null())));
    });
}

/// Two custom resources on the same nodes, with different priorities.
pub fn two_custom_resources_by_priority(cluster: &Cluster) {
    cluster.kubelet.pace(UNHURRIED);
    cluster.without_an_error(|| {
        let second = cluster.apply(&gpu());
        let first = cluster.apply(
            &skyhook("base").with(package("kernel", "1.0.0").interrupts("reboot")).set("priority", json!(10)),
        );
        first.until(complete());
        second.until(complete());
    });
}

/// A rollout with a deployment policy: compartments, and a budget of one node.
pub fn rollout_by_policy(cluster: &Cluster) {
    cluster.kubelet.pace(UNHURRIED);
    cluster.patch_node("node-3", json!({"metadata": {"labels": {"zone": "b"}}}));
    let strategy = json!({"fixed": {"initialBatch": 1, "batchThreshold": 100, "failureThreshold": 1, "safetyLimit": 90}});
    let policy = json!({
        "apiVersion": "skyhook.nvidia.com/v1alpha1", "kind": "DeploymentPolicy", "metadata": {"name": "zones"},
        "spec": {
            "default": {"budget": {"count": 1}, "strategy": strategy},
            "compartments": [{
                "name": "b", "selector": {"matchLabels": {"zone": "b"}}, "budget": {"percent": 100}, "strategy": strategy,
            }],
        },
    });
    cluster.api.post(super::fixtures::POLICIES, &policy).expect("the policy is accepted");
    cluster.without_an_error(|| {
        cluster.apply(&gpu().set("deploymentPolicy", json!("zones"))).until(complete());
    });
}

/// The operator restarts during the rollout.
pub fn operator_restarts(cluster: &Cluster) {
    cluster.kubelet.pace(UNHURRIED);
    cluster.without_an_error(|| {
        let gpu = cluster.apply(&gpu());
        gpu.until(pod("tuning", "apply"));
        cluster.stop_operator();
        gpu.until(that("all pods have done their part", |view| {
            view.pods.iter().all(|pod| pod["status"]["phase"] == "Running")
        }));
        cluster.start_operator();
        gpu.until(complete());
    });
}
