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
        let all_in = |compartment: &str| -> Vec<&Node> {
            let of = |n: &&Node| {
                let own = model.compartment_of(skyhook, n);
                own.is_none_or(|own| own == compartment)
            };
            open.iter().copied().filter(of).collect()
        };
        for compartment in skyhook.stopped_compartments() {
            let held = all_in(compartment);
            if !held.is_empty() {
                report(cluster, findings, skyhook, compartment, &held);
            }
        }
    }
}

fn report(cluster: &Cluster, findings: &mut Findings, skyhook: &Skyhook, compartment: &str, held: &[&Node]) {
    let resumed = findings.resumed();
    let name = skyhook.name();
    let failed = |n: &&&Node| cluster.status_on(skyhook, n) == Status::Erroring;
    let names =
        |nodes: &[&&Node]| -> String { some_of(&nodes.iter().map(|n| n.name.as_str()).collect::<Vec<_>>()) };
    let failed: Vec<&&Node> = held.iter().filter(failed).collect();
    let only = skyhook.status.compartment_statuses.len() < 2;
    let place =
        if only { String::new() } else { format!(" in compartment {}", compartment_title(compartment)) };
    let finding = findings.report(
        Subject::skyhook(skyhook),
        format!(
            "the rollout of {skyhook} has stopped{place}: too many nodes failed, and the unfinished nodes \
             are no longer chosen for a batch{}",
            if skyhook.disabled() { "; the custom resource is also disabled" } else { "" }
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
        finding.waits_for_node(name, &node.name);
    }
    if !failed.is_empty() {
        finding.evidence("nodes", "failed", names(&failed));
    }
    finding.remedy("See which nodes failed, and repair them first", ["node", "list", "--skyhook", name]);
    if skyhook.disabled() {
        let enable = resumed.everywhere(skyhook);
        enable.offer(finding, "Enable the custom resource first", "enable").by_choice();
    }
    let title = if only { "Let the rollout continue" } else { "Let the rollout of the compartment continue" };
    let compartment = (!only).then_some(compartment);
    finding
        .reset_batches(title, skyhook, compartment)
        .caveat("a node with a permanently failed job stays failed, and stops the rollout again")
        .outlasts_cause();
    if skyhook.disabled() {
        finding.caveat("nothing runs until the custom resource is enabled");
    }
}
