use std::collections::HashSet;

use jiff::SignedDuration;

use super::support::evidence::some_of;
use super::support::standstill::{last_activity, unknown_activity};
use super::{Finding, Findings, Severity, Subject};
use crate::api::{Skyhook, Status};
use crate::cluster::{Certainty, Cluster, Node, Pod};
use crate::text::plural;

rule! {
    /// A custom resource has work left, but nothing is running and no other rule explains why.
    ///
    /// # What it means
    ///
    /// On some nodes packages are left to be installed or uninstalled, and no known cause prevents the
    /// operator from doing so. But no pod or Job runs for the custom resource, and nothing about it has
    /// changed for a long time. The operator may even report the custom resource as complete, because it has
    /// not noticed a node.
    ///
    /// # What causes it
    ///
    /// The operator's reconcile ends early, or it cannot create pods: a quota or an admission policy of its
    /// namespace rejects them, the name and version of a package are not valid in a label, or it runs into
    /// conflicts again and again. Only its log shows the cause. A custom resource without a status was never
    /// processed completely: the operator adds its finalizer and sets the status when it first sees the
    /// object.
    ///
    /// # How to confirm
    ///
    /// The newest time on the custom resource, its nodes, Jobs, pods and events is more than half an hour
    /// old; after two hours this is an error. A custom resource that was never processed is reported after
    /// a minute, and is an error after ten minutes. Nothing is reported within a minute of the start of the operator, or of a
    /// change of any custom resource. Another finding reports actions of the operator that are overdue.
    ///
    /// # How to fix
    ///
    /// Read the operator's log, and fix what ends its reconcile.
    ///
    /// # Affected versions
    ///
    /// All operators.
    SKY222 "nothing-at-work" Error needs Skyhooks Nodes Pods Jobs, also Events Operator,
        blocks Install Uninstall, finds Unexplained
}

const QUIET: SignedDuration = SignedDuration::from_mins(30);
/// Time after which the operator is not expected to act any more: it reconciles every ten minutes.
const HOPELESS: SignedDuration = SignedDuration::from_hours(2);

