//! Whether a failed stage is still retried, by the kubelet or by a Job.

use crate::api::{Entry, Executor, Status};
use crate::cluster::pod::{Pod, Terminated};
use crate::cluster::{Certainty, Cluster, Job, NodeRecord, PackageRun};

/// Why a recent first failure needs no action yet; `None` if it does.
///
/// Nodes and pods are listed separately: a pod may have been read before it failed, or after it succeeded.
pub fn retry_reason(cluster: &Cluster, package_run: Option<&PackageRun<'_>>) -> Option<&'static str> {
    let package_run = package_run?;
    if package_run.job_unseen {
        return created_during_read(cluster, package_run).then_some("the stage is being retried");
    }
    let pod = young_pod(cluster, package_run)?;
    if succeeded(pod) {
        return Some("its pod has since succeeded");
    }
    if !package_run.alive() {
        return None;
    }
    match failure_count(pod) {
        FailureCount::Zero => Some("the stage is being retried"),
        FailureCount::One => Some("the stage is being retried after its first failure"),
        FailureCount::Many => None,
    }
}

/// Whether all scripts of a pod have succeeded. The older operator deletes the pod once it has recorded this.
pub fn succeeded(pod: &Pod) -> bool {
    let ended_well = |e: &Terminated| e.exit_code == 0;
    let mut containers = pod.status.init_container_statuses.iter();
    containers.len() > 0 && containers.all(|c| c.state.terminated.as_ref().is_some_and(ended_well))
}

/// The only pod of a run without a Job, if it was created recently.
fn young_pod<'a>(cluster: &Cluster, package_run: &PackageRun<'a>) -> Option<&'a Pod> {
    let [pod] = package_run.pods.as_slice() else {
        return None;
    };
    let young = cluster.is_recent(pod.metadata.creation_timestamp);
    (young && package_run.bare()).then_some(*pod)
}

/// Whether all Jobs were read except the Job of these pods: that Job is newer than the read, so the node state may be
/// about an earlier Job.
pub fn created_during_read(cluster: &Cluster, package_run: &PackageRun<'_>) -> bool {
    let mut created = package_run.pods.iter().map(|p| p.metadata.creation_timestamp);
    package_run.job_unseen
        && cluster.jobs.absence() == Certainty::Proven
        && created.all(|at| cluster.is_recent(at))
}

/// Whether a Job of the newer operator is still retried: it has not failed, or the node is not erroring yet.
///
/// The operator sets the node to erroring once the Job has failed permanently, even if the Job was not read. A
/// waiting node with a failure is not retried: the operator passes it over.
pub fn operator_retries(cluster: &Cluster, package_run: Option<&PackageRun<'_>>, on: &NodeRecord) -> bool {
    let result_pending = |run: &PackageRun<'_>| {
        let waits = on.status == Some(Status::Waiting);
        let unseen = run.job_unseen && !waits && !cluster.is_stale(run.created());
        // The Job has succeeded, but the operator has not recorded the result yet.
        let passed = run.job.filter(|j| j.status.succeeded > 0 && j.failed().is_none());
        unseen || passed.is_some_and(|j| !cluster.is_stale(j.status.completion_time))
    };
    // A running Job counts even on an erroring node: before v0.20 the operator sets the node to erroring at the first
    // failed attempt, and any version does so for another package.
    let is_running = |run: &PackageRun<'_>| run.alive() && run.job.is_some_and(|j| j.failed().is_none());
    cluster.flavor().executor() == Executor::Job
        && (package_run.is_some_and(is_running)
            || on.status != Some(Status::Erroring)
                && package_run.is_none_or(|run| run.alive() || result_pending(run)))
}

/// Whether a container that is restarted in place has failed more often than a Job with new pods would allow.
pub fn exceeds_usual_attempts(
    cluster: &Cluster,
    entry: &Entry,
    package_run: Option<&PackageRun<'_>>,
) -> bool {
    const ATTEMPTS: i64 = 4;
    package_run.is_some_and(|run| {
        run.job.is_some_and(Job::restarts_in_place) && run.failed_attempts(cluster.flavor(), entry) > ATTEMPTS
    })
}

/// Visible number of failed runs of a bare pod's scripts.
enum FailureCount {
    Zero,
    /// The kubelet has restarted the script, or is about to. The older operator sets the node to erroring at once,
    /// although the second attempt may succeed.
    One,
    Many,
}

fn failure_count(pod: &Pod) -> FailureCount {
    let failed = |ended: &Option<Terminated>| ended.as_ref().is_some_and(|e| e.exit_code != 0);
    let mut worst = FailureCount::Zero;
    for c in &pod.status.init_container_statuses {
        let failed_once = match c.restart_count {
            0 => failed(&c.state.terminated),
            // The script runs again, or has succeeded and the operator has not seen that yet.
            1 => {
                let fails = c.state.waiting.is_some() || failed(&c.state.terminated);
                failed(&c.last_state.terminated) && !fails
            }
            _ => false,
        };
        let recovered = c.restart_count == 0 || c.state.terminated.as_ref().is_some_and(|e| e.exit_code == 0);
        worst = match (failed_once, recovered, worst) {
            (true, _, FailureCount::Zero | FailureCount::One) => FailureCount::One,
            (false, true, worst) => worst,
            _ => FailureCount::Many,
        };
    }
    worst
}
