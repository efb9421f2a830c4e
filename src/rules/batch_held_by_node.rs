use super::evidence::{failing_since, some_of};
use super::going_on::grade_of_going_on;
use super::standstill::{Trouble, stands_still, stuck_in_batch};
use super::{Findings, Grade, Subject};
use crate::api::{Skyhook, Status};
use crate::cluster::{Cluster, Node, Source};
use crate::plan::build::batches;

rule! {
    /// A node that makes no progress blocks the whole batch.
    ///
    /// # What it means
    ///
    /// The operator finishes the nodes of a batch before it forms the next. A node of the batch that
    /// fails, is stuck in progress, is ignored or is blocked by a taint never finishes, so no other
    /// node of the compartment is started, regardless of the budget. Nodes that join later wait as
    /// well. A deletion works on all nodes at once, without batches.
    ///
    /// # What causes it
    ///
    /// The image of a package cannot be pulled on the node, its drain is blocked, a protected
    /// workload runs there, or it fails. Or it was ignored or tainted after it had been chosen.
    ///
    /// # How to confirm
    ///
    /// `status.nodePriority` lists the node and it is not complete, no other node of the batch makes
    /// progress, and other nodes with work left wait.
    ///
    /// # How to fix
    ///
    /// Repair the node; its problem is reported as a separate finding. Or remove the node from the batch:
    /// the next batch then forms without this node. That has no effect while the operator has set the node to
    /// in_progress: such nodes are chosen before all others. With a deployment policy it has none either for a node that counts
    /// as waiting.
    ///
    /// # Since
    ///
    /// Operators v0.15.0 and later; from v0.20.0 on an ignored or tainted node no longer takes a place in the
    /// batch (upstream issue 585). From then on a failing node is only a warning here, and so is one
    /// that waits for a protected workload.
    SKY305 "batch-held-by-node" Error needs Skyhooks Nodes, also Policies Pods Jobs,
        blocks Install, retried true, finds HeldNodes
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    if cluster.operator_before(0, 15) {
        return;
    }
    let package_runs = cluster.package_runs();
    // A deletion works on all nodes at once.
    let all = cluster.skyhooks.items().iter();
    for skyhook in all.filter(|s| s.has_batches() && !s.deleting()) {
        if cluster.policy_not_read(skyhook) {
            findings.depends_on(Source::Policies);
        }
        for batch in cluster.batches(skyhook) {
            let waiting = batch.waiting();
            if waiting.is_empty() {
                continue;
            }
            let troubles = findings.troubles(cluster);
            if !stands_still(cluster, &troubles, &package_runs, skyhook, &batch) {
                continue;
            }
            for node in batch.chosen() {
                if let Some(trouble) = stuck_in_batch(cluster, &troubles, skyhook, node) {
                    report(cluster, findings, skyhook, node, &trouble, &waiting);
                }
            }
        }
    }
}

fn report(
    cluster: &Cluster,
    findings: &mut Findings,
    skyhook: &Skyhook,
    node: &Node,
    trouble: &Trouble,
    waiting: &[&str],
) {
    let finding = findings.report(
        Subject::node(&node.name, Some(skyhook.name())),
        format!(
            "the node {} and keeps its place in the batch of {}, so no other node joins it",
            trouble.why,
            skyhook.reference()
        ),
    );
    let joined = skyhook.status.node_priority.get(&node.name);
    finding
        .severity(trouble.severity)
        .waits_for_node(skyhook.name(), &node.name)
        .holds_up(waiting)
        .failing_since(failing_since(cluster, skyhook, node))
        .since(joined.copied().flatten())
        .evidence(skyhook.reference(), "status.nodePriority", &node.name)
        .evidence("nodes", "making progress", "none")
        .evidence("nodes", "waiting", some_of(waiting));
    let name = node.name.as_str();
    if trouble.on_node {
        finding.remedy(
            Grade::B0,
            "Check why the node makes no progress, and fix the cause",
            ["node", "status", name, "-o", "wide"],
        );
    }
    let on = cluster.on_node(node, skyhook.name());
    let status = on.map_or(Status::Unknown, |on| on.operator_status());
    let by_policy = !skyhook.spec.deployment_policy.is_empty();
    // Nodes in progress are chosen before all others, and with a policy the first waiting node is.
    if status != Status::InProgress && !(status == Status::Waiting && by_policy) {
        finding
            .remedy(
                batches::grade_of_next(skyhook),
                "Remove the node from the batch, so that the next batch forms without it",
                ["node", "leave-batch", name, "--skyhook", skyhook.name()],
            )
            .caveat("the next batch starts immediately; the node itself may be chosen again later");
    }
    if node.ignored(cluster.flavor()) {
        finding
            .remedy(
                grade_of_going_on(cluster, skyhook, Some(node)),
                "Or stop ignoring the node",
                ["node", "unignore", name],
            )
            .caveat("packages run there immediately, including their interrupts");
    }
}
