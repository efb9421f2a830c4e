use super::{Findings, Subject};
use crate::api::Status;
use crate::cluster::{Certainty, Cluster, Node, Source};

rule! {
    /// The counters of a batch are higher than the number of nodes.
    ///
    /// # What it means
    ///
    /// The batch state records more complete or failed nodes than there are. The operator corrects the counters only in
    /// memory, so batches are no longer evaluated: the batch size stays as it is, and a limit on failures has no
    /// effect.
    ///
    /// # What causes it
    ///
    /// Nodes left the selection, or complete nodes received new work, without the batch state being
    /// reset.
    ///
    /// # How to confirm
    ///
    /// `batchState.completedNodes` or `failedNodes` is higher than the number of nodes of the
    /// compartment with that status, with no node in progress and the operator up to date.
    ///
    /// # How to fix
    ///
    /// Reset the batch state.
    ///
    /// # Affected versions
    ///
    /// v0.15.0 to v0.19.1 (upstream issue 588).
    SKY310 "batch-counters-frozen" Warning needs Skyhooks Nodes Pods, also Policies Jobs
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let absence = cluster.certainty_of_no_package_run();
    if !crate::model::profile::keeps_batch_counters(cluster) || absence == Certainty::Unknown {
        return;
    }
    let (model, package_runs) = (findings.model(), findings.package_runs());
    for skyhook in cluster.skyhooks.iter().filter(|s| s.is_active() && !s.deleting()) {
        let status = |node: &Node| cluster.status_on(skyhook, node);
        let at_work = cluster.selected(skyhook).any(|n| status(n) == Status::InProgress)
            || package_runs.any_alive(skyhook.name());
        // Skip nodes with status complete: without other nodes, the operator has no batch to evaluate.
        let mut open = model.actionable_nodes(skyhook);
        open.retain(|n| status(n) != Status::Complete);
        if at_work || open.is_empty() || !skyhook.is_observed() {
            continue;
        }
        if cluster.policy_not_read(skyhook) {
            findings.depends_on(Source::Policies);
        }
        for (name, compartment) in &skyhook.status.compartment_statuses {
            let Some(batch) = compartment.batch_state.as_ref().filter(|b| !b.should_stop) else {
                continue;
            };
            let of: Vec<&Node> = cluster
                .selected(skyhook)
                .filter(|n| model.compartment_of(skyhook, n) == Some(name))
                .collect();
            let count = |wanted: Status| -> i64 {
                let nodes = of.iter().filter(|n| status(n) == wanted).count();
                i64::try_from(nodes).unwrap_or(i64::MAX)
            };
            let (complete, failed) = (count(Status::Complete), count(Status::Erroring));
            let ahead = batch.completed_nodes > complete || batch.failed_nodes > failed;
            let here = open.iter().any(|n| model.compartment_of(skyhook, n) == Some(name));
            if !ahead || !here || i64::try_from(of.len()) != Ok(compartment.matched) {
                continue;
            }
            findings
                .report(
                    Subject::skyhook(skyhook),
                    format!(
                        "the batch counters of compartment {name} are higher than its node counts, so \
                         batches are no longer evaluated"
                    ),
                )
                .evidence(
                    skyhook,
                    format!("compartment {name} batchState"),
                    format!("completedNodes {}, failedNodes {}", batch.completed_nodes, batch.failed_nodes),
                )
                .evidence(
                    "nodes",
                    "in the compartment",
                    format!("{complete} complete, {failed} erroring, of {}", of.len()),
                )
                .reset_batches("Reset the batch state", skyhook, None)
                .caveat("the rollout restarts with its initial batch size");
        }
    }
}
