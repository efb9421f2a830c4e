//! The newer API, simulated by `model`: Jobs that have failed permanently or cannot start. The first remedy
//! that writes is run as printed.

use serde_json::{Value, json};

use super::fixtures::no_room_for_pods;
use super::remedies::{all_well, execute, first_change};
use crate::{
    cluster::Cluster,
    kubelet::{StepResult, logs::FAILURE},
    manifest::{package, skyhook},
    model::{PREFIX, Played},
    ours::Report,
    rollout::pods,
};

const DRIVER: &str = "driver|2.0.1";

/// A custom resource with a budget of one node.
fn played(cluster: &Cluster) -> Played<'_> {
    let gpu = skyhook("gpu").with(package("driver", "2.0.1")).set("interruptionBudget", json!({"count": 1}));
    Played::new(cluster, "gpu", &gpu.spec, &json!({})).first_reconcile()
}

/// Lets the Job of node-1 fail permanently with this result, and records that as the operator does; returns
/// the Job's name.
fn given_up(cluster: &Cluster, gpu: &mut Played<'_>, result: StepResult) -> String {
    cluster.result(pods("driver", "apply").on("node-1"), result);
    let job = gpu.begins("node-1", DRIVER, "apply");
    gpu.batch(&json!({"currentBatch": 1, "lastBatchSize": 1}), &["node-1"]);
    gpu.await_job(&job, "has failed once", |status| status["failed"] == 1);
    gpu.on("node-1", DRIVER, Some(("apply", "erroring")), "in_progress");
    gpu.await_job(&job, "is given up", |status| {
        let mut conditions = status["conditions"].as_array().into_iter().flatten();
        conditions.any(|c| c["type"] == "Failed" && c["status"] == "True")
    });
    gpu.record(&job, 86400);
    gpu.on("node-1", DRIVER, Some(("apply", "erroring")), "erroring");
    gpu.status("erroring", &[]);
    job
}

/// The code of the only cause, and the codes of the findings that it explains.
#[track_caller]
fn only_cause(report: &Report) -> (String, Vec<String>) {
    let causes = report.json["causes"].as_array().expect("causes");
    let [cause] = causes.as_slice() else {
        panic!("not exactly one cause: {:#}", report.json);
    };
    let code = |place: &Value| {
        let place = place.as_u64().expect("a place") as usize;
        report.findings()[place]["code"].as_str().expect("a code").to_owned()
    };
    let explains = cause["explains"].as_array().expect("a list").iter().map(code);
    (cause["code"].as_str().expect("a code").to_owned(), explains.collect())
}

/// Completes the rollout, from the failed stage on.
fn goes_on(cluster: &Cluster, mut gpu: Played<'_>) {
    gpu.installs("node-1", DRIVER);
    gpu.batch(&json!({"currentBatch": 2, "lastBatchSize": 1}), &[]);
    for node in ["node-2", "node-3"] {
        gpu.installs(node, DRIVER);
    }
    gpu.status("complete", &[]);
    all_well(cluster);
}

/// Runs the first remedy that writes: it deletes the Job, and the rollout completes.
#[track_caller]
fn retried(cluster: &Cluster, gpu: Played<'_>, job: &str, finding: &Value) {
    let argv = first_change(finding);
    assert_eq!(argv[2..4], ["package", "retry"]);
    cluster.heal();
    execute(&cluster.rollout("gpu"), finding, &argv);
    cluster.await_that("the Job is gone", || !gpu.has_job(job));
    goes_on(cluster, gpu);
}

/// SKY201, which explains the blocked batch (SKY305).
pub fn job_failed(cluster: &Cluster) {
    let mut gpu = played(cluster);
    let job = given_up(cluster, &mut gpu, StepResult::Exit(1));
    cluster.capture("new-batch-held-by-a-failed-node");
    let report = cluster.report(&[]);
    assert_eq!(only_cause(&report), ("SKY201".to_owned(), vec!["SKY305".to_owned()]));
    let finding = report.has("SKY201", &json!({"node": "node-1", "package": "driver"}));
    retried(cluster, gpu, &job, finding);
}

/// SKY201, with a timeout of the stage at each attempt.
pub fn stage_timed_out(cluster: &Cluster) {
    let mut gpu = played(cluster);
    let job = given_up(cluster, &mut gpu, StepResult::TimesOut);
    cluster.capture("new-stage-timed-out");
    let report = cluster.report(&[]);
    let (code, _) = only_cause(&report);
    assert_eq!(code, "SKY201");
    let finding = report.has("SKY201", &json!({"node": "node-1", "package": "driver"}));
    let says = finding.to_string();
    assert!(says.contains("DeadlineExceeded"), "{finding:#}");
    retried(cluster, gpu, &job, finding);
}

/// SKY216: the Job failed permanently, but the node state does not record it.
pub fn failure_not_recorded(cluster: &Cluster) {
    let mut gpu = played(cluster);
    let job = given_up(cluster, &mut gpu, StepResult::Exit(1));
    gpu.on("node-1", DRIVER, Some(("apply", "in_progress")), "erroring");
    cluster.capture("new-failure-not-recorded");
    let report = cluster.report(&[]);
    let (code, _) = only_cause(&report);
    assert_eq!(code, "SKY216");
    let finding = report.has("SKY216", &json!({"node": "node-1"}));
    retried(cluster, gpu, &job, finding);
}

