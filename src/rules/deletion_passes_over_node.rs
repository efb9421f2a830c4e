use super::evidence::some_of;
use super::{Findings, Subject};
use crate::api::{Executor, Skyhook, State, Status};
use crate::cluster::deletion::Pending;
use crate::cluster::{Certainty, Cluster};

rule! {
    /// A deletion skips a node on which a package has yet to be uninstalled.
    ///
    /// # What it means
    ///
    /// Other nodes are uninstalled already. They stay `in_progress` until the custom resource is
    /// gone, and while any node is in progress, the operator works only on nodes in progress. So this node is
    /// never processed, and the deletion waits for it.
    ///
    /// # What causes it
    ///
    /// The node was blocked when the deletion was requested: it was ignored, tainted, or waited for
    /// an earlier custom resource. It is no longer blocked, but the operator does not return to it.
    ///
    /// # How to confirm
    ///
    /// The node's status is not `in_progress`, a package that declares an uninstall is recorded on
    /// it, other nodes are in progress with nothing left to uninstall, and no pod is running.
    ///
    /// # How to fix
    ///
    /// Retry the package on the node: its status is set to `in_progress`, the operator continues there
    /// within seconds, and uninstalls. Or reset the package on the node, which drops its record without an uninstall.
    ///
    /// # Since
    ///
    /// Operators that clean up in the finalizer (v0.16.0); seen with v0.17.0.
    SKY114 "deletion-passes-over-node" Error needs Skyhooks Nodes Pods, also Policies Operator,
        blocks Deletion Uninstall
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    // What the newer operator does is not known.
    if cluster.flavor().executor() != Executor::Pod
        || cluster.certainty_of_no_package_run() == Certainty::Unknown
    {
        return;
    }
    let package_runs = cluster.package_runs();
    let deleting = cluster.skyhooks.items().iter().filter(|s| s.deleting());
    for skyhook in deleting.filter(|s| s.runs() && !cluster.policy_missing(s)) {
        let pending = cluster.pending_uninstalls(skyhook);
        let busy = done_and_in_progress(cluster, skyhook, &pending);
        if busy.is_empty() || package_runs.any_alive(skyhook.name()) {
            continue;
        }
        for p in pending.iter().filter(|p| passed_over(cluster, skyhook, p)) {
            let finding = findings.report(
                Subject::on(skyhook, p.node).package(p.name),
                format!(
                    "deletion of {skyhook} skips the node: package {} is not uninstalled yet, but the operator \
                     works only on nodes with status in_progress, and those are already done",
                    p.name
                ),
            );
            finding
                .since(skyhook.metadata.deletion_timestamp)
                .entry(&p.node.name, p.entry)
                .evidence(p.node, "operator's status", p.on.operator_status().as_str())
                .evidence(
                    "nodes",
                    "in progress, but already uninstalled",
                    some_of(&busy),
                )
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

/// The nodes whose status stays in_progress although nothing is left to do on them.
fn done_and_in_progress<'a>(
    cluster: &'a Cluster,
    skyhook: &'a Skyhook,
    pending: &[Pending<'_>],
) -> Vec<&'a str> {
    cluster
        .selected(skyhook)
        .filter(|n| pending.iter().all(|p| p.node.name != n.name))
        .filter(|n| cluster.status_on(skyhook, n) == Status::InProgress)
        .map(|n| n.name.as_str())
        .collect()
}

/// Whether nothing else keeps the operator from the node. Up to v0.16 it never continues a package that was skipped, on
/// whatever node it works.
fn passed_over(cluster: &Cluster, skyhook: &Skyhook, p: &Pending<'_>) -> bool {
    p.on.operator_status() != Status::InProgress
        && p.entry.state != State::Erroring
        && !(p.entry.state == State::Skipped && cluster.operator_before(0, 17))
        && !p.on.is_malformed()
        && !p.node.ignored(cluster.flavor())
        && cluster.untolerated_by(skyhook, p.node).is_empty()
        && !cluster.compartment_stopped(skyhook, p.node)
        && cluster.gate_everywhere(skyhook).is_none()
        && cluster.gate_on(skyhook, p.node).is_none()
}
