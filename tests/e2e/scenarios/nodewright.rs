//! The newer API, simulated by `model`: how our binary reads NodeWrights and Jobs.

use serde_json::{Value, json};

use super::{
    fixtures::guarded_workload,
    remedies::{execute, first_change},
};

use crate::{
    cluster::Cluster,
    kubelet::StepResult,
    manifest::{Skyhook, package, skyhook},
    model::{self, PREFIX, Played, RefusedBy},
    operator,
    rollout::pods,
    view::{complete, entry, status},
};

const DRIVER: &str = "driver|2.0.1";

fn spec() -> Value {
    skyhook("gpu").with(package("driver", "2.0.1").uninstallable()).spec
}

fn played(cluster: &Cluster) -> Played<'_> {
    Played::new(cluster, "gpu", &spec(), &json!({})).first_reconcile()
}

fn installed(cluster: &Cluster) -> Played<'_> {
    let mut gpu = played(cluster);
    for node in ["node-1", "node-2", "node-3"] {
        gpu.installs(node, DRIVER);
    }
    gpu.status("complete", &[]);
    gpu
}

fn diagnosed(cluster: &Cluster, code: &str, subject: &Value) {
    cluster.report(&[]).has(code, subject);
}

fn well(cluster: &Cluster) {
    let report = cluster.report(&[]);
    assert!(report.errors().is_empty(), "nothing is wrong here: {:#}", report.json);
}

pub fn rollout(cluster: &Cluster) {
    let mut gpu = played(cluster);
    gpu.installs("node-1", DRIVER);
    cluster.result(pods("driver", "apply"), StepResult::Hang);
    let job = gpu.begins("node-2", DRIVER, "apply");
    gpu.await_job(&job, "is active", |status| status["active"] == 1);
    gpu.status("in_progress", &[]);
    well(cluster);
    cluster.capture("new-in-progress");
    cluster.heal();
    gpu.await_job(&job, "succeeds", |status| status["succeeded"] == 1);
    gpu.record(&job, 3600);
    gpu.runs("node-2", DRIVER, "config", "complete");
    gpu.installs("node-3", DRIVER);
    gpu.status("complete", &[]);
    well(cluster);
    cluster.capture("new-complete");
}

/// The first attempt fails, and a second one follows: the entry is erroring, but the node is still in
/// progress.
pub fn attempt_and_job_failed(cluster: &Cluster) {
    let mut gpu = played(cluster);
    gpu.installs("node-1", DRIVER);
    cluster.result(pods("driver", "apply").on("node-2"), StepResult::Exit(1));
    let job = gpu.begins("node-2", DRIVER, "apply");
    gpu.await_job(&job, "has failed once", |status| status["failed"] == 1);
    gpu.on("node-2", DRIVER, Some(("apply", "erroring")), "in_progress");
    gpu.status("in_progress", &[]);
    cluster.capture("new-first-attempt-failed");

    let failed = |status: &Value| {
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|c| c["type"] == "Failed" && c["reason"] == "BackoffLimitExceeded")
    };
    gpu.await_job(&job, "is given up", failed);
    gpu.record(&job, 86400);
    gpu.on("node-2", DRIVER, Some(("apply", "erroring")), "erroring");
    gpu.status("erroring", &[]);
    assert_eq!(gpu.pods(&job).len(), 2, "both attempts are kept");
    diagnosed(cluster, "SKY201", &json!({"node": "node-2", "package": "driver"}));
    cluster.capture("new-job-given-up");

    gpu.delete();
    gpu.on("node-1", DRIVER, None, "in_progress");
    gpu.status("in_progress", &[]);
    diagnosed(cluster, "SKY101", &json!({"node": "node-2", "package": "driver"}));
    cluster.capture("new-deleted-while-erroring");
}

pub fn image_pull_failing(cluster: &Cluster) {
    let mut gpu = played(cluster);
    gpu.installs("node-1", DRIVER);
    cluster.result(pods("driver", "apply").on("node-2"), StepResult::PullFails);
    let job = gpu.begins("node-2", DRIVER, "apply");
    cluster.await_that("the pull backs off", || {
        gpu.pods(&job).iter().any(|pod| {
            pod["status"]["initContainerStatuses"][0]["state"]["waiting"]["reason"] == "ImagePullBackOff"
        })
    });
    gpu.status("in_progress", &[]);
    diagnosed(cluster, "SKY202", &json!({"node": "node-2", "package": "driver"}));
    cluster.capture("new-image-pull-failing");
}

