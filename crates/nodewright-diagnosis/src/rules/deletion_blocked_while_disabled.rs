use super::Findings;
use super::support::evidence::report_stopped_deletions;
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
    let words = ["disabled", "DisabledWithPendingUninstall", "enable", "Enable the custom resource"];
    report_stopped_deletions(cluster, findings, Skyhook::disabled, words);
}
