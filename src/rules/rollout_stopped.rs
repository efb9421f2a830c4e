use super::evidence::some_of;
use super::{Findings, Grade, Subject};
use crate::api::Status;
use crate::cluster::Cluster;
use crate::cluster::compartment::stopped_compartments;

rule! {
    /// A rollout has stopped because too many nodes failed.
    ///
    /// # What it means
    ///
    /// The deployment policy limits how many batches in a row may fail. The limit was reached, so
    /// the operator chooses no further node of the compartment, not even one that is in the middle
    /// of a package. The status of the custom resource then often says just `unknown`.
    ///
    /// # How it comes about
    ///
    /// A package fails on the nodes of a batch. Operators before v0.20.0 count a single failed
    /// attempt, even one that succeeds later.
    ///
    /// # How to confirm
    ///
    /// `status.compartmentStatuses.NAME.batchState.shouldStop` is true, and nodes of the compartment
    /// are not complete.
    ///
    /// # How to fix
    ///
    /// Repair the nodes that failed first, then reset the batch state. A node that is still erroring
    /// is counted again at once, and the rollout stops again.
    ///
    /// # Since
    ///
    /// Operators with deployment policies (v0.10.0).
    SKY301 "rollout-stopped" Error needs Skyhooks Nodes
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    for skyhook in cluster.skyhooks.items().iter().filter(|s| s.runs()) {
        let stopped: Vec<&str> = stopped_compartments(skyhook).collect();
        if stopped.is_empty() {
            continue;
        }
        let (mut held, mut failed) = (Vec::new(), Vec::new());
        for node in cluster.selected(skyhook) {
            if cluster.is_complete_on(skyhook, node) || !cluster.compartment_stopped(skyhook, node)
            {
                continue;
            }
            held.push(node.name.as_str());
            let on = cluster.on_node(node, skyhook.name());
            if on.is_some_and(|on| on.operator_status() == Status::Erroring) {
                failed.push(node.name.as_str());
            }
        }
        if held.is_empty() {
            continue;
        }
        let finding = findings.report(
            Subject::skyhook(skyhook),
            format!(
                "the rollout of {} has stopped: too many nodes failed, and the other nodes with \
                 work left are no longer chosen",
                skyhook.reference()
            ),
        );
        for name in &stopped {
            let Some(status) = skyhook.status.compartment_statuses.get(*name) else {
                continue;
            };
            let batch = status.batch_state.clone().unwrap_or_default();
            finding.evidence(
                skyhook.reference(),
                format!("compartment {name}"),
                format!(
                    "shouldStop; failed batches in a row: {}; nodes complete: {} of {}",
                    batch.consecutive_failures, status.completed, status.matched
                ),
            );
        }
        finding
            .evidence(
                skyhook.reference(),
                "spec.deploymentPolicy",
                &skyhook.spec.deployment_policy,
            )
            .evidence("nodes", "not complete", some_of(&held));
        if !failed.is_empty() {
            finding.evidence("nodes", "failed", some_of(&failed));
        }
        finding
            .remedy(
                Grade::B0,
                "See which nodes failed, and repair them first",
                ["node", "list", "--skyhook", skyhook.name()],
            )
            .remedy(
                Grade::B2,
                "Then let the rollout go on",
                ["deployment-policy", "reset", skyhook.name()],
            )
            .caveat("a node that is still erroring is counted again and stops the rollout again");
    }
}
