//! Progress of a custom resource on a node.

use jiff::Timestamp;

use super::action::Action;
use super::reason::WaitReason;

/// The progress of a custom resource on a node.
#[derive(Debug, Clone)]
pub struct NodeProgress<'a> {
    pub state: ProgressState,
    /// The operator's next action on the node, unless the cluster changes before.
    pub next_action: Option<Action<'a>>,
    /// Why there is no further progress.
    pub reason: WaitReason<'a>,
    /// When the running stage, the drain or the node's place in the batch began.
    pub since: Option<Timestamp>,
    /// The position among the nodes that wait for a batch.
    pub queue: Option<QueuePosition<'a>>,
}

/// The progress of a custom resource on a node, ordered from complete to blocked.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, schemars::JsonSchema,
)]
pub enum ProgressState {
    /// All work is done.
    Complete,
    /// A stage runs, or the operator acts in its next reconcile.
    Running,
    /// Progress depends on an event that is expected to happen.
    Waiting,
    /// The custom resource is paused or disabled; a running stage may still finish.
    Suspended,
    /// A source that determines the state was not read.
    Unknown,
    /// No progress until someone intervenes.
    Blocked,
}

impl ProgressState {
    pub fn word(self) -> &'static str {
        match self {
            ProgressState::Complete => "complete",
            ProgressState::Running => "running",
            ProgressState::Waiting => "waiting",
            ProgressState::Suspended => "suspended",
            ProgressState::Unknown => "unknown",
            ProgressState::Blocked => "blocked",
        }
    }
}

/// The position of a node among the nodes that wait for a batch of their compartment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuePosition<'a> {
    pub compartment: &'a str,
    /// Counted from 1; `None` if the operator takes nodes in an arbitrary order.
    pub number: Option<usize>,
    /// Number of waiting nodes, including this one.
    pub waiting: usize,
    /// Number of nodes in the next batch.
    pub batch: usize,
    /// Number of incomplete nodes in the current batch.
    pub working: usize,
}
