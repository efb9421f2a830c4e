//! Progress of a custom resource on a node.

use jiff::Timestamp;

use super::action::Action;
use super::reason::WaitReason;

/// How far a custom resource is on a node.
#[derive(Debug, Clone)]
pub struct NodeProgress<'a> {
    pub state: ProgressState,
    /// The operator's next action here, if nothing happens on the cluster before it.
    pub next_action: Option<Action<'a>>,
    /// Why it is not further.
    pub reason: WaitReason<'a>,
    /// When the running stage, the drain or the node's place in the batch began.
    pub since: Option<Timestamp>,
    /// The place among the nodes that wait for a batch.
    pub queue: Option<QueuePosition<'a>>,
}

/// The one vocabulary of progress, from done to stuck.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, schemars::JsonSchema,
)]
pub enum ProgressState {
    Complete,
    /// A stage runs, or the operator acts in its next reconcile.
    Running,
    /// Something has to happen first, and is expected to.
    Waiting,
    /// The custom resource is paused or disabled; a stage may still run to its end.
    Suspended,
    /// A source that decides was not read.
    Unknown,
    /// Nothing happens until someone intervenes.
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

/// The place of a node among those that wait for a batch of their compartment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuePosition<'a> {
    pub compartment: &'a str,
    /// Counted from 1; `None` where the operator takes nodes in an arbitrary order.
    pub number: Option<usize>,
    /// The nodes that wait, this one included.
    pub waiting: usize,
    /// Nodes of the next batch.
    pub batch: usize,
    /// Nodes of the current batch that are not complete.
    pub working: usize,
}
