use jiff::Timestamp;

use super::support::evidence::{failing_since, open_entries};
use super::{Findings, Severity, Subject};
use crate::api::{Entry, Skyhook, Stage, State, Status, keys};
use crate::cluster::node::READY;
use crate::cluster::{Certainty, Cluster, Job, Node, NodeRecord, PackageRuns};
use crate::model::Model;

rule! {
    /// A node counts as failed, but no package on it is erroring.
    ///
    /// # What it means
    ///
    /// The operator marks the node as erroring and starts nothing more there, although no package on it
    /// is erroring. Under a deployment policy the node counts as failed.
    ///
    /// # What causes it
    ///
    /// A Job gave up and the record of it was lost, or someone changed the node's annotations by hand. A
    /// drain that timed out is a separate finding (SKY410).
    ///
    /// # How to confirm
    ///
    /// The node's status annotation is `erroring`, no entry of its node state is `erroring`, and nothing runs
    /// there for the custom resource. When a failed attempt is followed by a successful one, the node looks
    /// the same for some seconds. So nothing is reported within a minute of the operator's last write to the
    /// node; if the time of that write is unknown, this is a warning. In a stopped rollout, see SKY301.
    ///
    /// # How to fix
    ///
    /// Fix the cause shown in the operator's log. Then retry the stage that has failed permanently, or rerun
    /// the package; if none has started, reset the node, so that all packages start over there.
    ///
    /// # Affected versions
    ///
    /// All operators.
    SKY216 "node-erroring-without-cause" Error needs Skyhooks Nodes Pods Jobs,
        blocks Install Uninstall, retried true, finds Unexplained
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let (model, package_runs) = (findings.model(), findings.package_runs());
    for skyhook in cluster.skyhooks.iter().filter(|s| s.is_active()) {
        for node in model.unfinished(skyhook) {
            let on = cluster.on_node(node, skyhook.name());
            let Some(on) =
                on.filter(|on| is_without_cause(cluster, &model, &package_runs, skyhook, node, on))
            else {
                continue;
            };
            let troubles = findings.troubles();
            let explained = troubles
                .gravest_on(skyhook.name(), &node.name)
                .is_some_and(|f| f.severity == Severity::Error);
            if explained {
                continue;
            }
            let name = skyhook.name();
            let finding = findings.report(
                Subject::skyhook_on_node(skyhook, node),
                format!("the node counts as failed for {skyhook}, but no package is recorded as erroring on the node"),
            );
            finding.evidence(node, keys::status(cluster.flavor(), name), "erroring");
            let given_up = has_given_up(&package_runs, skyhook, node, on);
            let settled = match node.annotated {
                Some(at) => settled(cluster, at),
                None => cluster.is_stale(failing_since(cluster, skyhook, node)),
            };
            let sure = given_up || settled;
            finding.warning_if(!sure || cluster.certainty_of_no_package_run() == Certainty::Presumed);
            let open: Vec<&Entry> = open_entries(cluster, skyhook, on).collect();
            for entry in &open {
                finding.entry(&node.name, entry);
            }
            finding.operator_log(cluster, "Check the operator's log for messages about the node");
            for entry in &open {
                let Some(package_run) = package_runs.newest(name, &node.name, entry) else {
                    continue;
                };
                finding.package_run_trouble(cluster, package_run);
                finding.read_logs(name, &node.name, &entry.name, &entry.stage);
                let run = Some(package_run);
                if finding.retry_given_up(run, skyhook, &node.name, entry) || entry.stage.is_uninstall() {
                    continue;
                }
                finding.rerun("Once the cause is gone, run the package again", skyhook, node, &entry.name);
            }
            if !given_up && !skyhook.deleting() {
                finding
                    .reset_batches(
                        "If nothing failed here, set the erroring nodes to waiting and reset the batch state",
                        skyhook,
                        None,
                    )
                    .caveat("every erroring node of the custom resource is set to waiting, and the rollout starts again from the first batch")
                    .by_choice();
            }
            finding.reset_node("Once the cause is gone, reset the node", cluster, skyhook, node);
        }
    }
}

/// Whether the node is erroring without a failing package in its node state.
fn is_without_cause<'a>(
    cluster: &Cluster,
    model: &Model<'_>,
    package_runs: &PackageRuns<'a>,
    skyhook: &Skyhook,
    node: &'a Node,
    on: &NodeRecord,
) -> bool {
    let failed = on.entries().iter().any(|e| e.state == State::Erroring);
    let stands = on.status == Some(Status::Erroring) && !failed && !on.is_malformed();
    if !stands || on.drain_timed_out() {
        return false;
    }
    if has_given_up(package_runs, skyhook, node, on) {
        return true;
    }
    // Report nothing while the operator may still clear the status: right after a write, or while the
    // compartment is stopped, because it clears the status once the rollout continues.
    let just_written = node.annotated.is_some_and(|at| !settled(cluster, at));
    if just_written || model.is_stopped(skyhook, node) {
        return false;
    }
    // The operator clears the status when it starts the next stage. A package run on the node is such a
    // stage, and another stage follows after a reboot.
    let at_work = package_runs.any_alive_on(skyhook.name(), &node.name);
    let settled = node
        .condition(READY)
        .is_some_and(|ready| ready.is_true() && cluster.is_stale(ready.last_transition_time));
    let back = |e: &Entry| {
        let past = matches!(e.stage, Stage::Interrupt | Stage::PostInterrupt);
        past && e.state == State::Complete
    };
    let rebooted = !settled && on.entries().iter().any(back);
    !at_work && !rebooted && cluster.certainty_of_no_package_run() != Certainty::Unknown
}

/// Seconds after a write to a node during which the operator may write to it again.
const SETTLED: i64 = 60;

fn settled(cluster: &Cluster, at: Timestamp) -> bool {
    cluster.seconds_from(at) >= SETTLED
}

/// Whether a Job of a due stage failed permanently on the node.
fn has_given_up<'a>(
    package_runs: &PackageRuns<'a>,
    skyhook: &Skyhook,
    node: &'a Node,
    on: &NodeRecord,
) -> bool {
    on.entries().iter().filter(|e| e.state != State::Complete).any(|entry| {
        let newest = package_runs.newest(skyhook.name(), &node.name, entry);
        newest.is_some_and(|run| run.job.is_some_and(Job::gave_up))
    })
}
