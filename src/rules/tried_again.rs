//! What has failed and is tried again: by the kubelet, or by a Job, seen or not.

use jiff::Timestamp;

use crate::api::{Executor, Status};
use crate::cluster::pod::{Pod, Terminated};
use crate::cluster::{Certainty, Cluster, NodeRecord, PackageRun};

/// Whether a script has failed for the very first time, not long ago, and is tried again.
pub fn tried_once(cluster: &Cluster, package_run: Option<&PackageRun<'_>>) -> bool {
    let Some(package_run) = package_run else {
        return false;
    };
    if package_run.job_unseen {
        return made_meanwhile(cluster, package_run);
    }
    young_pod(cluster, package_run).is_some_and(|pod| package_run.alive() && started_again(pod))
}

/// Whether all scripts of a young bare pod have ended well since the node was read, or before the operator noted it. The
/// older operator deletes such a pod once it has.
pub fn succeeded_since(cluster: &Cluster, package_run: Option<&PackageRun<'_>>) -> bool {
    let ended_well = |e: &Terminated| e.exit_code == 0;
    let pod = package_run.and_then(|run| young_pod(cluster, run));
    pod.is_some_and(|pod| {
        let mut containers = pod.status.init_container_statuses.iter();
        containers.len() > 0
            && containers.all(|c| c.state.terminated.as_ref().is_some_and(ended_well))
    })
}

/// The only pod of a run without a Job, where it was made not long ago.
fn young_pod<'a>(cluster: &Cluster, package_run: &PackageRun<'a>) -> Option<&'a Pod> {
    let [pod] = package_run.pods.as_slice() else {
        return None;
    };
    let created = pod.metadata.creation_timestamp;
    let young = created.is_some() && !cluster.is_stale(created);
    (young && package_run.bare()).then_some(*pod)
}

/// Whether all Jobs were read, and not the one of these pods: it was made since, and what an earlier one left on the node
/// says nothing of it.
pub fn made_meanwhile(cluster: &Cluster, package_run: &PackageRun<'_>) -> bool {
    let mut created = package_run
        .pods
        .iter()
        .map(|p| p.metadata.creation_timestamp);
    let young = |at: Option<Timestamp>| at.is_some() && !cluster.is_stale(at);
    package_run.job_unseen && cluster.jobs.absence() == Certainty::Proven && created.all(young)
}

/// Whether the newer operator itself does not call the node erroring yet: then its Job tries again.
///
/// It says so on the node once the Job has given up, whether we see the Job or not. A node with a failure that it calls
/// waiting is one that it has passed over.
pub fn operator_retries(
    cluster: &Cluster,
    package_run: Option<&PackageRun<'_>>,
    on: &NodeRecord,
) -> bool {
    let may_come = |e: &PackageRun<'_>| {
        let waits = on.status == Some(Status::Waiting);
        let unseen = e.job_unseen && !waits && !cluster.is_stale(e.created());
        // It has passed, and the operator has yet to note it.
        let passed = e
            .job
            .filter(|j| j.status.succeeded > 0 && j.failed().is_none());
        unseen || passed.is_some_and(|j| !cluster.is_stale(j.status.completion_time))
    };
    cluster.flavor().executor() == Executor::Job
        && on.status != Some(Status::Erroring)
        && package_run.is_none_or(|e| e.alive() || may_come(e))
}

/// Whether the kubelet has only just started a bare pod's script again, or is about to, after the very first failure:
/// the older operator calls the node erroring at once, and the second attempt may succeed.
fn started_again(pod: &Pod) -> bool {
    let failed = |ended: &Option<Terminated>| ended.as_ref().is_some_and(|e| e.exit_code != 0);
    let mut worst = 0;
    for c in &pod.status.init_container_statuses {
        let once = match c.restart_count {
            0 => failed(&c.state.terminated),
            // It runs, or has passed and the operator has yet to see it.
            1 => {
                let fails = c.state.waiting.is_some() || failed(&c.state.terminated);
                failed(&c.last_state.terminated) && !fails
            }
            _ => false,
        };
        let well = c.restart_count == 0
            || c.state
                .terminated
                .as_ref()
                .is_some_and(|e| e.exit_code == 0);
        worst = worst.max(match (once, well) {
            (true, _) => 1,
            (false, true) => 0,
            (false, false) => 2,
        });
    }
    worst == 1
}
