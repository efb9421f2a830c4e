use super::{Findings, Subject};
use crate::cluster::{Certainty, Cluster};

rule! {
    /// An object of the older API has no counterpart in the newer API.
    ///
    /// # What it means
    ///
    /// The running operator acts only on NodeWrights. It should have created a NodeWright of the same name
    /// from this Skyhook, but has not. So no operator processes the Skyhook.
    ///
    /// # What causes it
    ///
    /// The operator is not running, is not allowed to write NodeWrights, or the API server rejects them.
    ///
    /// # How to confirm
    ///
    /// A Skyhook exists, but no NodeWright has the same name.
    ///
    /// # How to fix
    ///
    /// Check the operator's log for the error that prevents the creation of the NodeWright. Do not delete the
    /// Skyhook before its NodeWright exists: the Skyhook is the only copy.
    ///
    /// # Affected versions
    ///
    /// Operators v0.18.0 to v0.20.x.
    SKY602 "not-migrated-yet" Error needs Skyhooks Legacy,
        blocks Install Uninstall
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let absence = cluster.skyhooks_absence();
    let unread = absence == Certainty::Unknown || !cluster.skyhooks.was_asked();
    if !cluster.active_api.migrating() || unread {
        return;
    }
    for old in &cluster.legacy {
        let created = old.metadata.creation_timestamp;
        let fresh = cluster.is_recent(created);
        if cluster.skyhook(old.name()).is_some() || old.deleting() || fresh {
            continue;
        }
        if absence == Certainty::Presumed {
            findings.undetermined(format!("the capture may lack the NodeWright of {old}"));
            continue;
        }
        let finding = findings.report(
            Subject::skyhook(old),
            format!("{old} has no NodeWright of the same name, so the operator does nothing for it"),
        );
        finding
            .since(created)
            .evidence(cluster.flavor().resource(), old.name(), "does not exist")
            .operator_version(cluster)
            .operator_log(
                cluster,
                "Check the operator's log for the error that prevents the creation of \
                the NodeWright",
            );
    }
}
