use super::support::evidence::some_of;
use super::{Findings, Subject};
use crate::api::Status;
use crate::cluster::{Cluster, Node};
use crate::model::profile;
use crate::text::plural;

rule! {
    /// Blocked nodes fill every batch, and available nodes are never chosen.
    ///
    /// # What it means
    ///
    /// A node that is no longer ignored or tainted keeps the status `blocked`, and the operator chooses every
    /// node that is `waiting` before it. A node that is still ignored or tainted and also waits for an
    /// earlier custom resource is `waiting` again in each reconcile, is chosen, and is skipped. If there are
    /// as many such nodes as a batch has slots, the available nodes are never chosen.
    ///
    /// # What causes it
    ///
    /// Some nodes were ignored for some time and no longer are. Other nodes are still ignored, and an earlier
    /// custom resource is not complete on them. The budget or the deployment policy allows no more nodes at
    /// once than there are nodes of this second kind.
    ///
    /// # How to confirm
    ///
    /// `status.nodePriority` lists no node with work left. The available nodes have the status `blocked`,
    /// without the label `ignore` and without a taint that is not tolerated; the others change between
    /// `waiting` and `blocked` every two seconds.
    ///
    /// # How to fix
    ///
    /// Pause the custom resource and resume it: all of its nodes are `waiting` then, and the available ones
    /// are chosen sooner or later. Or repair the earlier custom resource on the nodes that are still ignored.
    ///
    /// # Affected versions
    ///
    /// Operators v0.15.0 up to v0.19.
    SKY314 "batch-of-ignored-nodes" Error needs Skyhooks Nodes, also Policies,
        blocks Install, finds HeldNodes
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    if !profile::records_batches(cluster) || !profile::blocked_nodes_keep_places(cluster) {
        return;
    }
    let model = findings.model();
    for skyhook in cluster.skyhooks.iter().filter(|s| s.is_active() && !s.deleting()) {
        let ignored =
            |node: &Node| node.ignored(cluster.flavor()) || !cluster.untolerated_by(skyhook, node).is_empty();
        for batch in findings.batches(skyhook) {
            let free = &batch.waiting;
            let blocked = |name: &&str| {
                cluster.node(name).is_some_and(|n| cluster.status_on(skyhook, n) == Status::Blocked)
            };
            if free.is_empty() || !batch.chosen.is_empty() || !free.iter().all(blocked) {
                continue;
            }
            let left_out: Vec<&str> = batch
                .others
                .iter()
                .filter(|n| ignored(n) && model.predecessor_on(skyhook, n).is_some())
                .map(|n| n.name.as_str())
                .collect();
            let as_many = i64::try_from(left_out.len()).unwrap_or(i64::MAX);
            let places = model.nodes_at_once(skyhook.name(), batch.compartment);
            if places.limit().is_none_or(|places| places > as_many) {
                continue;
            }
            findings
                .report(
                    Subject::skyhook(skyhook),
                    format!(
                        "the operator repeatedly chooses {}, and does not choose {}",
                        plural(left_out.len(), "ignored or tainted node"),
                        plural(free.len(), "available node")
                    ),
                )
                .set_blocked_nodes(free)
                .evidence(
                    "nodes",
                    "ignored or tainted, and waiting for an earlier custom resource",
                    some_of(&left_out),
                )
                .evidence("nodes", "available, with status blocked", some_of(free))
                .remedy(
                    "Pause the custom resource, and wait until its status is paused",
                    ["pause", skyhook.name()],
                )
                .caveat("running stages run to completion")
                .remedy("Then resume the custom resource", ["resume", skyhook.name()])
                .caveat(
                    "the available nodes are then chosen, and packages run there, including their interrupts",
                )
                // The resume has no effect alone: it must follow the pause.
                .by_choice();
        }
    }
}
