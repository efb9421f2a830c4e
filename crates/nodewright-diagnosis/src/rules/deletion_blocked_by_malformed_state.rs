use super::{Findings, Subject};
use crate::cluster::Cluster;

rule! {
    /// Deletion is blocked by a node state that cannot be read.
    ///
    /// # What it means
    ///
    /// The custom resource is being deleted, a package declares an uninstall, and the node-state annotation
    /// of a node is not valid. The operator cannot determine whether anything is left to uninstall, so it
    /// stops (`DeletionBlocked`, reason `MalformedNodeState`). It also stops the work on every custom
    /// resource that comes after this one.
    ///
    /// # What causes it
    ///
    /// The annotation was edited by hand, or truncated by a tool.
    ///
    /// # How to confirm
    ///
    /// The annotation does not parse; the condition names only the first nodes, and truncates their names.
    ///
    /// # How to fix
    ///
    /// The operator keeps a copy of the state in the status of the custom resource: `reset --unreadable` writes it
    /// back. If there is no copy, reset the node: the record of its installed packages is lost, and its
    /// uninstall scripts do not run.
    ///
    /// # Affected versions
    ///
    /// Operators with explicit uninstall (v0.16.0).
    SKY108 "deletion-blocked-by-malformed-state" Error needs Skyhooks Nodes,
        blocks Deletion Reconcile
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    for skyhook in cluster.skyhooks.iter().filter(|s| s.deleting()) {
        let blocked = skyhook.true_condition("DeletionBlocked").filter(|c| c.reason == "MalformedNodeState");
        let uninstalls = skyhook.packages().any(|(_, p)| p.uninstall().enabled);
        let mut computed = false;
        for node in cluster.selected(skyhook).filter(|_| uninstalls) {
            let Some(on) = cluster.on_node(node, skyhook.name()) else {
                continue;
            };
            for malformed in on.state.iter().flat_map(|s| s.malformed()) {
                computed = true;
                let finding = findings.report(
                    Subject::node(&node.name, Some(skyhook.name())),
                    format!(
                        "deletion of {skyhook} is blocked: the node state cannot be read, so every reconcile of the operator fails"
                    ),
                );
                finding.since(skyhook.metadata.deletion_timestamp).evidence(
                    format!("node/{}", node.name),
                    &malformed.annotation,
                    &malformed.error,
                );
                if let Some(condition) = blocked {
                    finding.evidence(skyhook, "condition DeletionBlocked", &condition.reason);
                }
                finding.repair_node_state(skyhook, node, on);
            }
        }
        if let Some(condition) = blocked.filter(|_| !computed) {
            findings
                .report(
                    Subject::skyhook(skyhook),
                    format!(
                        "the operator reports that deletion of {skyhook} is blocked by a node state it cannot read"
                    ),
                )
                .condition(skyhook, condition, &condition.message)
                .evidence(
                    "nodes",
                    "nodeState",
                    "none of the nodes that were read has a malformed node state",
                )
                .node_status("Find the node", skyhook);
        }
    }
}
