use jiff::SignedDuration;

use super::{Findings, Grade, Severity, Subject};
use crate::cluster::{Cluster, Event, Source};

rule! {
    /// A Job cannot create its pod.
    ///
    /// # What it means
    ///
    /// The operator has made the Job of a stage, and the Job controller cannot make a pod for it. The
    /// stage counts as in progress, and no attempt is counted, so it never fails either.
    ///
    /// # How it comes about
    ///
    /// A quota of the operator's namespace is used up, a limit range or an admission policy rejects
    /// the pod, or its service account is missing.
    ///
    /// # How to confirm
    ///
    /// The Job is not suspended and has no pod; its events say `FailedCreate` and why.
    ///
    /// # How to fix
    ///
    /// Remove what the event names. The Job controller tries again by itself.
    ///
    /// # Since
    ///
    /// Operators v0.18.0 and later, which run Jobs.
    SKY220 "job-cannot-create-pod" Error needs Jobs Pods, also Skyhooks Events,
        blocks Install Uninstall, retried true
}

/// The Job controller's next attempt may succeed for so long.
const YOUNG: SignedDuration = SignedDuration::from_mins(1);

fn detect(cluster: &Cluster, findings: &mut Findings) {
    if cluster.pods.ok().is_none() {
        return;
    }
    for execution in cluster.executions().all() {
        let waiting = execution.job.filter(|j| {
            !j.spec.suspend && j.status.failed == 0 && j.status.succeeded == 0 && execution.alive()
        });
        let Some(job) = waiting.filter(|j| execution.pods.is_empty() && j.status.active == 0)
        else {
            continue;
        };
        let failed = |e: &&Event| {
            e.kind == "Job" && e.name == job.metadata.name && e.reason == "FailedCreate"
        };
        let event = cluster
            .events
            .items()
            .iter()
            .filter(failed)
            .max_by_key(|e| e.last);
        let old = cluster.long_ago(execution.created());
        if event.is_none() {
            findings.depends_on(Source::Events);
        }
        // Without an event the controller may just not have come to it.
        if event.is_none() && !old {
            continue;
        }
        let why = event.map_or("", |e| e.message.as_str());
        let finding = findings.report(
            Subject::node(execution.node, Some(&execution.skyhook)).package(&execution.package),
            format!(
                "the job for stage {} of package {} has no pod{}",
                execution.stage,
                execution.package,
                if event.is_some() {
                    ": it cannot be created"
                } else {
                    ""
                }
            ),
        );
        let age = execution
            .created()
            .map(|at| cluster.taken_at.duration_since(at));
        if age.is_some_and(|age| age < YOUNG) {
            finding.severity(Severity::Warning);
        }
        finding
            .since(execution.created())
            .evidence(execution.reference(), "pods", "none");
        if event.is_some() {
            finding.evidence(execution.reference(), "event FailedCreate", why);
        }
        finding.kubectl(
            Grade::B0,
            "See why, and remove the cause; the controller tries again by itself",
            [
                "describe",
                "job",
                "-n",
                execution.namespace(),
                &job.metadata.name,
            ],
        );
    }
}
