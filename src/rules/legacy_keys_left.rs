use super::{Findings, Grade, Subject};
use crate::api::ApiFlavor;
use crate::cluster::{Certainty, Cluster};

rule! {
    /// A node still carries keys of the old operator.
    ///
    /// # What it means
    ///
    /// The new operator copied the old keys of the node and removes them a day later, but only on
    /// nodes that are still selected then. The remaining keys have no effect, unless the old operator is
    /// brought back.
    ///
    /// # What causes it
    ///
    /// The node left the selection, or the custom resource was deleted, before the old keys were
    /// removed.
    ///
    /// # How to confirm
    ///
    /// Keys with the old prefix for a custom resource whose migration is complete.
    ///
    /// # How to fix
    ///
    /// Clean them up once no rollback is planned.
    ///
    /// # Since
    ///
    /// Operators v0.18.0 and later.
    SKY606 "legacy-keys-left" Info needs Skyhooks Nodes, also Legacy
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let old = ApiFlavor::Skyhook;
    if cluster.flavor() == old || cluster.skyhooks.absence() != Certainty::Proven {
        return;
    }
    for node in cluster.nodes.items() {
        for (name, on) in &node.keys(old).skyhooks {
            if !on.has_keys() {
                continue;
            }
            let Some(why) = cluster.old_keys_left(node, name, old) else {
                continue;
            };
            findings
                .report(
                    Subject::node(&node.name, Some(name)),
                    format!("the node still has annotations or labels of the old operator for {name}: {why}"),
                )
                .evidence(
                    format!("node/{}", node.name),
                    format!("keys of {}", old.group()),
                    name,
                )
                .remedy(Grade::B0, "List all leftovers", ["leftovers"])
                .remedy(Grade::B1, "Remove the leftovers", ["leftovers", "--clean"])
                .caveat("after a rollback the old operator would not know what is installed");
        }
    }
}
