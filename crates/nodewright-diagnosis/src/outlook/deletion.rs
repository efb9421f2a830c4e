//! The state of a deletion, and its blockers.

use super::Outlook;
use crate::api::Skyhook;
use crate::cluster::Certainty;
use crate::cluster::deletion::Pending;
use crate::model::ProgressState;
use crate::rules::support::blockers::delays;
use crate::rules::{Finding, Goal};
use crate::view::plural;

/// The deletion of a custom resource.
pub struct DeletionOutlook<'o, 'a> {
    /// `Deleting` if it makes progress, `Waiting` if it takes long or fails in part, but may still finish, `Stuck`
    /// until someone intervenes, `Blocked` if only finalizers of third parties remain, or `Unknown`.
    pub state: ProgressState,
    /// The reason for the state, as a clause.
    pub reason: String,
    /// The findings that hold it up: permanent ones first, then those that may resolve themselves.
    pub held_up_by: Vec<&'o Finding>,
    /// The packages that must be uninstalled first. Without the operator's finalizer, a deletion waits for none.
    pub pending: Vec<Pending<'a>>,
}

impl<'a> Outlook<'a> {
    /// The deletion of a custom resource; `None` if no deletion was requested.
    pub fn deletion(&self, skyhook: &'a Skyhook) -> Option<DeletionOutlook<'_, 'a>> {
        if !skyhook.deleting() {
            return None;
        }
        let pending =
            if skyhook.has_finalizer() { self.cluster.pending_uninstalls(skyhook) } else { Vec::new() };
        let findings = &self.findings;
        let blockers = self.blockers(skyhook, Goal::Deletion);
        let delays = delays(self.cluster, findings, skyhook);
        let (state, reason) = self.deletion_state(skyhook, &pending, &blockers, &delays);
        Some(DeletionOutlook { state, reason, held_up_by: [blockers, delays].concat(), pending })
    }

    fn deletion_state(
        &self,
        skyhook: &'a Skyhook,
        pending: &[Pending<'a>],
        blockers: &[&Finding],
        delays: &[&Finding],
    ) -> (ProgressState, String) {
        let cluster = self.cluster;
        let left = plural(pending.len(), "uninstall");
        let runs_unread = cluster.certainty_of_no_package_run() == Certainty::Unknown;
        let unread = "package pods or jobs could not be read and may still be running";
        if !skyhook.has_finalizer() {
            let others = skyhook.third_party_finalizers().join(", ");
            return (ProgressState::Blocked, format!("only third-party finalizers are left: {others}"));
        }
        if let Some(blocker) = blockers.first() {
            let runs = self.package_runs.get_or_init(|| cluster.package_runs());
            let mut runs = runs.of(skyhook.name());
            let at_work = if runs_unread {
                format!("; {unread}")
            } else if runs.any(|run| cluster.may_progress(run) && run.trouble().is_none()) {
                "; pods are still running".to_owned()
            } else {
                String::new()
            };
            return (ProgressState::Stuck, format!("{}{at_work}", with_node(blocker)));
        }
        if runs_unread {
            return (ProgressState::Unknown, unread.to_owned());
        }
        if let Some(delay) = delays.first() {
            return (ProgressState::Waiting, with_node(delay));
        }
        if cluster.nodes.ok().is_none() {
            let reason = "nodes could not be read, so the remaining uninstalls are unknown";
            return (ProgressState::Unknown, reason.to_owned());
        }
        if pending.is_empty() {
            let reason = "nothing is left to uninstall; the operator removes its finalizer next";
            return (ProgressState::Deleting, reason.to_owned());
        }
        let old = cluster.is_stale(skyhook.metadata.deletion_timestamp);
        let mut on_nodes = self.on_nodes(skyhook.name());
        let goes_on = |state| matches!(state, ProgressState::Running | ProgressState::Waiting);
        if old && !on_nodes.any(|(_, on)| goes_on(on.state)) {
            return (ProgressState::Waiting, format!("{left} left, and none is running"));
        }
        (ProgressState::Deleting, format!("{left} left"))
    }
}

/// The finding's message, with its node.
pub fn with_node(finding: &Finding) -> String {
    match &finding.subject.node {
        Some(node) => format!("on {node}: {}", finding.message),
        None => finding.message.clone(),
    }
}
