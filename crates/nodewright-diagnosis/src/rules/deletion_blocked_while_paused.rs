use super::Findings;
use super::support::evidence::report_stopped_deletions;
use crate::api::Skyhook;
use crate::cluster::Cluster;

rule! {
    /// Deletion is blocked because the custom resource is paused.
    ///
    /// # What it means
    ///
    /// The custom resource is being deleted, packages that declare an uninstall are still on nodes,
    /// and it is paused. A paused custom resource runs nothing, so the uninstall never starts
    /// (`DeletionBlocked`, reason `PausedWithPendingUninstall`).
    ///
    /// # What causes it
    ///
    /// Someone pauses a rollout and then deletes it.
    ///
    /// # How to confirm
    ///
    /// The custom resource has a deletion timestamp and the pause annotation, and a node state has an entry of a
    /// package with `uninstall.enabled: true`.
    ///
    /// # How to fix
    ///
    /// Resume it: the uninstall runs and the deletion completes. Strip the finalizer only if the
    /// uninstall must not run.
    ///
    /// # Affected versions
    ///
    /// Operators with explicit uninstall (v0.16.0).
    SKY109 "deletion-blocked-while-paused" Error needs Skyhooks Nodes,
        blocks Deletion
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let words = ["paused", "PausedWithPendingUninstall", "resume", "Resume the custom resource"];
    report_stopped_deletions(cluster, findings, Skyhook::paused, words);
}
