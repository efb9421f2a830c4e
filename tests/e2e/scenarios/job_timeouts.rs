//! The newer API, simulated by `model`: a drain and the deletion of a Job that exceed their time limits.

use serde_json::json;

use super::fixtures::guarded_workload;
use super::remedies::{all_well, execute, first_change};
use crate::{
    cluster::Cluster,
    kubelet::StepResult,
    manifest::{package, skyhook},
    model::{PREFIX, Played, RefusedBy},
    rollout::pods,
};

const DRIVER: &str = "driver|2.0.1";
const JOBS: &str = "/apis/batch/v1/namespaces/nodewright/jobs";
const PODS: &str = "/api/v1/namespaces/nodewright/pods";

/// SKY217: a stage was canceled while it was running, and its container cannot be killed.
pub fn stale_job_terminating(cluster: &Cluster) {
    let spec = skyhook("gpu").with(package("driver", "2.0.1")).spec;
    let mut gpu = Played::new(cluster, "gpu", &spec, &json!({})).first_reconcile();
    cluster.result(pods("driver", "apply").on("node-1"), StepResult::Undying);
    let job = gpu.begins("node-1", DRIVER, "apply");
    gpu.await_job(&job, "is active", |status| status["active"] == 1);
    gpu.status("in_progress", &[]);
    cluster.await_that("its script runs", || {
        gpu.pods(&job).iter().any(|pod| {
            let containers = &pod["status"]["initContainerStatuses"];
            containers[1]["state"]["running"].is_object()
        })
    });
    let foreground = json!({"propagationPolicy": "Foreground"});
    let deleted = cluster.api.delete(&format!("{JOBS}/{job}"), &foreground);
    deleted.expect("a Job can be deleted");
    cluster.await_that("its pod is deleted", || {
        let pods = gpu.pods(&job);
        pods.iter().any(|pod| pod["metadata"]["deletionTimestamp"].is_string())
    });
    let node = json!({"node": "node-1", "package": "driver"});
    let early = cluster.report(&[]);
    assert_eq!(early.has("SKY217", &node)["severity"], "Warning");
    // Shorten the grace period from 30 seconds to one.
    let pod = gpu.pods(&job)[0]["metadata"]["name"].clone();
    let pod = format!("{PODS}/{}", pod.as_str().expect("a name"));
    let sooner = cluster.api.delete(&pod, &json!({"gracePeriodSeconds": 1}));
    sooner.expect("a pod can be deleted again");
    cluster.await_that("it is overdue", || {
        let report = cluster.report(&["--fail-on", "never"]);
        report.has("SKY217", &node)["severity"] == "Error"
    });
    cluster.capture("new-stale-job-terminating");
    let report = cluster.report(&[]);
    let finding = report.has("SKY217", &node);
    let argv = first_change(finding);
    assert_eq!(argv[..3], ["kubectl", "delete", "pod"]);
    execute(&cluster.rollout("gpu"), finding, &argv);
    cluster.heal();
    cluster.await_that("the Job is gone", || cluster.api.get(&format!("{JOBS}/{job}")).is_err());
    for node in ["node-1", "node-2", "node-3"] {
        gpu.installs(node, DRIVER);
    }
    gpu.status("complete", &[]);
    all_well(cluster);
}

/// SKY410: a budget blocked the drain until its timeout; the drain is not retried after the budget is
/// deleted.
pub fn drain_timed_out(cluster: &Cluster) {
    let budget = guarded_workload(cluster);
    let spec = skyhook("gpu")
        .with(package("driver", "2.0.1").interrupts("service"))
        .set("drainConfig", json!({"timeout": "1s"}))
        .spec;
    let mut gpu = Played::new(cluster, "gpu", &spec, &json!({})).first_reconcile();
    for node in ["node-1", "node-3"] {
        gpu.installs_and_interrupts(node, DRIVER);
    }
    gpu.drain_refused("node-2", "training", RefusedBy::Budget("training"));
    let key = |kind: &str| format!("{PREFIX}/{kind}_gpu");
    cluster.patch_node(
        "node-2",
        json!({"metadata": {
            "annotations": {key("status"): "erroring"}, "labels": {key("status"): "erroring"},
        }}),
    );
    gpu.status("erroring", &[]);
    let node = json!({"node": "node-2"});
    cluster.report(&[]).has("SKY410", &node);
    cluster.capture("new-drain-timed-out");
    let freed = cluster.api.delete(&budget, &json!({}));
    freed.expect("a budget can be deleted");
    let report = cluster.report(&[]);
    let finding = report.has("SKY410", &node);
    let argv = first_change(finding);
    assert!(argv.contains(&"reset"), "{argv:?}");
    execute(&cluster.rollout("gpu"), finding, &argv);
    let left = cluster.node("node-2");
    assert_eq!(left["metadata"]["annotations"][key("drainStart")], json!(null));
    // The new drain succeeds, and the node is uncordoned at the end.
    let evicted = cluster.api.delete("/api/v1/namespaces/default/pods/training", &json!({}));
    evicted.expect("a pod can be deleted");
    gpu.installs_and_interrupts("node-2", DRIVER);
    gpu.given_back("node-2");
    gpu.status("complete", &[]);
    all_well(cluster);
}

/// SKY401: no controller would recreate the pod, so the operator does not evict it.
pub fn drain_blocked_by_an_unmanaged_pod(cluster: &Cluster) {
    cluster.run_pod("training", "node-2", json!({"app": "training"}));
    let spec = skyhook("gpu")
        .with(package("driver", "2.0.1").interrupts("service"))
        .set("drainConfig", json!({"force": false}))
        .spec;
    let mut gpu = Played::new(cluster, "gpu", &spec, &json!({})).first_reconcile();
    for node in ["node-1", "node-3"] {
        gpu.installs_and_interrupts(node, DRIVER);
    }
    gpu.drain_refused("node-2", "training", RefusedBy::NoController);
    gpu.status("in_progress", &[("DrainBlocked", "UnmanagedPod")]);
    let report = cluster.report(&[]);
    let finding = report.has("SKY401", &json!({"node": "node-2"}));
    assert_eq!(
        finding["message"],
        "pod default/training has no controller that would recreate it: the drain for the interrupt of package driver \
         was blocked and will be retried"
    );
    cluster.capture("new-drain-blocked-by-an-unmanaged-pod");
    // No other node waits, so excluding this one would not help: the first remedy deletes the pod.
    let argv = first_change(finding);
    assert!(argv.starts_with(&["kubectl", "delete", "pod"]), "{argv:?}");
    execute(&cluster.rollout("gpu"), finding, &argv);
    gpu.installs_and_interrupts("node-2", DRIVER);
    gpu.given_back("node-2");
    gpu.status("complete", &[]);
    all_well(cluster);
}
