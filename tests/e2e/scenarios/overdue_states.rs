//! States that are detected by their age: the cluster is collected, and the file is diagnosed with a later
//! `--now`. The first remedy that writes, if there is one, is then run on the cluster.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{
    nodewright::upgraded,
    remedies::{all_well, execute, first_change},
    writes::{driver, uninstallable},
};
use crate::{
    cluster::Cluster,
    kubelet::StepResult,
    operator::NAMESPACE,
    ours::{self, Report},
    rollout::{Rollout, pods},
    view::{View, complete, deleted, that},
};

/// Collects the cluster, and diagnoses the file as of some minutes later.
#[track_caller]
fn minutes_later(cluster: &Cluster, minutes: i64) -> Report {
    let kubeconfig = cluster.kubeconfig("admin");
    let file = kubeconfig.with_file_name("collected.tar.gz");
    let file = file.to_str().expect("the path is UTF-8");
    let collected = ours::run(&kubeconfig, &["collect", "--force", "-o", file]);
    assert!(collected.stdout.contains(file), "{collected:?}");
    let at = Timestamp::now() + SignedDuration::from_mins(minutes);
    let now = at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let report = ours::diagnose(&kubeconfig, &["--from", file, "--now", &now]);
    report.exit_fits();
    report
}

/// Asserts that the code is reported only after some minutes, and runs its first remedy that writes.
#[track_caller]
fn cured_when_overdue(gpu: &Rollout<'_>, code: &str, subject: &Value, minutes: i64) {
    let cluster = gpu.cluster;
    let now = cluster.report(&["--fail-on", "never"]);
    assert!(now.with_code(code).is_empty(), "{:#}", now.json);
    let report = minutes_later(cluster, minutes);
    let finding = report.has(code, subject);
    execute(gpu, finding, &first_change(finding));
}

/// SKY211: the kubelet does not end the pod, and its replacement would need the same name.
pub fn pod_stuck_terminating(cluster: &Cluster) {
    cluster.result(pods("driver", "apply").on("node-2"), StepResult::Undying);
    let gpu = cluster.apply(&driver());
    let runs = |but: Value| {
        that("the script runs on node-2", move |view| {
            running_on(view, "node-2").is_some_and(|pod| pod["metadata"]["uid"] != but)
        })
    };
    gpu.until(runs(Value::Null));
    let first = running_on(&gpu.view(), "node-2").expect("a pod runs on node-2");
    let name = first["metadata"]["name"].as_str().expect("pods have names");
    let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{name}");
    let deleted = cluster.api.delete(&path, &json!({}));
    deleted.expect("a pod can be deleted");
    cured_when_overdue(&gpu, "SKY211", &json!({"node": "node-2", "package": "driver"}), 45);
    gpu.until(runs(first["metadata"]["uid"].clone()));
    cluster.heal();
    gpu.until(complete());
    all_well(cluster);
}

/// The pod whose apply script is running on this node.
fn running_on(view: &View, node: &str) -> Option<Value> {
    let pods = view.pods_of("driver", "apply").into_iter();
    pods.filter(|pod| pod["spec"]["nodeName"] == node)
        .find(|pod| {
            let containers = pod["status"]["initContainerStatuses"].as_array();
            containers.is_some_and(|all| all[1]["state"]["running"].is_object())
        })
        .cloned()
}

/// SKY113: the operator is stopped, but its Deployment still looks available.
pub fn deletion_not_progressing(cluster: &Cluster) {
    let gpu = cluster.apply(&uninstallable());
    gpu.until(complete());
    cluster.stop_operator();
    gpu.delete();
    cured_when_overdue(&gpu, "SKY113", &json!({"name": "gpu"}), 45);
    gpu.until(deleted());
}

/// SKY222: the operator is stopped during a rollout. No remedy writes (only the operator's log shows the
/// cause), so the test restarts it.
pub fn operator_makes_no_progress(cluster: &Cluster) {
    cluster.stop_operator();
    let gpu = cluster.apply(&driver());
    let report = minutes_later(cluster, 150);
    report.has("SKY222", &json!({"name": "gpu"}));
    cluster.start_operator();
    gpu.until(complete());
    all_well(cluster);
}

/// SKY602: after an upgrade, the newer operator creates no NodeWright for the Skyhook.
pub fn not_migrated_yet(cluster: &Cluster) {
    cluster.apply(&driver()).until(complete());
    upgraded(cluster);
    let now = cluster.report(&["--fail-on", "never"]);
    assert!(now.with_code("SKY602").is_empty(), "{:#}", now.json);
    minutes_later(cluster, 15).has("SKY602", &json!({"name": "gpu"}));
}
