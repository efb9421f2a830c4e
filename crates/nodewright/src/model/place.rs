//! The compact state of a custom resource on a node.

use crate::api;

/// Value of a missing index.
pub(super) const NONE: u32 = u32::MAX;

/// One custom resource on one node. There are hundreds of thousands, so a place is small and contains only
/// indexes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// The index of the node's state in `Resource::profiles`.
    pub profile: u32,
    pub compartment: u16,
    /// The index in `Model::resources` of the first earlier custom resource that is incomplete on the node;
    /// `u16::MAX` if there is none.
    pub earlier: u16,
    /// The status that the operator gives the node in this reconcile.
    pub status: Status,
    /// The status that is recorded on the node.
    pub recorded: Status,
    /// Whether all packages are complete, and none has to be uninstalled.
    pub complete: bool,
    pub ignored: bool,
    /// Whether the custom resource tolerates all taints of the node.
    pub tolerated: bool,
    /// Whether the operator has recorded the node in the batch.
    pub in_recorded_batch: bool,
    /// Whether a stage is running, or has ended and is not recorded yet.
    pub at_work: bool,
    /// Whether a stage has failed permanently.
    pub given_up: bool,
    /// Whether the node is in the batch of this reconcile.
    pub selected_now: bool,
    /// The position in the queue of the compartment; [`NONE`] outside of the queue.
    pub queued: u32,
}

impl Place {
    /// Whether the operator may start something on the node (operator `eligible`).
    pub fn eligible(&self) -> bool {
        !self.ignored && self.tolerated
    }

    /// Whether the node still occupies a slot of its batch: it became untolerated at work, and its status is not yet
    /// `blocked`.
    pub fn keeps_slot(&self) -> bool {
        let at_work = matches!(self.recorded, Status::InProgress | Status::Erroring);
        at_work && !self.tolerated && !self.ignored && !self.complete
    }
}

/// The node statuses that batches distinguish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Complete,
    InProgress,
    Waiting,
    Unknown,
    Blocked,
    Erroring,
}

impl Status {
    /// Converts a recorded status. `paused` and `disabled` count as `waiting`, the status after their end.
    pub fn read(status: &api::Status) -> Status {
        match status {
            api::Status::Complete => Status::Complete,
            api::Status::InProgress => Status::InProgress,
            api::Status::Erroring => Status::Erroring,
            api::Status::Blocked => Status::Blocked,
            api::Status::Waiting | api::Status::Paused | api::Status::Disabled => Status::Waiting,
            api::Status::Unknown | api::Status::Other(_) => Status::Unknown,
        }
    }

    /// The status's rank in the order in which a new batch takes nodes (operator `createNewBatch`); `None` if
    /// a new batch does not take them.
    pub fn rank(self) -> Option<u8> {
        match self {
            Status::Waiting => Some(0),
            Status::Unknown => Some(1),
            Status::Blocked => Some(2),
            Status::Erroring => Some(3),
            Status::Complete | Status::InProgress => None,
        }
    }
}
