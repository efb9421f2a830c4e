use super::support::evidence::{failing_since, some_of};
use super::support::standstill::{Trouble, stands_still, stuck_in_batch};
use super::{Findings, Subject};
use crate::api::{Skyhook, Status};
use crate::cluster::{Cluster, Node};
use crate::model::profile;
use crate::plan::planners::batches;

rule! {
    /// A node that makes no progress blocks the whole batch.
    ///
    /// # What it means
    ///
    /// The operator finishes the nodes of a batch before it forms the next. A node of the batch that
    /// fails, is stuck in progress, is ignored or is blocked by a taint never finishes, so no other
    /// node of the compartment is started, regardless of the budget. Nodes that join later wait as
    /// well. Before v0.20, a node in progress also keeps the operator from continuing on other nodes of the
    /// batch that are between two stages, for example after their interrupt: they stay cordoned (upstream
    /// issue 587). A deletion works on all nodes at once, without batches.
    ///
    /// # What causes it
    ///
    /// The image of a package cannot be pulled on the node, its drain is blocked, a protected workload runs
    /// there, or a package fails there. Or the node was ignored or tainted after the operator had chosen it.
    ///
    /// # How to confirm
    ///
    /// `status.nodePriority` lists the node and it is not complete, no other node of the batch makes
    /// progress, and other nodes with work left wait.
    ///
    /// # How to fix
    ///
    /// Repair the node; its problem is reported as a separate finding. Or remove the node from the batch: the
    /// next batch then forms without this node. The removal has no effect while the node's status is
    /// `in_progress`: the operator chooses such nodes before all others. With a deployment policy, it also
    /// has no effect on a node that counts as waiting.
    ///
    /// # Affected versions
    ///
    /// Operators v0.15.0 and later; from v0.20.0 on an ignored or tainted node no longer takes up a slot in
    /// the batch (upstream issue 585).
    ///
    /// # Severity
    ///
    /// From v0.20.0 on, only a warning for a node that fails or waits for a protected workload.
    SKY305 "batch-held-by-node" Error needs Skyhooks Nodes, also Policies Pods Jobs,
        blocks Install Uninstall, retried true, finds HeldNodes
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    if !profile::records_batches(cluster) {
        return;
    }
    let (model, package_runs) = (findings.model(), findings.package_runs());
    // Skip deletions: they run on all nodes at once.
    for skyhook in cluster.skyhooks.iter().filter(|s| s.has_batches() && !s.deleting()) {
        for batch in findings.batches(skyhook) {
            if batch.waiting.is_empty() && batch.passed_over.is_empty() {
                continue;
            }
            let troubles = findings.troubles();
            if !stands_still(cluster, &model, &troubles, &package_runs, skyhook, &batch) {
                continue;
            }
            let stuck = |n: &Node| stuck_in_batch(cluster, &troubles, skyhook, n);
            let stalled: Vec<&str> =
                batch.passed_over.iter().filter(|n| stuck(n).is_none()).map(|n| n.name.as_str()).collect();
            let leaves = |node: &Node| {
                let blocked =
                    node.ignored(cluster.flavor()) || !cluster.untolerated_by(skyhook, node).is_empty();
                blocked && !profile::blocked_nodes_keep_places(cluster)
            };
            for node in batch.chosen.iter().filter(|node| !leaves(node)) {
                // The batch's other nodes wait only for nodes in progress.
                let in_progress = cluster.status_on(skyhook, node) == Status::InProgress;
                let stalled = if in_progress { &*stalled } else { &[] };
                if let Some(trouble) = stuck(node) {
                    report(cluster, findings, skyhook, node, &trouble, [&batch.waiting, stalled]);
                }
            }
        }
    }
}

/// `waiting`: nodes outside the batch. `stalled`: nodes of the batch that have no problem of their own.
fn report(
    cluster: &Cluster,
    findings: &mut Findings,
    skyhook: &Skyhook,
    node: &Node,
    trouble: &Trouble,
    [waiting, stalled]: [&[&str]; 2],
) {
    let so = match (waiting.is_empty(), stalled.is_empty()) {
        (true, true) => return,
        (true, false) => "work on the batch's other nodes does not continue",
        (false, true) => "no other node joins the batch",
        (false, false) => "no other node joins the batch, and work on its other nodes does not continue",
    };
    let finding = findings.report(
        Subject::skyhook_on_node(skyhook, node),
        format!("the node {} and keeps its slot in the batch of {skyhook}, so {so}", trouble.why),
    );
    finding
        .severity(trouble.severity)
        .waits_for_node(skyhook.name(), &node.name)
        .set_blocked_nodes(&[waiting, stalled].concat())
        .set_failing_since(failing_since(cluster, skyhook, node))
        .since(skyhook.status.node_priority.get(&node.name).copied().flatten())
        .evidence(skyhook, "status.nodePriority", &node.name)
        .evidence("nodes", "making progress", "none");
    for (field, nodes) in [("waiting", waiting), ("in the batch, but stalled", stalled)] {
        if !nodes.is_empty() {
            finding.evidence("nodes", field, some_of(nodes));
        }
    }
    let name = node.name.as_str();
    finding.remedy(
        "Check why the node makes no progress, and fix the cause",
        ["node", "status", name, "-o", "wide"],
    );
    if !batches::keeps_place(cluster, skyhook, node) {
        finding
            .remedy(
                "Remove the node from the batch, so that the next batch forms without it",
                ["deployment-policy", "reset", skyhook.name(), "--node", name],
            )
            .caveat("the next batch may start immediately; the node itself may be chosen again later");
    }
    if node.ignored(cluster.flavor()) {
        finding
            .remedy("Or stop ignoring the node", ["node", "unignore", name])
            .caveat("packages may run on the node immediately, including their interrupts");
    }
}
