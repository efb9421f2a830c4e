use super::support::evidence::stopped_deletions;
use super::{Findings, Subject};
use crate::api::Skyhook;
use crate::cluster::Cluster;

rule! {
    /// Deletion is blocked because the custom resource is disabled.
    ///
    /// # What it means
    ///
    /// The custom resource is being deleted, packages that declare an uninstall are still on nodes,
    /// and it is disabled. The operator runs nothing for it, so the uninstall never starts
    /// (`DeletionBlocked`, reason `DisabledWithPendingUninstall`).
    ///
    /// # What causes it
    ///
    /// Someone disables a custom resource and then deletes it.
    ///
    /// # How to confirm
    ///
    /// The custom resource has a deletion timestamp and the disable annotation, and a node state has an entry of a
    /// package with `uninstall.enabled: true`.
    ///
    /// # How to fix
    ///
    /// Enable it: the uninstall runs and the deletion completes. Strip the finalizer only if the
    /// uninstall must not run.
    ///
    /// # Affected versions
    ///
    /// Operators with explicit uninstall (v0.16.0).
    SKY110 "deletion-blocked-while-disabled" Error needs Skyhooks Nodes,
        blocks Deletion
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let resumed = findings.resumed();
    for skyhook in stopped_deletions(cluster, Skyhook::disabled, "DisabledWithPendingUninstall") {
        let finding = findings.report(
            Subject::skyhook(skyhook),
            format!(
                "deletion of {skyhook} is blocked: the custom resource is disabled, so nothing is uninstalled"
            ),
        );
        finding.pending_deletion(cluster, skyhook);
        resumed
            .everywhere(skyhook)
            .offer_deleting(finding, "Enable the custom resource", "enable")
            .strip_finalizer("Strip the finalizer", skyhook);
    }
}
