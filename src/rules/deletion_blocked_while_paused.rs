use super::evidence::{deletions_at_rest, pending_deletion};
use super::going_on::GoingOn;
use super::{Findings, Grade, Subject};
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
    /// Deletion timestamp, the pause annotation, and an entry of a package with
    /// `uninstall.enabled: true` in some node state.
    ///
    /// # How to fix
    ///
    /// Resume it: the uninstall runs and the deletion completes. Strip the finalizer only if the
    /// uninstall must not run.
    ///
    /// # Since
    ///
    /// Operators with explicit uninstall (v0.16.0).
    SKY109 "deletion-blocked-while-paused" Error needs Skyhooks Nodes,
        blocks Deletion
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    for skyhook in deletions_at_rest(cluster, Skyhook::paused, "PausedWithPendingUninstall") {
        let finding = findings.report(
            Subject::skyhook(skyhook),
            format!(
                "deletion of {} is blocked: the custom resource is paused, so nothing is uninstalled",
                skyhook.reference()
            ),
        );
        pending_deletion(cluster, finding, skyhook);
        GoingOn::everywhere(cluster, skyhook)
            .offer_deleting(finding, "Resume it", "resume")
            .remedy(
                Grade::B4,
                "Strip the finalizer",
                ["finalizer", "strip", skyhook.name(), "--force"],
            )
            .caveat("uninstall.sh does not run on any node");
    }
}
