//! The tables that decide between the model's reason for a wait and the findings.

use crate::model::{ProgressState, WaitReason};
use crate::rules::{Finding, Severity};

/// The source that decides the state of a custom resource on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decides {
    /// The model: somebody's decision or the operator itself is the reason, and a finding adds only evidence.
    Model,
    /// A finding that blocks the custom resource there, if there is one; otherwise the model. The operator
    /// itself ends the wait if nothing fails.
    Findings,
    /// Like `Findings`, but something outside of the operator ends the wait.
    FindingsOfOthers,
}

/// The source that decides, by the model's reason.
pub fn decides(reason: &WaitReason<'_>) -> Decides {
    match reason {
        WaitReason::Paused
        | WaitReason::Disabled
        | WaitReason::Ignored
        | WaitReason::MalformedState { .. }
        | WaitReason::OperatorDown
        | WaitReason::PolicyMissing(_) => Decides::Model,
        // Node lifecycle taints may be temporary: only a finding shows that one blocks the custom resource.
        WaitReason::Taint(taint) if !taint.of_lifecycle() => Decides::Model,
        WaitReason::Taint(_)
        | WaitReason::MigrationHold(_)
        | WaitReason::RolloutStopped(_)
        | WaitReason::Dependency { .. }
        | WaitReason::NeverScheduled(_)
        | WaitReason::GivenUp { .. }
        | WaitReason::ProtectedPod(_)
        | WaitReason::Unread(_) => Decides::FindingsOfOthers,
        WaitReason::Nothing
        | WaitReason::Earlier { .. }
        | WaitReason::Batch { .. }
        | WaitReason::BatchSibling(_)
        | WaitReason::Stage { .. }
        | WaitReason::Kubelet(_)
        | WaitReason::Drain(_)
        | WaitReason::OtherRun { .. }
        | WaitReason::OtherInterrupt(_)
        | WaitReason::Deletion(_) => Decides::Findings,
    }
}

/// The state that a finding implies for the custom resource that it blocks; `None` if the model's state stays.
pub fn implied(finding: &Finding) -> Option<ProgressState> {
    match finding.severity {
        Severity::Error => Some(ProgressState::Blocked),
        _ if finding.blocks_for_good() => Some(ProgressState::Suspended),
        _ => None,
    }
}

/// The properties of a custom resource that is not being deleted, or of one of its compartments, that decide its
/// state. `deletion.rs` decides for deletions.
#[derive(Debug, Default, Clone, Copy)]
pub struct Facts {
    pub nodes_unread: bool,
    pub disabled: bool,
    pub paused: bool,
    /// An error blocks it, on any node.
    pub error: bool,
    /// Nodes whose work advances without an intervention.
    pub advancing: usize,
    pub nodes: usize,
    /// Nodes that are not complete.
    pub open: usize,
    /// Nodes that run, whether or not a stage fails there.
    pub running: usize,
    /// Waiting nodes that the operator drains, or chooses in its next reconcile.
    pub acted_on: usize,
    pub failed: usize,
    /// Nodes that are blocked or suspended, whether or not a stage fails there.
    pub blocked: usize,
    pub unknown: usize,
}

type Rule = (fn(&Facts) -> bool, ProgressState);

/// The states of a custom resource: the first whose condition holds.
const STATES: [Rule; 12] = [
    (|f| f.nodes_unread, ProgressState::Unknown),
    (|f| f.disabled, ProgressState::Disabled),
    (|f| f.paused, ProgressState::Paused),
    (|f| f.error && f.advancing > 0, ProgressState::Degraded),
    (|f| f.error, ProgressState::Stuck),
    (|f| f.nodes == 0, ProgressState::Waiting),
    (|f| f.open == 0, ProgressState::Complete),
    (|f| f.running > 0 && f.failed + f.blocked > 0, ProgressState::Degraded),
    (|f| f.running + f.acted_on > 0, ProgressState::Progressing),
    (|f| f.unknown > 0, ProgressState::Unknown),
    (|f| f.blocked > 0, ProgressState::Blocked),
    (|_| true, ProgressState::Waiting),
];

impl Facts {
    pub fn state(&self) -> ProgressState {
        let state = STATES.iter().find(|(holds, _)| holds(self));
        state.map_or(ProgressState::Waiting, |(_, state)| *state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ProgressState::{Blocked, Complete, Degraded, Disabled, Paused, Progressing, Stuck};
    use ProgressState::{Unknown, Waiting};

    #[test]
    fn the_first_reason_decides() {
        let running = Facts { nodes: 4, open: 2, running: 1, advancing: 1, ..Facts::default() };
        let idle = Facts { nodes: 4, open: 2, ..Facts::default() };
        let all = Facts { disabled: true, paused: true, error: true, ..running };
        for (facts, state) in [
            (Facts { nodes_unread: true, ..all }, Unknown),
            (all, Disabled),
            (Facts { disabled: false, ..all }, Paused),
            (Facts { error: true, ..running }, Degraded),
            (Facts { error: true, ..idle }, Stuck),
            (Facts::default(), Waiting),
            (Facts { open: 0, ..idle }, Complete),
            (Facts { failed: 1, ..running }, Degraded),
            (Facts { blocked: 1, ..running }, Degraded),
            (running, Progressing),
            (Facts { acted_on: 1, ..idle }, Progressing),
            (Facts { unknown: 1, blocked: 1, ..idle }, Unknown),
            (Facts { blocked: 1, ..idle }, Blocked),
            (idle, Waiting),
        ] {
            assert_eq!(facts.state(), state, "{facts:?}");
        }
    }
}
