use jiff::{SignedDuration, Timestamp};

use super::job_controller_stopped::ended_at;
use super::{Findings, Subject};
use crate::cluster::{Cluster, Event, Job, PackageRun, Source};

rule! {
    /// A Job cannot create its pod.
    ///
    /// # What it means
    ///
    /// The operator has created the Job of a stage, but the Job controller cannot create a pod for it. The
    /// stage counts as in progress, and no attempt is counted, so it never fails either. This can also happen
    /// after failed attempts: no further attempt is made.
    ///
    /// # What causes it
    ///
    /// A quota of the operator's namespace is used up, a limit range or an admission policy rejects
    /// the pod, or its service account is missing.
    ///
    /// # How to confirm
    ///
    /// The Job is not suspended and has no pods, or only failed pods; its events show `FailedCreate` with the reason.
    /// Between two attempts up to ten minutes pass.
    ///
    /// # How to fix
    ///
    /// Fix the cause that the event names. The Job controller retries automatically.
    ///
    /// # Affected versions
    ///
    /// Operators v0.18.0 and later, which run Jobs.
    SKY220 "job-cannot-create-pod" Error needs Jobs Pods, also Skyhooks Events,
        blocks Install Uninstall, retried true
}

/// Time during which a retry of the Job controller may still succeed.
const YOUNG: SignedDuration = SignedDuration::from_mins(1);
/// Like `YOUNG`, after the API server has refused the pod: the second attempt follows after ten seconds.
const REFUSED: SignedDuration = SignedDuration::from_secs(10);
/// Maximum time without a pod after a failed attempt: the Job controller waits for up to ten minutes.
const LONGEST_PAUSE: SignedDuration = SignedDuration::from_mins(15);

fn detect(cluster: &Cluster, findings: &mut Findings) {
    if cluster.pods.ok().is_none() {
        return;
    }
    for package_run in findings.package_runs().all() {
        let Some(job) = package_run.job.filter(|j| lacks_a_pod(package_run, j)) else {
            continue;
        };
        let event = newest_refusal(cluster, package_run, job);
        // A Job has no pod between two attempts.
        let since = last_attempt(package_run).or(package_run.created());
        let waits = since.map(|at| cluster.taken_at.duration_since(at));
        let tried = job.status.failed > 0;
        let patience = if tried { LONGEST_PAUSE } else { SignedDuration::from_mins(10) };
        if event.is_none() {
            findings.depends_on(Source::Events);
        }
        // Without an event, the controller may not have processed the Job yet.
        if event.is_none() && waits.is_none_or(|waits| waits < patience) {
            continue;
        }
        let again = if tried { " after its last pod failed" } else { "" };
        let why = event.map(|event| format!(": {}", refusal(&event.message))).unwrap_or_default();
        let finding = findings.report(
            Subject::package_run(package_run),
            format!(
                "the job for stage {} of package {} has no pod{again}{why}",
                package_run.stage, package_run.package
            ),
        );
        // Without pods in the capture, the time of the last failure is unknown.
        let unsure = tried && package_run.pods.is_empty() && event.is_none();
        let young = if event.is_some_and(|e| e.message.contains("is forbidden")) { REFUSED } else { YOUNG };
        finding.warning_if(unsure || waits.is_some_and(|waits| waits < young));
        finding.effect_of(&["SKY229"]);
        finding.since(since).evidence(package_run, "pods", if tried { "all have ended" } else { "none" });
        if let Some(event) = event {
            finding.evidence(package_run, "event FailedCreate", &event.message);
        }
        finding.describe_job(
            "See why pod creation fails, and fix the cause; the job controller retries automatically",
            job,
        );
    }
}

/// Why the API server refuses the pod, without the pod's name and the details: `it is refused: exceeded quota: compute…`.
fn refusal(message: &str) -> String {
    let starts = ["is forbidden: ", "denied the request: "];
    let Some((_, why)) = starts.iter().find_map(|start| message.split_once(start)) else {
        return "pod creation fails".to_owned();
    };
    match why.split_once([',', '(']) {
        Some((start, _)) => format!("it is refused: {}…", start.trim_end()),
        None => format!("it is refused: {why}"),
    }
}

/// Whether the Job should have a running pod, but has none.
fn lacks_a_pod(package_run: &PackageRun<'_>, job: &Job) -> bool {
    let (status, pods) = (&job.status, &package_run.pods);
    // Conditions of a Job that is about to end.
    let ending = ["FailureTarget", "SuccessCriteriaMet"];
    let ends = status.conditions.iter().any(|c| c.is_true() && ending.contains(&c.kind.as_str()));
    let idle = status.active == 0 && status.succeeded == 0 && !job.spec.suspend && !ends;
    let counted = match status.failed {
        0 => pods.is_empty(),
        _ => pods.iter().all(|p| p.status.phase == "Failed"),
    };
    idle && counted && package_run.alive()
}

/// The Job controller's newest event about a failed pod creation; `None` if it is older than the last attempt.
fn newest_refusal<'a>(cluster: &'a Cluster, package_run: &PackageRun<'_>, job: &Job) -> Option<&'a Event> {
    let newest = cluster
        .events_about("Job", &job.metadata.name)
        .filter(|e| e.reason == "FailedCreate")
        .max_by_key(|e| e.last)?;
    let last = last_attempt(package_run);
    (last.is_none() || newest.last.is_none() || newest.last >= last).then_some(newest)
}

/// The time at which the newest attempt ended, or else was created.
fn last_attempt(package_run: &PackageRun<'_>) -> Option<Timestamp> {
    package_run.pods.iter().filter_map(|pod| ended_at(pod)).max()
}

#[cfg(test)]
mod tests {
    use super::refusal;

    #[test]
    fn a_refusal_is_named_without_pod_and_details() {
        for (message, expected) in [
            (
                "Error creating: pods \"a-7kq2d\" is forbidden: exceeded quota: compute, requested: pods=1, used: pods=2",
                "it is refused: exceeded quota: compute…",
            ),
            (
                "Error creating: pods \"a\" is forbidden: violates PodSecurity \"baseline:latest\": host namespaces (hostPID=true)",
                "it is refused: violates PodSecurity \"baseline:latest\": host namespaces…",
            ),
            (
                "Error creating: admission webhook \"a.example\" denied the request: no root",
                "it is refused: no root",
            ),
            ("Error creating: timeout", "pod creation fails"),
        ] {
            assert_eq!(refusal(message), expected);
        }
    }
}
