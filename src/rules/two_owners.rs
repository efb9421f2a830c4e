use super::{Findings, Grade, Subject};
use crate::cluster::Cluster;

rule! {
    /// Two objects with the same name, one in each API, are not copies of each other.
    ///
    /// # What it means
    ///
    /// The operator copies a Skyhook to a NodeWright of the same name, unless one already exists that
    /// someone else created. Then the NodeWright applies, and changes to the Skyhook have no effect.
    ///
    /// # What causes it
    ///
    /// The NodeWright was applied from a manifest repository while the Skyhook still existed,
    /// or its `mirrored-from` annotation was removed.
    ///
    /// # How to confirm
    ///
    /// Both exist, and the NodeWright's annotation `mirrored-from` is missing or names another one.
    ///
    /// # How to fix
    ///
    /// Compare the two specs. If the NodeWright is the correct one, delete the Skyhook.
    ///
    /// # Since
    ///
    /// Operators v0.18.0 to v0.20.x.
    SKY603 "two-owners" Warning needs Skyhooks Legacy
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    if !cluster.active_api.migrating() {
        return;
    }
    let key = cluster.flavor().key("mirrored-from");
    for skyhook in cluster.skyhooks.items() {
        let mut all = cluster.legacy.items().iter();
        let Some(legacy) = all.find(|l| l.name() == skyhook.name() && !l.deleting()) else {
            continue;
        };
        let mirrored = skyhook.mirrored_from();
        if mirrored == Some(legacy.name()) {
            continue;
        }
        findings
            .report(
                Subject::skyhook(skyhook),
                format!(
                    "{skyhook} was not created from {legacy}: both exist, and changes to the Skyhook have no effect"
                ),
            )
            .evidence(skyhook, &key, mirrored.unwrap_or("absent"))
            .evidence(legacy, "exists", "yes")
            .show_manifest("Compare the two", skyhook)
            .kubectl(
                Grade::B1,
                "Delete the Skyhook",
                [
                    "delete",
                    &cluster.flavor().other().resource(),
                    legacy.name(),
                ],
            )
            .caveat("settings that exist only in its spec are lost");
    }
}