/// SKY218: a pause has turned the failed node's status into `waiting`, so it is chosen for every batch.
pub fn batch_held_by_a_failed_node(cluster: &Cluster) {
    let mut gpu = played(cluster);
    let job = given_up(cluster, &mut gpu, StepResult::Exit(1));
    let pause = format!("{PREFIX}/pause");
    gpu.edit(&json!({"metadata": {"annotations": {&pause: "true"}}}));
    gpu.on("node-1", DRIVER, Some(("apply", "erroring")), "paused");
    gpu.status("paused", &[]);
    gpu.edit(&json!({"metadata": {"annotations": {&pause: null}}}));
    gpu.on("node-1", DRIVER, Some(("apply", "erroring")), "waiting");
    gpu.status("waiting", &[]);
    gpu.batch(&json!({"currentBatch": 2, "lastBatchSize": 1}), &["node-1"]);
    cluster.capture("new-batch-held-by-a-parked-node");
    let report = cluster.report(&[]);
    let effects = ["SKY218", "SKY305"].map(str::to_owned);
    assert_eq!(only_cause(&report), ("SKY201".to_owned(), effects.to_vec()));
    let finding = report.has("SKY218", &json!({"node": "node-1", "package": "driver"}));
    retried(cluster, gpu, &job, finding);
}

/// SKY220: a quota allows no pod; the Job continues when the quota is deleted.
pub fn job_without_pod(cluster: &Cluster) {
    let path = no_room_for_pods(cluster, "nodewright");
    let mut gpu = played(cluster);
    let job = gpu.begins("node-1", DRIVER, "apply");
    gpu.status("in_progress", &[]);
    cluster.await_that("its pod is refused", || {
        let events = cluster.api.items("/api/v1/namespaces/nodewright/events");
        let mut events = events.into_iter().flatten();
        events.any(|e| e["reason"] == "FailedCreate" && e["involvedObject"]["name"] == job.as_str())
    });
    let report = cluster.report(&[]);
    report.has("SKY220", &json!({"node": "node-1", "package": "driver"}));
    assert!(gpu.pods(&job).is_empty());
    cluster.capture("new-job-without-pod");
    cluster.api.delete(&path, &json!({})).expect("a quota can be deleted");
    gpu.await_job(&job, "succeeds", |status| status["succeeded"] == 1);
    gpu.record(&job, 3600);
    gpu.on("node-1", DRIVER, Some(("apply", "complete")), "in_progress");
    gpu.runs("node-1", DRIVER, "config", "complete");
    for node in ["node-2", "node-3"] {
        gpu.installs(node, DRIVER);
    }
    gpu.status("complete", &[]);
    all_well(cluster);
}

/// SKY201: the interrupt fails until the operator ends its Job, and the node stays cordoned.
pub fn interrupt_over_its_restart_limit(cluster: &Cluster) {
    let spec = skyhook("gpu").with(package("driver", "2.0.1").interrupts("service"));
    let mut gpu = Played::new(cluster, "gpu", &spec.spec, &json!({})).first_reconcile();
    gpu.cordoned("node-1");
    for stage in ["apply", "config"] {
        gpu.runs("node-1", DRIVER, stage, "in_progress");
    }
    let interrupt = pods("driver", "interrupt");
    cluster.result(interrupt.on("node-1"), StepResult::Exit(1));
    let job = gpu.begins("node-1", DRIVER, "interrupt");
    cluster.await_that("its container is started again", || {
        let pods = gpu.pods(&job);
        let status = pods.first().map(|pod| &pod["status"]);
        status.is_some_and(|s| s["initContainerStatuses"][0]["restartCount"] == 2)
    });
    let erroring = Some(("interrupt", "erroring"));
    gpu.on("node-1", DRIVER, erroring, "in_progress");
    gpu.status("in_progress", &[]);
    gpu.end_at_restart_limit(&job, &format!("interrupt:\n{FAILURE}\n"));
    gpu.await_job(&job, "is given up", |status| {
        let mut conditions = status["conditions"].as_array().into_iter().flatten();
        conditions.any(|c| c["type"] == "Failed" && c["status"] == "True")
    });
    gpu.record(&job, 86400);
    gpu.on("node-1", DRIVER, erroring, "erroring");
    gpu.status("erroring", &[]);
    cluster.capture("new-interrupt-over-its-restart-limit");
    let report = cluster.report(&[]);
    let (code, _) = only_cause(&report);
    assert_eq!(code, "SKY201");
    let finding = report.has("SKY201", &json!({"node": "node-1", "package": "driver"}));
    let says = finding["message"].to_string();
    assert!(says.contains("ended the job at the restart limit"), "{finding:#}");
    let argv = first_change(finding);
    assert_eq!(argv[2..4], ["package", "retry"]);
    cluster.heal();
    execute(&cluster.rollout("gpu"), finding, &argv);
    cluster.await_that("the Job is gone", || !gpu.has_job(&job));
    gpu.runs("node-1", DRIVER, "interrupt", "in_progress");
    let done = Some(("post-interrupt", "complete"));
    gpu.given_back("node-1");
    gpu.on("node-1", DRIVER, done, "complete");
    for node in ["node-2", "node-3"] {
        gpu.installs_and_interrupts(node, DRIVER);
    }
    gpu.status("complete", &[]);
    all_well(cluster);
}
