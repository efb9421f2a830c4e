use super::support::evidence::some_of;
use super::{Findings, Subject};
use crate::api::{Executor, Skyhook, State, Status};
use crate::cluster::placement::Pending;
use crate::cluster::{Certainty, Cluster, Node};
use crate::model::Model;

rule! {
    /// A deletion skips a node on which a package has yet to be uninstalled.
    ///
    /// # What it means
    ///
    /// Other nodes are uninstalled already. The operator keeps choosing them until the custom resource is
    /// deleted: the nodes whose status is `in_progress`, or, if there are none, the nodes in
    /// `status.nodePriority` that are not complete. As long as it has such nodes, it chooses no other node.
    /// So this node is never processed, and the deletion waits for it.
    ///
    /// # What causes it
    ///
    /// The node was blocked when the deletion was requested: it was ignored, tainted, or waited for an
    /// earlier custom resource. It is no longer blocked, but the operator does not return to it. After a
    /// pause and a resume, all nodes are `waiting`, and the nodes that were chosen before are still in
    /// `status.nodePriority`.
    ///
    /// # How to confirm
    ///
    /// A package that declares an uninstall is recorded on the node, and no pod is running. The node's status
    /// is not `in_progress`. Other nodes have nothing left to uninstall, and are `in_progress`; or no node is
    /// `in_progress`, and `status.nodePriority` contains other nodes and not this one.
    ///
    /// # How to fix
    ///
    /// Retry the package on the node: its status is set to `in_progress`, the operator continues there within
    /// seconds, and uninstalls. Or reset the package on the node, which drops its record without an
    /// uninstall.
    ///
    /// # Affected versions
    ///
    /// Operators that clean up in the finalizer (v0.16.0); seen with v0.17.0.
    SKY114 "deletion-passes-over-node" Error needs Skyhooks Nodes Pods, also Policies Operator,
        blocks Deletion Uninstall
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    // Whether the newer operator skips nodes is unknown.
    if cluster.flavor().executor() != Executor::Pod
        || cluster.certainty_of_no_package_run() == Certainty::Unknown
    {
        return;
    }
    let package_runs = findings.package_runs();
    let model = findings.model();
    let deleting = cluster.skyhooks.iter().filter(|s| s.deleting());
    for skyhook in deleting.filter(|s| s.is_active() && !cluster.policy_missing(s)) {
        let pending = cluster.pending_uninstalls(skyhook);
        if pending.is_empty() || package_runs.any_alive(skyhook.name()) {
            continue;
        }
        for p in pending.iter().filter(|p| may_be_chosen(cluster, &model, skyhook, p)) {
            let chosen = model.chosen_beside(skyhook.name(), p.node);
            let done = |node: &&&Node| pending.iter().all(|p| p.node.name != node.name);
            let done: Vec<&str> = chosen.iter().filter(done).map(|n| n.name.as_str()).collect();
            if done.is_empty() || chosen.iter().any(|n| n.name == p.node.name) {
                continue;
            }
            let (why, field) = if !chosen.iter().any(|n| cluster.status_on(skyhook, n) == Status::InProgress)
            {
                (
                    "the operator works only on the nodes of its current batch, and those are already done",
                    "in status.nodePriority, but already uninstalled",
                )
            } else {
                (
                    "the operator works only on nodes with status in_progress, and those are already done",
                    "in progress, but already uninstalled",
                )
            };
            findings
                .report(
                    Subject::skyhook_on_node(skyhook, p.node).package(p.name),
                    format!(
                        "deletion of {skyhook} skips the node: package {} is not uninstalled yet, but {why}",
                        p.name
                    ),
                )
                // While another package of the node fails, a change of the node's status has no effect.
                .waits_for_node(skyhook.name(), &p.node.name)
                .effect_of(&["SKY101"])
                .since(skyhook.metadata.deletion_timestamp)
                .entry(&p.node.name, p.entry)
                .evidence(p.node, "operator's status", p.on.operator_status().as_str())
                .evidence("nodes", field, some_of(&done))
                .no_package_run(cluster, "package pods")
                .set_in_progress(
                    "Set the node's status to in_progress, so that the operator works on it",
                    skyhook,
                    &p.node.name,
                    p.name,
                )
                .skip_uninstall(skyhook.name(), &p.node.name, p.entry);
        }
    }
}

/// Whether the operator's choice of nodes is the only known reason why the node is not processed. Up to v0.16
/// the operator never continues a skipped package on any node.
fn may_be_chosen(cluster: &Cluster, model: &Model<'_>, skyhook: &Skyhook, p: &Pending<'_>) -> bool {
    let has_other_finding = p.entry.state == State::Erroring
        || p.entry.state == State::Skipped
            && crate::model::profile::continues_skipped_packages(cluster) == Some(false)
        || p.begins_next()
        || p.on.is_malformed()
        || p.node.ignored(cluster.flavor())
        || !cluster.untolerated_by(skyhook, p.node).is_empty();
    !has_other_finding
        && !model.is_stopped(skyhook, p.node)
        && model.predecessor_everywhere(skyhook).is_none()
        && model.predecessor_on(skyhook, p.node).is_none()
}
