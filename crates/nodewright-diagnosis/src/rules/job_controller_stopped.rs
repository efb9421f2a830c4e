use jiff::Timestamp;

use super::{Finding, Findings, Grade, Subject};
use crate::cluster::pod::JOB_TRACKING;
use crate::cluster::{Cluster, Job, PackageRun, Pod};

rule! {
    /// The Job controller does not process the Jobs of packages.
    ///
    /// # What it means
    ///
    /// The Job controller of kube-controller-manager creates the pods of a Job and records their results. It no longer
    /// does: a Job gets no pod, or its pod has ended and the Job still counts it as active. The operator waits for
    /// the Job, so the stage never ends, although its script may have succeeded.
    ///
    /// # What causes it
    ///
    /// kube-controller-manager is not running, has no leader, or does not keep up. Or its permissions or a webhook
    /// keep it from removing the finalizer `batch.kubernetes.io/job-tracking` from pods.
    ///
    /// # How to confirm
    ///
    /// A pod has ended more than a minute ago, still has the finalizer, and is being deleted or belongs to an
    /// unfinished Job. Or a Job is more than a minute old and has neither a start time, nor pods, nor events.
    ///
    /// # How to fix
    ///
    /// Repair kube-controller-manager. The Job controller then records the ended pods, and the operator continues.
    ///
    /// # Affected versions
    ///
    /// Operators v0.18.0 and later, which run Jobs.
    SKY229 "job-controller-stopped" Error needs Jobs Pods, also Skyhooks Events,
        blocks Install Uninstall, retried true
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    for package_run in findings.package_runs().all() {
        let (stage, package) = (&package_run.stage, &package_run.package);
        let unfinished = package_run.job.is_some_and(|job| job.finished().is_none());
        let mut pods = package_run.pods.iter().copied();
        let kept = pods.find(|pod| {
            let tracked = pod.metadata.finalizers.iter().any(|finalizer| finalizer == JOB_TRACKING);
            tracked
                && pod.ended()
                && (unfinished || pod.metadata.deleting())
                && cluster.is_late(ended_at(pod))
        });
        if let Some(pod) = kept {
            let ended = ended_at(pod);
            let finding = findings.report(
                Subject::package_run(package_run),
                format!(
                    "the pod for stage {stage} of package {package} has ended, but the job controller has not recorded it"
                ),
            );
            finding.since(ended).evidence(pod, "status.phase", &pod.status.phase).evidence(
                pod,
                "finalizer",
                JOB_TRACKING,
            );
            if let Some(job) = package_run.job {
                finding.evidence(package_run, "status.active", job.status.active);
            }
            repair_controller(finding);
        } else if let Some(job) = package_run.job.filter(|job| is_untouched(cluster, package_run, job))
            && cluster.is_late(job.metadata.creation_timestamp)
        {
            let finding = findings.report(
                Subject::package_run(package_run),
                format!(
                    "the job controller has not processed the job for stage {stage} of package {package}"
                ),
            );
            finding
                .since(job.metadata.creation_timestamp)
                .evidence(package_run, "status.startTime", "absent")
                .evidence(package_run, "pods", "none");
            repair_controller(finding);
        }
    }
}

fn repair_controller(finding: &mut Finding) {
    finding.kubectl(
        Grade::B0,
        "See which kube-controller-manager holds the lease, and repair it: it runs the job controller",
        ["get", "lease", "-n", "kube-system", "kube-controller-manager", "-o", "yaml"],
    );
}

/// The time at which the last container of a pod ended, or else at which the pod was deleted or created.
pub(super) fn ended_at(pod: &Pod) -> Option<Timestamp> {
    let containers = pod.status.init_container_statuses.iter().chain(&pod.status.container_statuses);
    let ended = containers.filter_map(|container| container.state.terminated.as_ref()?.finished_at);
    ended.max().or(pod.metadata.deletion_timestamp).or(pod.metadata.creation_timestamp)
}

/// Whether the Job controller has never processed an active Job: it sets the start time first.
fn is_untouched(cluster: &Cluster, package_run: &PackageRun<'_>, job: &Job) -> bool {
    let status = &job.status;
    let events = cluster.events_about("Job", &job.metadata.name).next();
    let counted = status.active + status.succeeded + status.failed;
    status.start_time.is_none()
        && !job.spec.suspend
        && package_run.alive()
        && package_run.pods.is_empty()
        && counted == 0
        && status.conditions.is_empty()
        && events.is_none()
}
