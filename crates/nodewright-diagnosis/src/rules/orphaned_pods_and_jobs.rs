use super::{Findings, Grade, Severity, Subject};
use crate::cluster::{Certainty, Cluster};

rule! {
    /// A package still runs for a deleted custom resource.
    ///
    /// # What it means
    ///
    /// A pod or Job of a package exists, but the custom resource that it belongs to does not. Nothing waits
    /// for its outcome, and when it ends, it leaves an orphaned record on the node.
    ///
    /// # What causes it
    ///
    /// The finalizer was stripped while the stage ran. Kubernetes normally removes objects owned by such a
    /// custom resource soon after.
    ///
    /// # How to confirm
    ///
    /// The pod or Job names a custom resource that does not exist.
    ///
    /// # How to fix
    ///
    /// Let it finish if its changes to the host are wanted; otherwise delete it. Then clean up the leftovers
    /// on the node.
    ///
    /// # Affected versions
    ///
    /// All operators.
    SKY702 "orphaned-pods-and-jobs" Warning needs Skyhooks Pods Jobs
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let absence = cluster.skyhooks_absence();
    if absence == Certainty::Unknown {
        return;
    }
    for package_run in findings.package_runs().all().iter().filter(|run| run.alive()) {
        if cluster.skyhook(&package_run.skyhook).is_some() {
            continue;
        }
        let presumed = absence == Certainty::Presumed;
        let finding = findings.report(
            Subject::package_run(package_run),
            format!(
                "stage {} of package {} is still running for {}, which {}",
                package_run.stage,
                package_run.package,
                package_run.skyhook,
                if presumed { "is not in the capture" } else { "is gone" }
            ),
        );
        finding.since(package_run.created()).evidence(package_run, "belongs to", &package_run.skyhook);
        if presumed {
            finding.severity(Severity::Info).not_in_input(cluster, &package_run.skyhook);
        } else {
            finding.evidence(cluster.flavor().resource(), &package_run.skyhook, "does not exist");
        }
        let (kind, name) = package_run.kind_and_name().unwrap_or_default();
        finding
            .describe("See what the pod or job is doing", kind, package_run.namespace(), name)
            .kubectl(
                Grade::B2,
                "Delete the pod or job if it is not needed",
                ["delete", kind, "-n", package_run.namespace(), name],
            )
            .caveat("the script is killed, which may leave its work on the host unfinished");
    }
}
