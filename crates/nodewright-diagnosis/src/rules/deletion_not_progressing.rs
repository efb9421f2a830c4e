use jiff::SignedDuration;

use super::support::blockers::BlockingFindings;
use super::support::standstill::last_activity;
use super::{Findings, Grade, Severity, Subject};
use crate::api::{Skyhook, Stage, State};
use crate::cluster::placement::Pending;
use crate::cluster::{Certainty, Cluster, Node, PackageRuns};
use crate::plan::Condition;

rule! {
    /// A deletion makes no progress, and no other rule about deletions explains why.
    ///
    /// # What it means
    ///
    /// The custom resource has been terminating for more than ten minutes and still exists. Either packages
    /// still have to be uninstalled and no package is running on any node, or everything is uninstalled but
    /// the finalizer still exists.
    ///
    /// If only a third-party finalizer remains, the operator has finished its part. This is reported at once,
    /// as a warning for the first two minutes. If the operator has not started the deletion at all, this is a
    /// warning after half a minute: it usually starts within seconds.
    ///
    /// # What causes it
    ///
    /// Uninstalls are blocked by the same conditions as installations: an earlier custom resource, the budget
    /// of the rollout, a node that is ignored or tainted, a drain that does not end. If nothing is left to
    /// uninstall, the operator does not run, or admission rejects the removal of the finalizer; or the
    /// remaining finalizer belongs to someone else.
    ///
    /// # How to confirm
    ///
    /// The deletion timestamp is old, the custom resource has no pod or Job, and according to `managedFields`
    /// it has not been written to for as long. After a recent write, this is a warning. If `managedFields`
    /// are missing, as in files that kubectl wrote, it stays a warning until all times, such as those of
    /// conditions, events, nodes and pods, are more than half an hour old.
    ///
    /// # How to fix
    ///
    /// Check the other findings about the custom resource and its nodes first, then the operator's log.
    /// Stripping the finalizer is the last resort: uninstall scripts do not run, and installed packages stay
    /// on the nodes.
    ///
    /// # Affected versions
    ///
    /// Operators with explicit uninstall (v0.16.0).
    SKY113 "deletion-not-progressing" Error needs Skyhooks Nodes Pods Jobs,
        blocks Deletion, finds Unexplained
}

/// Time without activity after which no more progress is expected.
const QUIET: SignedDuration = SignedDuration::from_mins(30);

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let deleting = || cluster.skyhooks.iter().filter(|s| s.deleting());
    for skyhook in deleting().filter(|s| !s.has_finalizer()) {
        held_by_others(cluster, findings, skyhook);
    }
    let package_runs = findings.package_runs();
    let old = |s: &&Skyhook| s.has_finalizer() && cluster.is_stale(s.metadata.deletion_timestamp);
    let untouched: Vec<&Skyhook> = deleting().filter(|s| is_untouched(cluster, &package_runs, s)).collect();
    if untouched.is_empty() && !deleting().any(|s| old(&s)) {
        return;
    }
    let others = findings.of_all_others();
    let blocking = BlockingFindings::of(&others);
    let is_blocked =
        |skyhook: &Skyhook| !blocking.of_goal(&others, cluster, skyhook, &Condition::Gone).is_empty();
    for skyhook in untouched {
        if !is_blocked(skyhook) {
            not_taken_up(cluster, findings, skyhook);
        }
    }
    // Pending uninstalls are visible only in node states.
    if cluster.certainty_of_no_package_run() == Certainty::Unknown || cluster.nodes.ok().is_none() {
        return;
    }
    for skyhook in deleting().filter(old) {
        let pending = cluster.pending_uninstalls(skyhook);
        // Without pending uninstalls, the operator removes its finalizer regardless of running pods.
        let at_work = !pending.is_empty()
            && package_runs
                .of(skyhook.name())
                .filter(|run| run.may_progress(cluster))
                .any(|run| run.overtime(cluster, &package_runs).is_none());
        if at_work || explained(cluster, skyhook, &pending) || is_blocked(skyhook) {
            continue;
        }
        let finalizers = skyhook.metadata.finalizers.join(", ");
        let hangs = package_runs.of(skyhook.name()).any(|run| run.may_progress(cluster));
        let what = if pending.is_empty() {
            "nothing is left to uninstall, but the finalizer is not removed"
        } else if hangs {
            "the running stages are taking too long"
        } else {
            "no package is running on any node"
        };
        let finding = findings
            .report(Subject::skyhook(skyhook), format!("deletion of {skyhook} makes no progress: {what}"));
        // Without pending uninstalls, failing packages do not block the deletion.
        if pending.is_empty() {
            finding.since_deletion(skyhook);
        } else {
            finding.waits_for(skyhook.name());
            finding.pending_deletion(cluster, skyhook);
        }
        finding.evidence(skyhook, "metadata.finalizers", finalizers);
        // The operator records each step, so after a recent write it may be between two steps.
        let written = skyhook.metadata.managed_fields.iter().filter_map(|m| m.time);
        let fresh = match written.max() {
            Some(at) => {
                finding.evidence(skyhook, "last written", at);
                !cluster.is_stale(Some(at))
            }
            // Files from kubectl lack `managedFields`.
            None => {
                let nodes: Vec<&Node> = pending.iter().map(|p| p.node).collect();
                let last = last_activity(cluster, &package_runs, skyhook, &nodes);
                let asked = skyhook.metadata.deletion_timestamp;
                let last = last.max(asked);
                if let Some(at) = last {
                    let field = "latest activity";
                    finding.evidence(skyhook, field, at);
                }
                last.is_none_or(|at| cluster.taken_at.duration_since(at) < QUIET)
            }
        };
        finding.warning_if(fresh || cluster.operator().coming_up_since().is_some());
        if !package_runs.any_alive(skyhook.name()) {
            finding.no_package_run(cluster, "package pods and jobs");
        }
        finding.operator_log(cluster, "Check the operator's log for the cause");
        finding.strip_finalizer("Strip the finalizer", skyhook);
    }
}

