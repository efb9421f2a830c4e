use super::job_suspended_by_others::Suspensions;
use super::{ENDED_RECONCILE, Findings, Severity, Subject};
use crate::api::Status;
use crate::cluster::Cluster;

rule! {
    /// A Job is still suspended although the pause has ended.
    ///
    /// # What it means
    ///
    /// Pausing suspends the unfinished Jobs of a custom resource, and resuming continues them. This Job was
    /// not resumed, and because it is unfinished, it prevents the operator from creating another.
    ///
    /// # What causes it
    ///
    /// The custom resource was paused and disabled, and then only the pause was lifted: the Jobs of a
    /// disabled custom resource are not resumed. Or the operator was not running when the custom resource was
    /// resumed.
    ///
    /// # How to confirm
    ///
    /// `spec.suspend: true` on an unfinished Job, and no pause annotation on the custom resource.
    ///
    /// # How to fix
    ///
    /// Resume and enable the custom resource. If it is neither paused nor disabled, pause and resume it.
    ///
    /// # Affected versions
    ///
    /// Operators that run Jobs (v0.18.0; upstream issues 351 and 422).
    SKY208 "job-suspended-after-pause" Error needs Skyhooks Jobs,
        blocks Install Uninstall
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let package_runs = findings.package_runs();
    for package_run in package_runs.all().iter().filter(|run| run.alive()) {
        let Some(job) = package_run.job.filter(|j| j.spec.suspend) else {
            continue;
        };
        let Some(skyhook) = cluster.skyhook(&package_run.skyhook) else {
            continue;
        };
        // SKY230 reports suspensions by other clients.
        if Suspensions::of(cluster, package_run).is_some() {
            continue;
        }
        // The operator's status remains paused until its next reconcile.
        let suspended = job.status.conditions.iter().find(|c| c.kind == "Suspended");
        let since = suspended.and_then(|c| c.last_transition_time);
        let rests = skyhook.status.status == Some(Status::Paused);
        let written = skyhook.metadata.managed_fields.iter().filter_map(|m| m.time).max();
        if skyhook.paused() || rests && (!cluster.is_stale(since) || cluster.is_recent(written)) {
            continue;
        }
        let disabled = skyhook.disabled();
        let finding = findings.report(
            Subject::package_run(package_run),
            if disabled {
                format!(
                    "the job for stage {} of package {} stays suspended: {skyhook} is disabled, which \
                     prevents the job from being resumed",
                    package_run.stage, package_run.package
                )
            } else {
                format!(
                    "the job for stage {} of package {} is still suspended, although {skyhook} is not paused",
                    package_run.stage, package_run.package
                )
            },
        );
        finding.since(since).evidence(package_run, "spec.suspend", "true").evidence(skyhook, "paused", "no");
        if disabled {
            finding
                .severity(Severity::Warning)
                .effect_of(&["SKY309"])
                .evidence(skyhook, "disabled", "yes")
                .remedy("Enable the custom resource", ["enable", skyhook.name()])
                .caveat("all of its work continues");
        } else {
            if rests && written.is_none() {
                // The time of the resume is unknown.
                finding.severity(Severity::Warning);
            }
            // The operator does not reach the Job while its reconcile ends early.
            finding
                .effect_of(&[ENDED_RECONCILE])
                .remedy("Pause the custom resource again", ["pause", skyhook.name()])
                .caveat("running jobs of the custom resource are stopped, and start again after the resume")
                .remedy("Then resume the custom resource", ["resume", skyhook.name()])
                .caveat("all of its work continues")
                // The resume has no effect alone: it must follow the pause.
                .by_choice();
        }
    }
}
