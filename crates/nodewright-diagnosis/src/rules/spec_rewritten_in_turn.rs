use jiff::Timestamp;

use super::{Findings, Grade, Subject};
use crate::cluster::Cluster;
use crate::cluster::owners::Applier;

rule! {
    /// Two managers rewrite the spec of a custom resource in turn.
    ///
    /// # What it means
    ///
    /// Each write changes the spec back, and each change restarts the packages that run: their pods or Jobs are
    /// deleted and created again, so a stage that takes longer than the time between two writes never ends.
    ///
    /// # What causes it
    ///
    /// A deployer such as Argo CD, Flux or a pipeline applies the spec repeatedly, and the operator, a webhook or
    /// another deployer writes a field in another form, such as `8Gi` for `8192Mi`.
    ///
    /// # How to confirm
    ///
    /// `metadata.generation` grows all the time, and `managedFields` names two managers that own fields of the spec.
    ///
    /// # How to fix
    ///
    /// Write the fields in the form that the other manager uses, exclude them from the deployer's
    /// comparison, or remove one of the two.
    ///
    /// # Affected versions
    ///
    /// All operators.
    SKY513 "spec-rewritten-in-turn" Warning needs Skyhooks
}

/// Minimum number of writes of the spec; fewer may be edits by people.
const MANY: i64 = 50;
/// Maximum average number of seconds between two writes; people edit less often.
const SELDOM: i64 = 1800;

fn detect(cluster: &Cluster, findings: &mut Findings) {
    for skyhook in &cluster.skyhooks {
        let meta = &skyhook.metadata;
        let Some(created) = meta.creation_timestamp else {
            continue;
        };
        let age = cluster.seconds_from(created);
        // The two managers that wrote the spec most recently.
        let writers = skyhook.spec_writers();
        let Some(first) = writers.first() else {
            continue;
        };
        let Some(second) = writers.iter().find(|m| m.manager != first.manager) else {
            continue;
        };
        let recent = [first, second].iter().all(|m| cluster.is_recent(m.time));
        if meta.generation < MANY || age > meta.generation * SELDOM || !recent {
            continue;
        }
        let finding = findings.report(
            Subject::skyhook(skyhook),
            format!(
                "{} and {} rewrite the spec of {skyhook} in turn, and each write restarts its packages",
                first.manager, second.manager
            ),
        );
        finding.evidence(skyhook, "metadata.generation", meta.generation).evidence(
            skyhook,
            "metadata.creationTimestamp",
            created,
        );
        for writer in [first, second] {
            let time = writer.time.unwrap_or(Timestamp::UNIX_EPOCH);
            finding.evidence(skyhook, format!("spec written by {}", writer.manager), time);
        }
        if let Some(applier) = Applier::of(meta, &skyhook.kind) {
            finding.evidence(skyhook, "applied by", applier.name());
        }
        finding.kubectl(
            Grade::B0,
            "See which fields each manager owns",
            ["get", &cluster.flavor().resource(), skyhook.name(), "-o", "yaml", "--show-managed-fields"],
        );
    }
}
