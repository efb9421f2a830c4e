use super::{Findings, Grade, Subject};
use crate::cluster::Cluster;
use crate::model::profile::processes_nodewrights;

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
    /// Both objects exist, and the NodeWright's annotation `mirrored-from` is missing or names another
    /// object.
    ///
    /// # How to fix
    ///
    /// Compare the two specs. If the NodeWright is the correct one, and the only operator that runs is
    /// v0.18.0 or later, delete the Skyhook. An older operator acts on the Skyhook.
    ///
    /// # Affected versions
    ///
    /// Operators v0.18.0 to v0.20.x.
    SKY603 "two-owners" Warning needs Skyhooks Legacy, also Operator
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    // With two operators, the older one works on the Skyhook.
    if !cluster.active_api.migrating() || cluster.operator().installations().len() > 1 {
        return;
    }
    let key = cluster.flavor().key("mirrored-from");
    for skyhook in &cluster.skyhooks {
        let legacy = cluster.legacy_skyhook(skyhook.name());
        let Some(legacy) = legacy.filter(|l| !l.deleting()) else {
            continue;
        };
        let mirrored = skyhook.mirrored_from();
        if mirrored == Some(legacy.name()) {
            continue;
        }
        let finding = findings
            .report(
                Subject::skyhook(skyhook),
                format!(
                    "{skyhook} was not created from {legacy}: both exist, and changes to the Skyhook have no effect"
                ),
            )
            .evidence(skyhook, &key, mirrored.unwrap_or("absent"))
            .evidence(legacy, "exists", "yes")
            .show_manifest("Compare the two objects", skyhook);
        if !processes_nodewrights(cluster) {
            continue;
        }
        finding
            .kubectl(
                Grade::B1,
                "Delete the Skyhook",
                ["delete", &cluster.flavor().other().resource(), legacy.name()],
            )
            .caveat("settings that exist only in the Skyhook are lost");
    }
}
