use super::{Findings, Subject};
use crate::cluster::{Certainty, Cluster};

rule! {
    /// An object of the old API has no counterpart in the new one.
    ///
    /// # What it means
    ///
    /// The operator that runs acts on NodeWrights only. It should have made one of the same name for
    /// this Skyhook and has not, so nobody looks after it.
    ///
    /// # How it comes about
    ///
    /// The operator does not run, may not write NodeWrights, or their creation is rejected.
    ///
    /// # How to confirm
    ///
    /// A Skyhook, and no NodeWright of its name.
    ///
    /// # How to fix
    ///
    /// Read the operator's log for the mirror that fails. Do not delete the Skyhook before its
    /// NodeWright is there: it is the only copy.
    ///
    /// # Since
    ///
    /// Operators v0.18.0 to v0.20.x.
    SKY602 "not-migrated-yet" Error needs Skyhooks Legacy,
        blocks Install Uninstall
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    if !cluster.active_api.migrating() || cluster.skyhooks.absence() != Certainty::Proven {
        return;
    }
    for old in cluster.legacy.items() {
        let created = old.metadata.creation_timestamp;
        let fresh = created.is_some() && !cluster.is_stale(created);
        if cluster.skyhook(old.name()).is_some() || old.deleting() || fresh {
            continue;
        }
        let finding = findings.report(
            Subject::skyhook(old),
            format!(
                "{} has no NodeWright of its name, so the operator does nothing for it",
                old.reference()
            ),
        );
        finding
            .since(created)
            .evidence(cluster.flavor().resource(), old.name(), "does not exist");
        if let Some(version) = &cluster.active_api.operator_version {
            finding.evidence("operator", "version", version.to_string());
        }
        super::evidence::operator_log(
            finding,
            cluster,
            "Read the operator's log for the mirror that fails",
        );
    }
}