pub fn uninstall(cluster: &Cluster) {
    let mut gpu = installed(cluster);
    gpu.edit(&json!({"spec": {"packages": {"driver": {"uninstall": {"apply": true}}}}}));
    gpu.runs("node-1", DRIVER, "uninstall", "in_progress");
    gpu.on("node-1", DRIVER, None, "complete");
    cluster.result(pods("driver", "uninstall").on("node-2"), StepResult::Hang);
    cluster.result(pods("driver", "uninstall").on("node-3"), StepResult::Exit(3));
    let jobs = ["node-2", "node-3"].map(|node| {
        gpu.on(node, DRIVER, Some(("uninstall", "in_progress")), "in_progress");
        gpu.job(node, DRIVER, "uninstall")
    });
    gpu.await_job(&jobs[0], "is active", |status| status["active"] == 1);
    gpu.status("in_progress", &[("UninstallInProgress", "UninstallInProgress")]);
    well(cluster);
    cluster.capture("new-uninstall-in-progress");

    gpu.await_job(&jobs[1], "is given up", |status| status["failed"] == 2);
    gpu.record(&jobs[1], 86400);
    gpu.on("node-3", DRIVER, Some(("uninstall", "erroring")), "erroring");
    let both = [("UninstallInProgress", "UninstallInProgress"), ("UninstallFailed", "UninstallPodFailing")];
    gpu.status("in_progress", &both);
    diagnosed(cluster, "SKY112", &json!({"node": "node-3", "package": "driver"}));
    cluster.capture("new-uninstall-failing");
}

pub fn uninstall_complete(cluster: &Cluster) {
    let mut gpu = installed(cluster);
    gpu.edit(&json!({"spec": {"packages": {"driver": {"uninstall": {"apply": true}}}}}));
    for node in ["node-1", "node-2", "node-3"] {
        gpu.runs(node, DRIVER, "uninstall", "in_progress");
        gpu.on(node, DRIVER, None, "complete");
    }
    gpu.status("complete", &[]);
    well(cluster);
    cluster.capture("new-uninstall-complete");
}

/// A pause suspends the Jobs, and their pods are deleted. SKY208: the custom resource is disabled during the
/// pause, so ending the pause does not resume them.
pub fn paused_with_suspended_jobs(cluster: &Cluster) {
    let mut gpu = played(cluster);
    gpu.installs("node-1", DRIVER);
    cluster.result(pods("driver", "apply"), StepResult::Hang);
    let job = gpu.begins("node-2", DRIVER, "apply");
    gpu.await_job(&job, "is active", |status| status["active"] == 1);
    let flag = |gpu: &Played<'_>, key: &str, value: Value| {
        gpu.edit(&json!({"metadata": {"annotations": {format!("{PREFIX}/{key}"): value}}}));
    };
    flag(&gpu, "pause", json!("true"));
    gpu.suspend(&job, true);
    cluster.await_that("its pod ends", || gpu.pods(&job).is_empty());
    gpu.on("node-2", DRIVER, Some(("apply", "in_progress")), "paused");
    gpu.status("paused", &[]);
    well(cluster);
    cluster.capture("new-paused-suspended-job");

    flag(&gpu, "disable", json!("true"));
    flag(&gpu, "pause", Value::Null);
    gpu.on("node-2", DRIVER, Some(("apply", "in_progress")), "disabled");
    gpu.status("disabled", &[]);
    cluster.capture("new-disabled-suspended-job");
    let report = cluster.report(&[]);
    let finding = report.has("SKY208", &json!({"node": "node-2", "package": "driver"}));
    let argv = first_change(finding);
    assert_eq!(argv[2..], ["enable", "gpu"]);
    execute(&cluster.rollout("gpu"), finding, &argv);
    gpu.suspend(&job, false);
    cluster.heal();
    gpu.await_job(&job, "succeeds", |status| status["succeeded"] == 1);
    gpu.record(&job, 3600);
    gpu.on("node-2", DRIVER, Some(("apply", "complete")), "in_progress");
    gpu.runs("node-2", DRIVER, "config", "complete");
    gpu.installs("node-3", DRIVER);
    gpu.status("complete", &[]);
    well(cluster);
}

