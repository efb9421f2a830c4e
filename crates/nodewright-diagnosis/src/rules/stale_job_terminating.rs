use jiff::{SignedDuration, Timestamp};

use super::support::evidence::due_entry;
use super::{Blocks, Findings, Grade, Subject};
use crate::api::Executor;
use crate::cluster::{Cluster, PackageRun, Pod};

rule! {
    /// A deleted Job that does not terminate stops its stage, or the operator.
    ///
    /// # What it means
    ///
    /// The stage cannot start again while its deleted Job is still there. If the node state or the spec no
    /// longer needs the Job, such as after a reset or a rerun, the operator also ends each reconcile when it
    /// reaches that Job. Then no custom resource makes progress: nothing is started, a resume has no effect,
    /// Jobs stay suspended, and statuses are not updated. A Job that someone deleted while its stage is still
    /// due only stops that stage.
    ///
    /// # What causes it
    ///
    /// A stage was reset, rerun or canceled while it ran, or its Job was deleted by hand. The Job is removed
    /// only after its pods, and these have their grace period to terminate. A pod whose container cannot be
    /// killed, whose node is gone, or that has a finalizer does not terminate, and neither does a Job with a
    /// finalizer.
    ///
    /// # How to confirm
    ///
    /// A Job of a package has a deletion timestamp, and a pod of it is still there.
    ///
    /// # How to fix
    ///
    /// Wait until the grace period is over. After that, fix what keeps the pod from terminating, or
    /// force-delete it.
    ///
    /// # Affected versions
    ///
    /// Operators v0.18.0 and later.
    ///
    /// # Severity
    ///
    /// A warning during the grace period of the pods.
    SKY217 "stale-job-terminating" Error needs Jobs Pods,
        blocks Install Uninstall Reconcile, retried true
}

/// Time allowed for the removal of the Job after the deletion deadline of its pods.
const SLACK: SignedDuration = SignedDuration::from_secs(15);
/// Time allowed for the removal of a Job without visible pods.
const UNSEEN: SignedDuration = SignedDuration::from_secs(30);

fn detect(cluster: &Cluster, findings: &mut Findings) {
    if cluster.flavor().executor() != Executor::Job {
        return;
    }
    for package_run in findings.package_runs().all() {
        let job = package_run.job.filter(|j| j.metadata.deleting());
        let Some((job, deleted)) = job.zip(job.and_then(|j| j.metadata.deletion_timestamp)) else {
            continue;
        };
        let left: Vec<&Pod> = package_run.pods.iter().copied().filter(|p| !p.ended()).collect();
        let overdue = due(deleted, &left).is_ok_and(|at| cluster.taken_at >= at);
        // A Job without pods is removed almost immediately.
        if left.is_empty() && !overdue {
            continue;
        }
        // Only the node state shows whether the stage is still due.
        let read = cluster.node(package_run.node).is_some();
        let stale = package_run.invalidated || read && due_entry(cluster, package_run).is_none();
        // The operator deletes Jobs in the course of its work, and their pods end within seconds.
        let ends_passes = overdue || cluster.is_late(Some(deleted));
        let message = message(package_run, overdue, stale && ends_passes);
        let finding = findings.report(Subject::package_run(package_run), message);
        if !stale || !ends_passes {
            finding.blocks_only(&[Blocks::Install, Blocks::Uninstall]);
        }
        finding.warning_if(!overdue).since(Some(deleted)).evidence(package_run, "deletionTimestamp", deleted);
        finding.finalizers(package_run, &job.metadata);
        for pod in &left {
            let at = pod.metadata.deletion_timestamp;
            let at = at.map_or("none".to_owned(), |at| at.to_string());
            finding.evidence(pod, "deletionTimestamp", at);
        }
        let Some(pod) = left.first() else {
            finding.describe_job("See why the job is not removed", job);
            if !job.metadata.finalizers.is_empty() {
                let namespace = job.metadata.namespace.as_deref().unwrap_or_default();
                finding
                    .kubectl(
                        Grade::B1,
                        "Remove the job's finalizers if their owner no longer exists",
                        ["edit", "job", "-n", namespace, &job.metadata.name],
                    )
                    .caveat("any cleanup that the finalizers wait for is then skipped");
            }
            continue;
        };
        finding.describe_pod("See why the pod is stuck terminating", pod);
        if overdue {
            finding
                .force_delete(Grade::B2, "Force-delete the pod", pod)
                .caveat("if its container is still running, the script may run alongside its replacement");
        }
    }
}

/// The time at which the pods and the Job should be removed.
fn due(deleted: Timestamp, left: &[&Pod]) -> Result<Timestamp, jiff::Error> {
    match left.iter().filter_map(|p| p.metadata.deletion_timestamp).max() {
        Some(at) => at.max(deleted).checked_add(SLACK),
        None => deleted.checked_add(UNSEEN),
    }
}

/// The message. `stale`: the operator no longer needs the Job, and ends its reconcile while the Job exists.
fn message(package_run: &PackageRun<'_>, overdue: bool, stale: bool) -> String {
    let what = format!("the deleted job for stage {} of package {}", package_run.stage, package_run.package);
    let then = if stale {
        "the operator does nothing for any custom resource"
    } else {
        "the stage does not start again"
    };
    if overdue {
        format!("{what} does not terminate, and until it does, {then}")
    } else {
        format!("{what} waits for its pod to end; until then {then}")
    }
}
