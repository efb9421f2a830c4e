use jiff::SignedDuration;

use super::evidence::{no_package_run, operator_log, pending_deletion};
use super::last_sign::last_sign;
use super::{Finding, Findings, Goal, Grade, Severity, Subject, blockers};
use crate::api::{Skyhook, Stage, State};
use crate::cluster::deletion::Pending;
use crate::cluster::{Certainty, Cluster, Node};

rule! {
    /// A deletion makes no progress, and no other rule of deletions says why.
    ///
    /// # What it means
    ///
    /// The custom resource has been on its way out for more than ten minutes and is still there.
    /// Either packages are left to be uninstalled and nothing is at work on any node, or nothing is
    /// left and the finalizer is there anyway.
    ///
    /// # How it comes about
    ///
    /// Uninstalls pass the same gates as installations: an earlier custom resource, the budget of
    /// the rollout, a node that is ignored or tainted, a drain that does not end. If nothing is left
    /// to uninstall, the operator does not run, or admission rejects the removal of the finalizer;
    /// or the finalizer that is left belongs to somebody else.
    ///
    /// # How to confirm
    ///
    /// The deletion timestamp is old, there is no pod or Job of it, and `managedFields` say that
    /// nobody has written to it for as long. Where they are fresh this is a warning. Where they are
    /// missing, as in files that kubectl wrote, it is one until nothing that has a time, be it a
    /// condition, an event, a node or a pod, is younger than half an hour.
    ///
    /// # How to fix
    ///
    /// See the other findings about the custom resource and its nodes first, then the operator's
    /// log. Stripping the finalizer is the last resort: uninstall scripts do not run, and what is on
    /// the nodes stays.
    ///
    /// # Since
    ///
    /// Operators with explicit uninstall (v0.16.0).
    SKY113 "deletion-not-progressing" Error needs Skyhooks Nodes Pods Jobs,
        blocks Deletion, finds Unexplained
}

/// Without a sign for so long nothing happens any more.
const QUIET: SignedDuration = SignedDuration::from_mins(30);

fn detect(cluster: &Cluster, findings: &mut Findings) {
    if cluster.certainty_of_no_package_run() == Certainty::Unknown {
        return;
    }
    let package_runs = cluster.package_runs();
    let mut others: Option<Vec<Finding>> = None;
    let deleting = cluster.skyhooks.items().iter().filter(|s| s.deleting());
    for skyhook in deleting.filter(|s| cluster.is_stale(s.metadata.deletion_timestamp)) {
        let at_work = package_runs
            .all()
            .iter()
            .filter(|e| e.skyhook == skyhook.name() && cluster.at_work(e))
            .any(|e| cluster.overtime(e, package_runs.all()).is_none());
        // Without the operator's finalizer nothing is uninstalled any more, whatever is recorded.
        let pending = if skyhook.has_finalizer() {
            cluster.pending_uninstalls(skyhook)
        } else {
            Vec::new()
        };
        if at_work
            || explained(cluster, skyhook, &pending)
            || is_blocked(
                cluster,
                others.get_or_insert_with(|| findings.of_all_others(cluster)),
                skyhook,
            )
        {
            continue;
        }
        let finalizers = skyhook.metadata.finalizers.join(", ");
        let hangs = package_runs
            .all()
            .iter()
            .any(|e| e.skyhook == skyhook.name() && cluster.at_work(e));
        let what = match (pending.is_empty(), skyhook.has_finalizer()) {
            (false, _) if hangs => "what runs takes too long",
            (false, _) => "nothing is at work on any node",
            (true, true) => "nothing is left to uninstall, and the finalizer is not removed",
            (true, false) => "the operator is done with it, and another finalizer holds it",
        };
        let finding = findings.report(
            Subject::skyhook(skyhook),
            format!(
                "deletion of {} makes no progress: {what}",
                skyhook.reference()
            ),
        );
        finding.waits_for(skyhook.name());
        if pending.is_empty() {
            finding.since(skyhook.metadata.deletion_timestamp).evidence(
                skyhook.reference(),
                "deletionTimestamp",
                "set",
            );
        } else {
            pending_deletion(cluster, finding, skyhook);
        }
        finding.evidence(skyhook.reference(), "metadata.finalizers", finalizers);
        // The operator writes down each step, so a fresh write means that it may just be between two.
        let written = skyhook
            .metadata
            .managed_fields
            .iter()
            .filter_map(|m| m.time);
        let fresh = match written.max() {
            Some(at) => {
                finding.evidence(skyhook.reference(), "last written", at.to_string());
                !cluster.is_stale(Some(at))
            }
            // Files as kubectl writes them do not say who wrote what and when.
            None => {
                let nodes: Vec<&Node> = pending.iter().map(|p| p.node).collect();
                let last = last_sign(cluster, &package_runs, skyhook, &nodes);
                let asked = skyhook.metadata.deletion_timestamp;
                let last = last.max(asked);
                if let Some(at) = last {
                    let field = "newest sign of work";
                    finding.evidence(skyhook.reference(), field, at.to_string());
                }
                last.is_none_or(|at| cluster.taken_at.duration_since(at) < QUIET)
            }
        };
        if fresh {
            finding.severity(Severity::Warning);
        }
        if !package_runs
            .all()
            .iter()
            .any(|e| e.skyhook == skyhook.name() && e.alive())
        {
            no_package_run(finding, cluster, "package pods and jobs");
        }
        operator_log(finding, cluster, "Read what the operator says of it");
        if !skyhook.has_finalizer() {
            continue;
        }
        finding
            .remedy(
                Grade::B4,
                "Strip the finalizer",
                ["finalizer", "strip", skyhook.name(), "--force"],
            )
            .caveat("uninstall.sh does not run on any node");
    }
}

/// Whether any rule says what the deletion waits for.
fn is_blocked(cluster: &Cluster, others: &[Finding], skyhook: &Skyhook) -> bool {
    !blockers::among(cluster, others, skyhook, Goal::Deletion).is_empty()
}

/// Whether it will be told as soon as it lasts.
fn explained(cluster: &Cluster, skyhook: &Skyhook, pending: &[Pending<'_>]) -> bool {
    let malformed = skyhook.has_finalizer()
        && cluster
            .tracked(skyhook.name())
            .any(|(_, on)| on.is_malformed());
    let stopped = !pending.is_empty() && !skyhook.runs();
    malformed
        || stopped
        || pending.iter().any(|p| {
            let stranded = p.entry.stage == Stage::UninstallInterrupt
                && skyhook.pending_interrupt(p.name, p.package).is_none();
            let silent = cluster.not_ready_since(p.node).is_some();
            p.entry.state == State::Erroring || stranded || silent
        })
}
