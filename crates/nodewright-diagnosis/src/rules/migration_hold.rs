use super::{Findings, Grade, Severity, Subject};
use crate::cluster::{Certainty, Cluster};

rule! {
    /// An unfinished object of the older API stops the whole newer operator.
    ///
    /// # What it means
    ///
    /// The newer operator does nothing for any NodeWright as long as the status of any Skyhook shows an
    /// unfinished rollout. No operator processes that Skyhook any more, so this never ends by itself. No
    /// condition or event reports this, only a line in the operator's log.
    ///
    /// # What causes it
    ///
    /// The operator was upgraded to v0.18 or later while a rollout was in progress or failing.
    ///
    /// # How to confirm
    ///
    /// A Skyhook has a status other than `complete`, `paused` or `disabled`, and the operator logs
    /// "holding NodeWright reconcile".
    ///
    /// # How to fix
    ///
    /// Delete the Skyhook: the NodeWright of the same name stays and takes over. Or roll back to the older
    /// operator and let it finish first.
    ///
    /// # Affected versions
    ///
    /// Operators v0.18.0 to v0.20.x.
    SKY601 "migration-hold" Error needs Skyhooks Legacy,
        blocks Reconcile
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    for old in cluster.migration().holding() {
        let Some(status) = &old.status.status else {
            continue;
        };
        let finding = findings.report(
            Subject::skyhook(old),
            format!("{old} is unfinished ({status}): until it is complete or deleted, the operator does nothing for any NodeWright object"),
        );
        finding.evidence(old, "status.status", status.as_str());
        match &cluster.active_api.operator_version {
            Some(version) => finding.evidence("operator", "version", version),
            // The operator may have been rolled back; then the Skyhook is not a leftover.
            None => finding.severity(Severity::Warning).evidence("operator", "version", "unknown"),
        };
        finding
            .list_operators(
                "See which version of the operator is running: an older one, if it was rolled back, finishes this rollout \
                 itself",
            )
            .caveat("`helm rollback` brings the older operator back");
        match (cluster.skyhook(old.name()), cluster.skyhooks_absence()) {
            // The newer operator removes the Skyhook's finalizer, and then continues.
            (Some(_), _) if old.deleting() => {
                let deleted = old.metadata.deletion_timestamp;
                finding.warning_if(!cluster.is_stale(deleted));
                finding.evidence(old, "deletionTimestamp", "set");
                let ours = cluster.flavor().other().finalizer();
                if old.metadata.finalizers.iter().any(|f| *f != ours) {
                    finding
                        .other_finalizers(old)
                        .edit(
                            Grade::B1,
                            "Remove the third-party finalizer if its owner no longer exists",
                            old,
                        )
                        .caveat("any cleanup tied to the finalizer is then skipped");
                }
            }
            (Some(new), _) => {
                finding
                    .evidence(new, "exists", "yes; it takes over")
                    .kubectl(
                        Grade::B2,
                        "Or delete the Skyhook; the NodeWright takes over",
                        ["delete", &cluster.flavor().other().resource(), old.name()],
                    )
                    .caveat("unfinished work runs again under the newer operator");
            }
            (None, Certainty::Proven | Certainty::Presumed) => {
                finding.evidence(
                    "nodewright of the same name",
                    "exists",
                    "no; do not delete the Skyhook yet",
                );
            }
            (None, Certainty::Unknown) => {
                finding.evidence("nodewright of the same name", "exists", "unknown (could not be read)");
            }
        }
    }
}
