//! The dense state of a custom resource on a node.

use crate::api;

/// Index where there is none.
pub(super) const NONE: u32 = u32::MAX;

/// One custom resource on one node. There are hundreds of thousands, so it is small and holds indexes only.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// The distinct node state that this node has, in `Resource::profiles`.
    pub profile: u32,
    pub compartment: u16,
    /// The earlier custom resource that is not complete on the node, in `Model::resources`.
    pub earlier: u16,
    /// The status that the operator gives the node in this reconcile.
    pub status: Status,
    /// The status that is recorded on the node.
    pub recorded: Status,
    /// All packages are complete, and none has to be uninstalled.
    pub complete: bool,
    pub ignored: bool,
    /// The custom resource tolerates all taints of the node.
    pub tolerated: bool,
    /// In the batch, as the operator has recorded it.
    pub picked: bool,
    /// A stage runs, or has ended and is not recorded yet.
    pub at_work: bool,
    /// A stage has failed permanently.
    pub given_up: bool,
    /// In the batch of this reconcile.
    pub chosen: bool,
    /// Place in the queue of the compartment; [`NONE`] outside of it.
    pub queued: u32,
}

impl Place {
    /// Whether the operator may start something on the node (operator `eligible`).
    pub fn eligible(&self) -> bool {
        !self.ignored && self.tolerated
    }
}

/// The operator's statuses of a node that differ to a batch.
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
    /// `paused` and `disabled` end with their cause and are then `waiting`.
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

    /// The order in which a new batch takes nodes (operator `createNewBatch`); others are not taken.
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
