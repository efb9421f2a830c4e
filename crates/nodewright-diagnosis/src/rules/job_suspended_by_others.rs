use super::{Findings, Grade, Subject};
use crate::api::ManagedFields;
use crate::cluster::{Cluster, PackageRun};

rule! {
    /// Something else suspends the Jobs of a package.
    ///
    /// # What it means
    ///
    /// The operator resumes the suspended Jobs of a custom resource that is not paused, and another client suspends
    /// them again. Each time, the Job controller deletes the running pod, so the script starts from the beginning and
    /// the stage may never end.
    ///
    /// # What causes it
    ///
    /// A queue controller such as Kueue manages all Jobs of the namespace, or an admission policy suspends them.
    ///
    /// # How to confirm
    ///
    /// The unfinished Job was suspended at least three times, most recently within ten minutes, or a field manager that
    /// did not create the Job owns `spec.suspend`. The custom resource is neither paused nor disabled.
    ///
    /// # How to fix
    ///
    /// Exempt the operator's namespace from the other controller. The operator then resumes the Job.
    ///
    /// # Affected versions
    ///
    /// Operators v0.18.0 and later, which run Jobs.
    ///
    /// # Severity
    ///
    /// A warning until the third time.
    SKY230 "job-suspended-by-others" Error needs Skyhooks Jobs, also Events,
        blocks Install Uninstall, retried true
}

/// Number of suspensions that are no coincidence.
const REPEATEDLY: i64 = 3;

fn detect(cluster: &Cluster, findings: &mut Findings) {
    for package_run in findings.package_runs().all() {
        let Some(suspensions) = Suspensions::of(cluster, package_run) else {
            continue;
        };
        let Some(job) = package_run.job else {
            continue;
        };
        let finding = findings.report(
            Subject::package_run(package_run),
            format!(
                "another client suspends the job for stage {} of package {}, so the stage starts over each \
                 time",
                package_run.stage, package_run.package
            ),
        );
        finding.warning_if(suspensions.count < REPEATEDLY);
        let changed = job.status.conditions.iter().find(|condition| condition.kind == "Suspended");
        finding
            .since(changed.and_then(|condition| condition.last_transition_time))
            .evidence(package_run, "times suspended", suspensions.count)
            .evidence(package_run, "spec.suspend", job.spec.suspend);
        if let Some(manager) = suspensions.manager {
            finding.evidence(package_run, "field manager of spec.suspend", manager);
        }
        let namespace = package_run.namespace();
        finding.kubectl(
            Grade::B0,
            "See which manager suspends the job, and exempt the operator's namespace from it",
            ["get", "job", "-n", namespace, &job.metadata.name, "-o", "yaml", "--show-managed-fields"],
        );
    }
}

/// Suspensions of a Job by another client than the operator.
pub struct Suspensions<'a> {
    count: i64,
    /// The field manager that owns `spec.suspend` and did not create the Job.
    manager: Option<&'a str>,
}

impl<'a> Suspensions<'a> {
    /// The suspensions of the run's Job; `None` if only the operator has suspended it, or long ago.
    pub fn of(cluster: &'a Cluster, package_run: &PackageRun<'a>) -> Option<Suspensions<'a>> {
        let job = package_run.job.filter(|_| package_run.alive())?;
        let skyhook = cluster.skyhook(&package_run.skyhook)?;
        let changed = job.status.conditions.iter().find(|condition| condition.kind == "Suspended")?;
        let events = cluster.events_about("Job", &job.metadata.name);
        let noted: i64 = events.filter(|event| event.reason == "Suspended").map(|event| event.count).sum();
        // Each suspension and each resume is a new generation.
        let count = noted.max((job.metadata.generation - 1) / 2);
        let creates = |fields: &ManagedFields| !fields.fields["f:spec"]["f:template"].is_null();
        let manager = job.metadata.managed_fields.iter().find(|fields| job.spec.suspend && !creates(fields));
        let manager = manager.map(|fields| fields.manager.as_str());
        let now = cluster.is_recent(changed.last_transition_time) || job.spec.suspend;
        (skyhook.is_active() && now && (manager.is_some() || count >= REPEATEDLY))
            .then_some(Suspensions { count, manager })
    }
}
