use super::{Blocks, Findings, Severity, Subject};
use crate::cluster::Cluster;
use crate::model::profile::reads_only_selected_states;

rule! {
    /// The node state of a custom resource cannot be read.
    ///
    /// # What it means
    ///
    /// The annotation with the state of every package on the node does not have the format that the operator
    /// writes. The operator then ends its reconcile: this custom resource, and all that come after it
    /// in order of priority, make no progress on any node.
    ///
    /// # What causes it
    ///
    /// The annotation was edited by hand, or truncated by a tool.
    ///
    /// # How to confirm
    ///
    /// The annotation does not parse; the condition `NodeStateMalformed` is true.
    ///
    /// # How to fix
    ///
    /// `reset --unreadable` restores the node state from the copy in the status of the custom resource. Where there
    /// is no copy, reset the node, after which its packages are installed again. Until then, pause the custom
    /// resource: from v0.16.0 on, the operator skips it and continues with the others.
    ///
    /// # Affected versions
    ///
    /// All operators; the condition since v0.16.0.
    ///
    /// # Severity
    ///
    /// From v0.16.0 on, a warning where the custom resource no longer selects the node.
    SKY206 "node-state-malformed" Error needs Skyhooks Nodes,
        blocks Install Uninstall Reconcile
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    // Older operators read the node state of every node.
    let reads_selected_only = reads_only_selected_states(cluster);
    // The operator skips paused custom resources. Before v0.16.0 it reads all node states at the start of
    // each pass.
    let pause_helps = cluster.operator().knows_uninstall();
    let all = cluster.skyhooks.items();
    let running = all.iter().filter(|s| s.is_active()).count();
    for skyhook in all {
        let others = running > usize::from(skyhook.is_active());
        let blocks_deletion = skyhook.deleting() && skyhook.packages().any(|(_, p)| p.uninstall().enabled);
        for (node, on) in cluster.tracked(skyhook.name()) {
            let selected = skyhook.selects(node);
            if blocks_deletion && selected {
                continue;
            }
            let left = !selected && reads_selected_only;
            let passed_over = skyhook.paused() && pause_helps;
            for malformed in on.state.iter().flat_map(|s| s.malformed()) {
                let finding = findings.report(
                    Subject::skyhook_on_node(skyhook, node),
                    format!(
                        "the node state of {skyhook} cannot be read{}",
                        if left {
                            "; the custom resource no longer selects the node, so nothing is blocked"
                        } else if passed_over {
                            "; the custom resource is paused, so the operator continues with the \
                             other custom resources"
                        } else {
                            ", so every reconcile of the operator fails"
                        }
                    ),
                );
                if left {
                    finding.severity(Severity::Warning).blocks_only(&[]);
                } else if passed_over {
                    finding.blocks_only(&[Blocks::Install, Blocks::Uninstall]);
                }
                finding.evidence(node, &malformed.annotation, &malformed.error);
                if let Some(condition) = skyhook.true_condition("NodeStateMalformed") {
                    finding.condition(skyhook, condition, &condition.reason);
                }
                finding.repair_node_state(skyhook, node, on);
                if pause_helps && !skyhook.paused() && !left && others {
                    finding
                        .remedy(
                            "Pause the custom resource in the meantime, so that the \
                             other custom resources continue",
                            ["pause", skyhook.name()],
                        )
                        .caveat("while the custom resource is paused, it makes no progress on any node");
                }
            }
        }
    }
}
