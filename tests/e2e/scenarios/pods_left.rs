//! The operator was replaced while pods of the older one ran.

use serde_json::json;

use super::cures::{all_well, execute, first_change};
use super::modelled::{mirrored, upgraded};
use crate::{
    cluster::Cluster,
    kubelet::StepResult,
    manifest::{package, skyhook},
    model::{self, PREFIX},
    rollout::pods,
    view::entry,
};

const DRIVER: &str = "driver|2.0.1";
const SKYHOOK: &str = "/apis/skyhook.nvidia.com/v1alpha1/skyhooks/gpu";

/// SKY604 while the custom resource is paused, SKY703 once a Job is started beside such a pod.
pub fn pods_of_the_older_operator(cluster: &Cluster) {
    cluster.result(pods("driver", "apply").on("node-3"), StepResult::Hang);
    let gpu = skyhook("gpu").with(package("driver", "2.0.1"));
    let rollout = cluster.apply(&gpu);
    rollout
        .until(entry("node-1", DRIVER, "config", "complete"))
        .until(entry("node-2", DRIVER, "config", "complete"))
        .until(entry("node-3", DRIVER, "apply", "in_progress"));
    upgraded(cluster);
    model::make_namespace(&cluster.api).expect("a namespace can be created");
    // So that the newer operator does not wait for it.
    let finished = json!({"status": {"status": "complete"}});
    let merged = cluster.api.merge(&format!("{SKYHOOK}/status"), &finished);
    merged.expect("a Skyhook has a status");
    let mut new = mirrored(cluster, &gpu, 1);
    for node in ["node-1", "node-2"] {
        new.on(node, DRIVER, Some(("config", "complete")), "complete");
    }
    let pause = |value| json!({"metadata": {"annotations": {format!("{PREFIX}/pause"): value}}});
    new.edit(&pause(json!("true")));
    new.on("node-3", DRIVER, Some(("apply", "in_progress")), "paused");
    new.status("paused", &[]);
    let report = cluster.report(&[]);
    report.has("SKY604", &json!({"name": "gpu"}));
    assert!(report.with_code("SKY703").is_empty(), "{:#}", report.json);
    cluster.captured("new-old-pods-under-a-pause");

    new.edit(&pause(json!(null)));
    let job = new.begins("node-3", DRIVER, "apply");
    new.await_job(&job, "is active", |status| status["active"] == 1);
    new.status("in_progress", &[]);
    let report = cluster.report(&[]);
    assert!(report.with_code("SKY604").is_empty(), "{:#}", report.json);
    let finding = report.has("SKY703", &json!({"node": "node-3", "package": "driver"}));
    assert_eq!(finding["severity"], "error");
    cluster.captured("new-old-pods-beside-a-job");
    let argv = first_change(finding);
    assert_eq!(argv[..3], ["kubectl", "delete", "pod"]);
    execute(&cluster.rollout("gpu"), finding, &argv);
    cluster.heal();
    new.await_job(&job, "succeeds", |status| status["succeeded"] == 1);
    new.record(&job, 3600);
    new.on("node-3", DRIVER, Some(("apply", "complete")), "in_progress");
    new.runs("node-3", DRIVER, "config", "complete");
    new.status("complete", &[]);
    all_well(cluster);
}
