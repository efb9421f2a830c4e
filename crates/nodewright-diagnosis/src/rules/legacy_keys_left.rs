use super::{Findings, Subject};
use crate::api::ApiFlavor;
use crate::cluster::{Certainty, Cluster};

rule! {
    /// A node still carries keys of the older operator.
    ///
    /// # What it means
    ///
    /// The newer operator copies the older keys of the nodes that are selected, and removes them a day later
    /// (or after `LEGACY_CLEANUP_DELAY`) on the nodes that are selected then. Keys that it has copied have no
    /// effect, unless you roll back to the older operator. Keys that it has not copied count again once the
    /// node is selected: its packages are then not installed again.
    ///
    /// # What causes it
    ///
    /// The node left the selection before the migration or before the older keys were removed, the custom
    /// resource was deleted, or the removal failed.
    ///
    /// # How to confirm
    ///
    /// The node has keys with the older prefix, and the custom resource is migrated, or its annotation
    /// `legacy-migrated-at` is older than `LEGACY_CLEANUP_DELAY`.
    ///
    /// # How to fix
    ///
    /// Clean them up once no rollback is planned. A package record that was not copied is kept, unless
    /// `--purge-state` is given.
    ///
    /// # Affected versions
    ///
    /// Operators v0.18.0 and later.
    SKY606 "legacy-keys-left" Info needs Skyhooks Nodes, also Legacy Operator
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let old = ApiFlavor::Skyhook;
    let absence = cluster.skyhooks_absence();
    if cluster.flavor() == old || absence == Certainty::Unknown {
        return;
    }
    for node in &cluster.nodes {
        for (name, on) in &node.keys(old).skyhooks {
            let unknown = cluster.skyhook(name).is_none() && absence != Certainty::Proven;
            if !on.has_keys() || unknown {
                continue;
            }
            let Some(why) = cluster.leftovers().old_keys_left(node, name, old) else {
                continue;
            };
            let finding = findings.report(
                Subject::node(&node.name, Some(name)),
                format!(
                    "{why}, but the node still has the older operator's annotations or labels for {name}"
                ),
            );
            finding.evidence(node, format!("keys of {}", old.group()), name);
            if let Some(at) = cluster.skyhook(name).and_then(|s| cluster.migration().migrated_at(s)) {
                let owner = format!("{}/{name}", cluster.flavor().name());
                finding.evidence(owner, "legacy-migrated-at", at);
            }
            let copied = cluster.skyhook(name).is_some() && cluster.migration().is_adopted(node, name);
            finding.remove_leftovers(on.is_marker() && !copied);
            if copied {
                finding.caveat("after a rollback, the older operator would not know what is installed");
            }
        }
    }
}
