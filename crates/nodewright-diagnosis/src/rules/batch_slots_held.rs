use super::support::evidence::some_of;
use super::support::standstill::{Standstill, stands_still};
use super::{Findings, Severity, Subject};
use crate::cluster::Cluster;
use crate::model::{Predecessor, profile};
use crate::text::{distinct, plural};

rule! {
    /// Nodes that wait for an earlier custom resource take up the slots of a batch.
    ///
    /// # What it means
    ///
    /// The operator also chooses nodes on which an earlier custom resource is not complete. Such nodes cannot
    /// start, but keep their slots in the batch. While they take up the whole batch, available nodes are not
    /// started, regardless of the budget.
    ///
    /// # What causes it
    ///
    /// The earlier custom resource is slow or stuck on some nodes, and this one has a budget.
    ///
    /// # How to confirm
    ///
    /// `status.nodePriority` lists only nodes with the status `waiting`, on which an earlier custom
    /// resource is not complete; others with work left are not listed.
    ///
    /// # How to fix
    ///
    /// Repair the earlier custom resource: its problem is reported as a separate finding. Or ignore the nodes
    /// that take up the slots, and the others on which it is stuck: the operator chooses in no particular
    /// order, and one of them could block the next batch. A raised budget alone does not help: the operator
    /// forms no other batch until all nodes of the current batch are complete.
    ///
    /// # Affected versions
    ///
    /// Operators v0.15.0 and later.
    ///
    /// # Severity
    ///
    /// An error if the earlier custom resource is stuck, and a warning while it makes progress.
    SKY312 "batch-slots-held" Warning needs Skyhooks Nodes, also Policies Pods Jobs,
        blocks Install, retried true, finds HeldNodes
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    if !profile::records_batches(cluster) {
        return;
    }
    let (model, package_runs) = (findings.model(), findings.package_runs());
    let mut standstill = Standstill::of(cluster, findings);
    let mut ordered: Vec<_> = cluster.skyhooks.iter().collect();
    ordered.sort_by_key(|s| s.order());
    for skyhook in ordered.into_iter().filter(|s| s.has_batches() && !s.deleting()) {
        for batch in findings.batches(skyhook) {
            let waiting = &batch.waiting;
            let predecessors: Vec<_> = batch
                .chosen
                .iter()
                .filter(|n| profile::blocked_nodes_keep_places(cluster) || !n.ignored(cluster.flavor()))
                .filter_map(|n| model.predecessor_on(skyhook, n))
                .collect();
            let (Some(first), false) = (predecessors.first(), waiting.is_empty()) else {
                continue;
            };
            if !stands_still(cluster, &model, standstill.troubles(), &package_runs, skyhook, &batch) {
                continue;
            }
            let troubles = predecessors
                .iter()
                .map(|p| standstill.trouble(cluster, p.skyhook, p.node).map(|t| (t.severity, t.permanent)));
            // The batch continues as soon as one predecessor finishes, so the least severe problem counts.
            let (severity, lasts) = troubles.min().flatten().unwrap_or((Severity::Warning, false));
            let holders: Vec<&str> = predecessors.iter().map(|p| p.node.name.as_str()).collect();
            let earlier = distinct(predecessors.iter().map(|p| p.skyhook.to_string()));
            let finding = findings.report(
                Subject::skyhook(skyhook),
                format!(
                    "the slots in the batch of {skyhook} are taken by nodes that wait for {}, so the operator does not choose {}",
                    earlier.join(", "),
                    plural(waiting.len(), "available node")
                ),
            );
            finding
                .severity(severity.max(Severity::Warning))
                .set_blocked_nodes(waiting)
                .evidence(
                    skyhook,
                    format!("status.nodePriority of compartment {}", batch.compartment),
                    some_of(&holders),
                )
                .evidence("nodes", "available, but not chosen", some_of(waiting))
                .list_nodes("See the nodes of the earlier custom resource", first.skyhook);
            if !lasts {
                finding.mark_transient();
            }
            if finding.severity == Severity::Error {
                let stuck = |predecessor: &Predecessor<'_>| {
                    let trouble = standstill.trouble(cluster, predecessor.skyhook, predecessor.node);
                    trouble.is_some_and(|t| t.severity == Severity::Error)
                };
                let next: Vec<&str> = batch
                    .others
                    .iter()
                    .filter(|n| !n.ignored(cluster.flavor()))
                    .filter_map(|n| model.predecessor_on(skyhook, n).filter(stuck))
                    .map(|predecessor| predecessor.node.name.as_str())
                    .collect();
                if !next.is_empty() {
                    finding.evidence("nodes", "could block the next batch", some_of(&next));
                }
                finding.ignore_nodes(
                    cluster,
                    skyhook,
                    &[holders, next].concat(),
                    "Ignore these nodes until the earlier custom resource is repaired, so that available nodes are chosen",
                );
            }
            for predecessor in &predecessors {
                finding.waits_for_predecessor(predecessor);
            }
            standstill.hold(finding);
        }
    }
}
