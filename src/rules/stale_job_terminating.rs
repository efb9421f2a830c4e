use jiff::{SignedDuration, Timestamp};

use super::{Findings, Grade, Subject};
use crate::api::Executor;
use crate::cluster::{Cluster, PackageRun, Pod};

rule! {
    /// A deleted Job that does not terminate stops the operator.
    ///
    /// # What it means
    ///
    /// While a Job that the operator or a user has deleted is still there, each pass of the operator
    /// ends when it reaches that Job. No custom resource makes progress: nothing is started, a
    /// resume has no effect, Jobs stay suspended, and statuses are not updated.
    ///
    /// # What causes it
    ///
    /// A stage was reset, rerun or canceled while it ran. Its Job is removed only after its pods, and
    /// these have their grace period to terminate. A pod whose container cannot be killed, whose node is
    /// gone, or that has a finalizer does not terminate.
    ///
    /// # How to confirm
    ///
    /// A Job of a package has a deletion timestamp, and a pod of it is still there.
    ///
    /// # How to fix
    ///
    /// Wait until the grace period is over. After that, fix what keeps the pod from terminating, or force-delete it.
    ///
    /// # Since
    ///
    /// Operators v0.18.0 and later. It is a warning during the grace period of the pods.
    SKY217 "stale-job-terminating" Error needs Jobs Pods,
        blocks Install Uninstall Reconcile, retried true
}

/// How long after their time pods may take to go, and the Job with them.
const SLACK: SignedDuration = SignedDuration::from_secs(15);
/// How long a Job without pods that we see takes to go.
const UNSEEN: SignedDuration = SignedDuration::from_secs(30);

fn detect(cluster: &Cluster, findings: &mut Findings) {
    if cluster.flavor().executor() != Executor::Job {
        return;
    }
    for package_run in cluster.package_runs().all() {
        let job = package_run.job.filter(|j| j.metadata.deleting());
        let Some((job, deleted)) = job.zip(job.and_then(|j| j.metadata.deletion_timestamp)) else {
            continue;
        };
        let left: Vec<&Pod> = package_run
            .pods
            .iter()
            .copied()
            .filter(|p| !p.ended())
            .collect();
        let overdue = due(deleted, &left).is_ok_and(|at| cluster.taken_at >= at);
        // Without pods it goes in a moment.
        if left.is_empty() && !overdue {
            continue;
        }
        let finding = findings.report(
            Subject::package_run(package_run),
            message(package_run, overdue),
        );
        finding.warning_if(!overdue).since(Some(deleted)).evidence(
            package_run,
            "deletionTimestamp",
            deleted,
        );
        finding.finalizers(package_run.reference(), &job.metadata);
        for pod in &left {
            let at = pod.metadata.deletion_timestamp;
            let at = at.map_or("none".to_owned(), |at| at.to_string());
            finding.evidence(pod, "deletionTimestamp", at);
        }
        let Some(pod) = left.first() else {
            finding.describe_job("See why the job is not removed", job);
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

/// When the pods should be gone, and the Job with them.
fn due(deleted: Timestamp, left: &[&Pod]) -> Result<Timestamp, jiff::Error> {
    match left
        .iter()
        .filter_map(|p| p.metadata.deletion_timestamp)
        .max()
    {
        Some(at) => at.max(deleted).checked_add(SLACK),
        None => deleted.checked_add(UNSEEN),
    }
}

fn message(package_run: &PackageRun<'_>, overdue: bool) -> String {
    let what = format!(
        "the deleted job for stage {} of package {}",
        package_run.stage, package_run.package
    );
    if overdue {
        format!(
            "{what} does not terminate, and until it does, the operator does nothing for any custom resource"
        )
    } else {
        format!(
            "{what} waits for its pod to end; until then the operator does nothing for any custom resource"
        )
    }
}
