use super::evidence::grade_of_going_on;
use super::{Findings, Grade, Severity, Subject};
use crate::api::Status;
use crate::cluster::Cluster;

rule! {
    /// A job is still suspended although the pause is over.
    ///
    /// # What it means
    ///
    /// Pausing suspends the unfinished jobs of a custom resource, and resuming lets them go on. This
    /// one was not let go on, and as an unfinished job it keeps the operator from making another.
    ///
    /// # How it comes about
    ///
    /// The custom resource was paused, disabled, and then only the pause was lifted: a disabled
    /// custom resource's jobs are not resumed. Or the operator was not there when it was resumed.
    ///
    /// # How to confirm
    ///
    /// `spec.suspend: true` on an unfinished job, and no pause annotation on the custom resource.
    ///
    /// # How to fix
    ///
    /// Lift the pause and the disabling both. If neither is set, set the pause and lift it again.
    ///
    /// # Since
    ///
    /// Operators that run jobs (v0.18.0; upstream issues 351 and 422).
    SKY208 "job-suspended-after-pause" Error needs Skyhooks Jobs,
        blocks Install Uninstall
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let package_runs = cluster.package_runs();
    for package_run in package_runs.all().iter().filter(|e| e.alive()) {
        let Some(job) = package_run.job.filter(|j| j.spec.suspend) else {
            continue;
        };
        let Some(skyhook) = cluster.skyhook(&package_run.skyhook) else {
            continue;
        };
        // Until the operator has noticed, its own status still says that it is paused.
        let suspended = job.status.conditions.iter().find(|c| c.kind == "Suspended");
        let since = suspended.and_then(|c| c.last_transition_time);
        let unnoticed = skyhook.status.status == Some(Status::Paused) && !cluster.is_stale(since);
        if skyhook.paused() || unnoticed {
            continue;
        }
        let disabled = skyhook.disabled();
        let finding = findings.report(
            Subject::node(package_run.node, Some(skyhook.name())).package(&package_run.package),
            if disabled {
                format!(
                    "the job for stage {} of package {} stays suspended: {} is disabled, which \
                     keeps it from being resumed",
                    package_run.stage,
                    package_run.package,
                    skyhook.reference()
                )
            } else {
                format!(
                    "the job for stage {} of package {} is still suspended, although {} is not paused",
                    package_run.stage,
                    package_run.package,
                    skyhook.reference()
                )
            },
        );
        finding
            .since(since)
            .evidence(package_run.reference(), "spec.suspend", "true")
            .evidence(skyhook.reference(), "paused", "no");
        if disabled {
            finding
                .severity(Severity::Warning)
                .evidence(skyhook.reference(), "disabled", "yes")
                .remedy(
                    grade_of_going_on(cluster, skyhook, None),
                    "Enable it",
                    ["enable", skyhook.name()],
                )
                .caveat("all of its work continues, with the interrupts that packages have");
        } else {
            // It is not reached while the operator's pass ends before.
            finding
                .effect_of(&["SKY206", "SKY217", "SKY501", "SKY601"])
                .remedy(Grade::B2, "Pause it once more", ["pause", skyhook.name()])
                .caveat("running jobs of it are stopped, and run again afterwards")
                .remedy(Grade::B3, "And resume it", ["resume", skyhook.name()])
                .caveat("its work continues, with the interrupts that packages have")
                // By itself it changes nothing: it follows the pause.
                .by_choice();
        }
    }
}
