use super::{Findings, Grade, Subject};
use crate::cluster::Cluster;

rule! {
    /// NodeWrights are left from a newer operator that was rolled back.
    ///
    /// # What it means
    ///
    /// The operator that runs is older than v0.18 and acts on Skyhooks only. These NodeWrights look
    /// alive, and changes of them have no effect. If the newer operator comes back, it takes them up
    /// as they are.
    ///
    /// # How it comes about
    ///
    /// A rollback of the chart keeps the new resource definitions and the objects.
    ///
    /// # How to confirm
    ///
    /// The operator's version is below v0.18, and NodeWrights exist.
    ///
    /// # How to fix
    ///
    /// Work with the Skyhooks. Compare the NodeWrights with them before the next upgrade.
    ///
    /// # Since
    ///
    /// After a rollback from v0.18.0 or later.
    SKY605 "stale-nodewrights-after-rollback" Warning needs Skyhooks Legacy, also Operator
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    if !cluster.ruling.rolled_back() {
        return;
    }
    let resource = cluster.generation().other().resource();
    for stale in cluster.legacy.items() {
        let finding = findings.report(
            Subject::skyhook(stale),
            format!(
                "{} is left from a newer operator that no longer runs: changes of it have no effect",
                stale.reference()
            ),
        );
        if let Some(version) = &cluster.ruling.operator_version {
            finding.evidence("operator", "version", version.to_string());
        }
        let twin = cluster.skyhook(stale.name());
        finding
            .evidence(
                cluster.generation().resource(),
                stale.name(),
                if twin.is_some() {
                    "exists"
                } else {
                    "does not exist"
                },
            )
            .kubectl(
                Grade::B0,
                "Compare it with what is acted on",
                ["get", &resource, stale.name(), "-o", "yaml"],
            );
    }
}
