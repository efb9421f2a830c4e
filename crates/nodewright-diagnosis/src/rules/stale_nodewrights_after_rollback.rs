use super::support::evidence::some_of;
use super::{Findings, Severity, Subject};
use crate::cluster::Cluster;

rule! {
    /// NodeWrights are left from a newer operator that was rolled back.
    ///
    /// # What it means
    ///
    /// The running operator is older than v0.18 and acts only on Skyhooks. These NodeWrights look active, but
    /// changes to them have no effect. If the newer operator comes back, it uses the NodeWrights unchanged. A
    /// Job of a NodeWright that is still running continues anyway, alongside the pods of the older operator:
    /// in this case the finding is an error.
    ///
    /// # What causes it
    ///
    /// A rollback of the chart keeps the newer CRDs and their objects.
    ///
    /// # How to confirm
    ///
    /// The operator's version is below v0.18, and NodeWrights exist.
    ///
    /// # How to fix
    ///
    /// Work with the Skyhooks. Compare the NodeWrights with them before the next upgrade.
    ///
    /// # Affected versions
    ///
    /// After a rollback from v0.18.0 or later.
    SKY605 "stale-nodewrights-after-rollback" Warning needs Skyhooks Legacy, also Operator Jobs Pods
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    if !cluster.active_api.rolled_back() {
        return;
    }
    let package_runs = cluster.package_runs_of(cluster.flavor().other());
    for stale in &cluster.legacy {
        let own = package_runs.iter().filter(|run| run.skyhook == stale.name());
        let at_work: Vec<String> =
            own.filter(|run| !run.bare() && run.alive()).map(|run| run.to_string()).collect();
        let finding = findings.report(
            Subject::skyhook(stale),
            format!(
                "a newer operator that is no longer running has left {stale}: {}",
                if at_work.is_empty() {
                    "changes to the custom resource have no effect"
                } else {
                    "its jobs are still running, and the older operator starts pods alongside them"
                }
            ),
        );
        if !at_work.is_empty() {
            finding.severity(Severity::Error).evidence("jobs", "still running", some_of(&at_work));
        }
        finding.operator_version(cluster);
        let twin = cluster.skyhook(stale.name());
        finding
            .evidence(
                cluster.flavor().resource(),
                stale.name(),
                if twin.is_some() { "exists" } else { "does not exist" },
            )
            .show_manifest("Compare the NodeWright with the Skyhook of the same name", stale);
    }
}
