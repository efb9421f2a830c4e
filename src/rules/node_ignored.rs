use super::evidence::{LOOK_AGAIN, grade_of_going_on};
use super::{Findings, Subject};
use crate::cluster::Cluster;

rule! {
    /// A node with work left is ignored.
    ///
    /// # What it means
    ///
    /// The node carries the label `ignore=true`. The operator starts nothing there, for any custom
    /// resource, and each of them stays incomplete.
    ///
    /// # How it comes about
    ///
    /// Someone took the node out by hand, and it was not put back.
    ///
    /// # How to confirm
    ///
    /// The label on the node, and packages that are not complete there; the condition `NodesIgnored`.
    ///
    /// # How to fix
    ///
    /// Remove the label when the node may be worked on again.
    ///
    /// # Since
    ///
    /// Operators v0.11.0 and later.
    SKY304 "node-ignored" Warning needs Skyhooks Nodes
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let generation = cluster.generation();
    for skyhook in cluster.skyhooks.items().iter().filter(|s| !s.disabled()) {
        for node in cluster.selected(skyhook) {
            if !node.ignored(generation) || cluster.is_complete_on(skyhook, node) {
                continue;
            }
            let progress = skyhook.progress(cluster.on_node(node, skyhook.name()));
            findings
                .report(
                    Subject::node(&node.name, Some(skyhook.name())),
                    format!(
                        "is ignored, so {} does not get on here",
                        skyhook.reference()
                    ),
                )
                .evidence(
                    format!("node/{}", node.name),
                    format!("label {}", generation.key("ignore")),
                    "true",
                )
                .evidence(
                    skyhook.reference(),
                    "packages complete here",
                    format!("{} of {}", progress.complete, progress.total),
                )
                .remedy(
                    grade_of_going_on(cluster, skyhook, Some(node)),
                    "Let the operator work on it again",
                    ["node", "unignore", &node.name],
                )
                .caveat(match skyhook.deleting() {
                    true => LOOK_AGAIN,
                    false => "packages run at once, with the interrupts that they have",
                });
        }
    }
}