fn detect(cluster: &Cluster, findings: &mut Findings) {
    if cluster.certainty_of_no_package_run() == Certainty::Unknown {
        return;
    }
    let (model, package_runs) = (findings.model(), findings.package_runs());
    let mut others = None;
    let running = cluster.skyhooks.iter().filter(|s| !s.deleting());
    for skyhook in running {
        if package_runs.any_alive(skyhook.name()) {
            continue;
        }
        let open = model.actionable_nodes(skyhook);
        let drained = |node: &&Node| {
            model.drain_progress(skyhook.name(), node).and_then(|drain| drain.pods).unwrap_or_default()
        };
        let drained: Vec<&Pod> = open.iter().flat_map(drained).collect();
        // Other rules report most nodes that the operator counts as failed.
        let failed = |node: &&Node| {
            cluster.status_on(skyhook, node) == Status::Erroring
                && findings.troubles().gravest_on(skyhook.name(), &node.name).is_some()
        };
        // Evicted pods may have a grace period of hours.
        if open.is_empty() || open.iter().any(failed) || drained.iter().any(|pod| pod.metadata.deleting()) {
            continue;
        }
        let meta = &skyhook.metadata;
        if meta.uid.is_none() && meta.creation_timestamp.is_none() {
            findings.undetermined(format!(
                "{skyhook} has neither uid nor creation time, so it may be a manifest that was never applied"
            ));
            continue;
        }
        let Some(last) = last_activity(cluster, &package_runs, skyhook, &open) else {
            continue;
        };
        let last = cluster.evictions().allowed_since(&drained).map_or(last, |at| at.max(last));
        // The operator may have just started, or another custom resource may have just released this one.
        let released = findings.changes().of_skyhook(skyhook);
        if released.is_some() && !cluster.is_late(released) {
            continue;
        }
        let quiet = cluster.taken_at.duration_since(last);
        let untouched = skyhook.is_untouched();
        if if untouched { !cluster.is_late(Some(last)) } else { quiet < QUIET } {
            continue;
        }
        if let Some(unknown) = unknown_activity(cluster, &package_runs, skyhook) {
            findings.undetermined(unknown);
            continue;
        }
        let names: Vec<&str> = open.iter().map(|n| n.name.as_str()).collect();
        let open = names.iter().copied().collect();
        let others = others.get_or_insert_with(|| findings.of_all_others());
        if others.iter().any(|finding| explains(finding, skyhook, &open)) {
            continue;
        }
        let complete = skyhook.status.status == Some(Status::Complete);
        let nodes = plural(names.len(), "node");
        let message = if untouched && skyhook.has_finalizer() {
            format!("the operator has not set a status on {skyhook} yet")
        } else if untouched {
            format!(
                "the operator has not processed {skyhook} yet: it has neither the operator's finalizer nor a status"
            )
        } else if complete {
            format!(
                "{skyhook} has status complete, but packages are unfinished on {nodes} and no pod or job is running"
            )
        } else {
            format!("{skyhook} has unfinished packages on {nodes}, and no pod or job is running")
        };
        let finding = findings.report(Subject::skyhook(skyhook), message);
        finding
            .set_blocked_nodes(&names)
            .since(Some(last))
            .evidence("nodes", "with unfinished work", some_of(&names))
            .evidence(skyhook, "latest activity", last);
        // Absent pods are no proof if some pods could not be read. Exception: if the operator reports
        // complete, it ignores the unfinished nodes and runs no pods there.
        let unseen = cluster.certainty_of_no_package_run() == Certainty::Presumed && !complete;
        let hopeless = if untouched { cluster.is_stale(Some(last)) } else { quiet >= HOPELESS };
        let unsure = !untouched && (unseen || may_be_unnoticed(skyhook));
        if !hopeless || unsure {
            let sure = hopeless || untouched || !unseen;
            finding.severity(if sure { Severity::Warning } else { Severity::Info }).mark_transient();
        }
        if skyhook.packages().any(|(name, package)| skyhook.pending_interrupt(name, package).is_some()) {
            let delaying = package_runs.all().iter().filter(|run| run.delays_interrupts());
            for run in delaying.filter(|run| open.contains(run.node)) {
                finding.waits_for_node(&run.skyhook, run.node);
            }
        }
        finding.no_package_run(cluster, "package pods and jobs");
        finding.operator_log(cluster, "Check the operator's log for the cause");
    }
}

/// Whether a finding of another rule explains why a custom resource makes no progress on its open nodes.
fn explains(finding: &Finding, skyhook: &Skyhook, open: &HashSet<&str>) -> bool {
    let is_open = |name: &String| open.contains(name.as_str());
    let Finding { subject, severity, .. } = finding;
    // An error on one node may use up the budget of others; a warning concerns only its own node and the nodes that it
    // blocks.
    let reaches_open = || {
        *severity == Severity::Error
            || subject.node.as_ref().is_none_or(is_open)
            || finding.blocked_nodes.iter().any(is_open)
    };
    finding.refuses_installs()
        || finding.blocks_reconcile()
        || match &subject.skyhook {
            Some(name) if name == skyhook.name() => {
                (*severity > Severity::Info || !finding.blocks.is_empty()) && reaches_open()
            }
            Some(_) => false,
            None => subject.node.as_ref().is_some_and(is_open),
        }
}

/// Whether a recent change without a recorded time may be unnoticed by the operator.
fn may_be_unnoticed(skyhook: &Skyhook) -> bool {
    let rested = matches!(skyhook.status.status, Some(Status::Paused | Status::Disabled));
    let dated = !skyhook.metadata.managed_fields.is_empty();
    !dated && (rested || !skyhook.is_observed())
}