/// Time allowed for another controller to remove its finalizer; most need only seconds.
const REMOVED_WITHIN: SignedDuration = SignedDuration::from_mins(2);
/// Finalizers that the garbage collector removes.
const COLLECTED: [&str; 2] = ["foregroundDeletion", "orphan"];

/// Reports a deletion that waits only for finalizers of other owners.
fn held_by_others(cluster: &Cluster, findings: &mut Findings, skyhook: &Skyhook) {
    let deleted = skyhook.metadata.deletion_timestamp;
    let finalizers = &skyhook.metadata.finalizers;
    let age = deleted.map(|at| cluster.taken_at.duration_since(at));
    let lasts = age.is_some_and(|age| age >= REMOVED_WITHIN);
    let collected = finalizers.iter().all(|f| COLLECTED.contains(&f.as_str()));
    if collected && !cluster.is_stale(deleted) {
        return;
    }
    let finding = findings.report(
        Subject::skyhook(skyhook),
        format!("deletion of {skyhook} waits for a third-party finalizer: {}", finalizers.join(", ")),
    );
    finding
        .warning_if(!lasts)
        .since_deletion(skyhook)
        .evidence(skyhook, "metadata.finalizers", finalizers.join(", "))
        .show_manifest("Show the remaining finalizers", skyhook)
        .edit(Grade::B1, "Remove the finalizer if its owner no longer exists", skyhook)
        .caveat("any cleanup tied to the finalizer is then skipped");
}

/// Seconds allowed for the operator to start a deletion. It needs only a few, but may be restarting.
const TAKEN_UP_WITHIN: i64 = 30;

/// Whether the operator has not reacted to a recent deletion, without a known reason.
fn is_untouched(cluster: &Cluster, package_runs: &PackageRuns<'_>, skyhook: &Skyhook) -> bool {
    let deleted = skyhook.metadata.deletion_timestamp;
    let age = deleted.map_or(0, |at| cluster.seconds_from(at));
    let recent = age >= TAKEN_UP_WITHIN && !cluster.is_stale(deleted);
    if !recent || !skyhook.has_finalizer() {
        return false;
    }
    let pending = cluster.pending_uninstalls(skyhook);
    let begun = |p: &Pending<'_>| p.entry.stage.is_uninstall() || p.entry.state != State::Complete;
    let says_so = |kind: &&str| skyhook.true_condition(kind).is_some();
    !explained(cluster, skyhook, &pending)
        && !pending.iter().any(begun)
        && !package_runs.any_alive(skyhook.name())
        && !["UninstallInProgress", "DeletionBlocked"].iter().any(says_so)
}

fn not_taken_up(cluster: &Cluster, findings: &mut Findings, skyhook: &Skyhook) {
    let finding = findings
        .report(Subject::skyhook(skyhook), format!("the operator has not started the deletion of {skyhook}"));
    finding.severity(Severity::Warning);
    // A running operator may be between two attempts; a starting operator will process the deletion.
    if cluster.operators.items().is_empty() || cluster.operator().is_down() {
        finding.mark_permanent();
    }
    finding.since_deletion(skyhook);
    if !cluster.pending_uninstalls(skyhook).is_empty() {
        finding.waits_for(skyhook.name());
        finding.pending_deletion(cluster, skyhook);
    }
    finding.list_operators("Check whether the operator is running");
    finding.operator_log(cluster, "Check the operator's log for messages about the deletion");
}

/// Whether another rule reports the cause, now or once the cause has lasted long enough.
fn explained(cluster: &Cluster, skyhook: &Skyhook, pending: &[Pending<'_>]) -> bool {
    let malformed = cluster.tracked(skyhook.name()).any(|(_, on)| on.is_malformed());
    let stopped = !pending.is_empty() && !skyhook.is_active();
    malformed
        || stopped
        || pending.iter().any(|p| {
            let stranded = p.entry.stage == Stage::UninstallInterrupt
                && skyhook.pending_interrupt(p.name, p.package).is_none();
            let silent = cluster.not_ready_since(p.node).is_some();
            p.entry.state == State::Erroring || stranded || silent
        })
}