/// SKY408: the operator has removed the runtime-required taint, but does not uncordon the node.
pub fn cordon_kept_after_taint_removal(cluster: &Cluster) {
    installed(cluster);
    let key = format!("{PREFIX}/runtimeRequiredCordon");
    cluster.patch_node(
        "node-1",
        json!({"metadata": {"annotations": {&key: "true"}}, "spec": {"unschedulable": true}}),
    );
    let report = cluster.report(&[]);
    let finding = report.has("SKY408", &json!({"name": "node-1"}));
    cluster.capture("new-cordon-left-to-others");
    execute(&cluster.rollout("gpu"), finding, &first_change(finding));
    let node = cluster.node("node-1");
    assert_eq!(node["spec"]["unschedulable"], Value::Null);
    assert_eq!(node["metadata"]["annotations"][&key], Value::Null);
    let report = cluster.report(&[]);
    assert!(report.findings().is_empty(), "{:#}", report.json);
}

pub fn drain_blocked_by_a_budget(cluster: &Cluster) {
    let _path = guarded_workload(cluster);
    let spec = skyhook("gpu").with(package("driver", "2.0.1").interrupts("service")).spec;
    let mut gpu = Played::new(cluster, "gpu", &spec, &json!({})).first_reconcile();
    gpu.on("node-1", DRIVER, Some(("post-interrupt", "complete")), "complete");
    gpu.drain_refused("node-2", "training", RefusedBy::Budget("training"));
    gpu.status("in_progress", &[("DrainBlocked", "PodDisruptionBudget")]);
    diagnosed(cluster, "SKY401", &json!({"node": "node-2"}));
    cluster.capture("new-drain-blocked");
}

/// SKY601: the older operator did not finish, so the newer one waits.
pub fn migration_hold(cluster: &Cluster) {
    cluster.result(pods("driver", "apply").on("node-3"), StepResult::Hang);
    let gpu = skyhook("gpu").with(package("driver", "2.0.1").uninstallable());
    let rollout = cluster.apply(&gpu);
    rollout.until(entry("node-1", "driver|2.0.1", "config", "complete")).until(status("in_progress"));
    upgraded(cluster);
    mirrored(cluster, &gpu, 1);
    diagnosed(cluster, "SKY601", &json!({"name": "gpu"}));
    cluster.capture("new-migration-hold");
}

/// The older operator had finished, and the newer one has taken over the nodes.
pub fn mirrored_and_complete(cluster: &Cluster) {
    let gpu = skyhook("gpu").with(package("driver", "2.0.1").uninstallable());
    cluster.apply(&gpu).until(complete());
    upgraded(cluster);
    let mut new = mirrored(cluster, &gpu, 1);
    for node in ["node-1", "node-2", "node-3"] {
        new.on(node, DRIVER, Some(("config", "complete")), "complete");
    }
    new.status("complete", &[]);
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    new.edit(&json!({"metadata": {"annotations": {format!("{PREFIX}/legacy-migrated-at"): now}}}));
    well(cluster);
    cluster.capture("new-mirrored-and-complete");
}

/// Simulates an upgrade of the chart: the older operator is stopped, the Deployment has the new version, and
/// both APIs are served.
pub fn upgraded(cluster: &Cluster) {
    cluster.stop_operator();
    model::install_crds(cluster.tools(), &cluster.api).expect("the CRDs are accepted");
    operator::announce_instead(&cluster.api, model::PLAYED, "ghcr.io/nvidia/nodewright/operator")
        .expect("a Deployment can be changed");
}

/// Creates the NodeWright that the mirror controller derives from a Skyhook.
pub fn mirrored<'a>(cluster: &'a Cluster, gpu: &Skyhook, generation: u32) -> Played<'a> {
    let stamps = json!({"annotations": {
        format!("{PREFIX}/mirrored-from"): gpu.name,
        format!("{PREFIX}/mirrored-generation"): generation.to_string(),
        format!("{PREFIX}/version"): "v0.17.0",
    }});
    Played::new(cluster, &gpu.name, &gpu.spec, &stamps)
}
