use super::support::evidence::some_of;
use super::{Findings, Severity, Subject};
use crate::api::skyhook::compartment_title;
use crate::api::{Skyhook, Status};
use crate::cluster::{Cluster, Node};

rule! {
    /// A rollout has stopped because too many nodes failed.
    ///
    /// # What it means
    ///
    /// The deployment policy limits how many batches in a row may fail in a compartment. The limit was
    /// reached, so the operator starts no further node of the compartment, not even one that is in the middle of
    /// a package; other compartments continue. The status of the custom resource is then often just `unknown`.
    ///
    /// # What causes it
    ///
    /// A package fails on the nodes of a batch. Operators before v0.20.0 count a single failed attempt, even
    /// if a later attempt succeeds.
    ///
    /// # How to confirm
    ///
    /// `status.compartmentStatuses.NAME.batchState.shouldStop` is true, and nodes of the compartment
    /// are not complete.
    ///
    /// # How to fix
    ///
    /// Repair the failed nodes first, then reset the batch state. A node that is still erroring
    /// is counted again at once, and the rollout stops again.
    ///
    /// # Affected versions
    ///
    /// Operators with deployment policies (v0.10.0).
    SKY301 "rollout-stopped" Error needs Skyhooks Nodes,
        blocks Install Uninstall
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let model = findings.model();
    // Another rule reports paused custom resources.
    for skyhook in cluster.skyhooks.iter().filter(|s| s.is_active() || s.disabled()) {
        let open: Vec<&Node> = model.unfinished(skyhook).collect();
        for compartment in skyhook.stopped_compartments() {
            let of = |n: &&Node| model.compartment_of(skyhook, n).is_none_or(|own| own == compartment);
            let held: Vec<&Node> = open.iter().copied().filter(of).collect();
            if !held.is_empty() {
                report(cluster, findings, skyhook, compartment, &held);
            }
        }
    }
}

fn report(cluster: &Cluster, findings: &mut Findings, skyhook: &Skyhook, compartment: &str, held: &[&Node]) {
    let name = skyhook.name();
    let failed = held.iter().filter(|n| cluster.status_on(skyhook, n) == Status::Erroring);
    let failed: Vec<&str> = failed.map(|n| n.name.as_str()).collect();
    let only = skyhook.status.compartment_statuses.len() < 2;
    let place =
        if only { String::new() } else { format!(" in compartment {}", compartment_title(compartment)) };
    let finding = findings.report(
        Subject::skyhook(skyhook),
        format!(
            "the rollout of {skyhook} has stopped{place}: too many nodes failed, and the unfinished nodes \
             are no longer chosen for a batch"
        ),
    );
    if skyhook.disabled() {
        finding.severity(Severity::Warning).mark_permanent();
    }
    let waiting: Vec<&str> = held.iter().map(|n| n.name.as_str()).collect();
    finding.set_blocked_nodes(&waiting);
    if let Some(status) = skyhook.status.compartment_statuses.get(compartment) {
        let batch = status.batch_state.clone().unwrap_or_default();
        finding.evidence(
            skyhook,
            format!("compartment {compartment}"),
            format!(
                "shouldStop: true; failed batches in a row: {}; nodes complete: {} of {}",
                batch.consecutive_failures, status.completed, status.matched
            ),
        );
    }
    finding.evidence(skyhook, "spec.deploymentPolicy", &skyhook.spec.deployment_policy).evidence(
        "nodes",
        "not complete",
        some_of(&waiting),
    );
    for node in &failed {
        finding.waits_for_node(name, node);
    }
    if !failed.is_empty() {
        finding.evidence("nodes", "failed", some_of(&failed));
    }
    finding.list_nodes("See which nodes failed, and repair them first", skyhook);
    if skyhook.disabled() {
        finding.offer_resume(cluster, skyhook, "Enable the custom resource first", "enable");
    }
    let title = if only { "Let the rollout continue" } else { "Let the rollout of the compartment continue" };
    let compartment = (!only).then_some(compartment);
    finding
        .reset_batches(title, skyhook, compartment)
        .caveat(if skyhook.disabled() {
            "nothing runs until the custom resource is enabled"
        } else {
            "a node with a permanently failed job stays failed, and stops the rollout again"
        })
        .outlasts_cause();
}
