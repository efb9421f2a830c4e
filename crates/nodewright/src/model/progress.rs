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

/// The state of a custom resource, on a node or as a whole, from best to worst. The model yields the states of a
/// node from `Complete` to `Blocked`; the outlook, which also knows the findings, adds the others.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, schemars::JsonSchema,
)]
pub enum ProgressState {
    /// The custom resource no longer exists, but nodes have its annotations or labels.
    Gone,
    /// All work is done.
    Complete,
    /// Progress depends on an event that is expected to happen, or no node is selected.
    Waiting,
    /// A node: a stage runs, or the operator acts in its next reconcile.
    Running,
    /// A custom resource: at least one node makes progress, and none fails or is blocked.
    Progressing,
    /// The custom resource is being deleted.
    Deleting,
    /// A node: the custom resource is paused or disabled; a running stage may still finish.
    Suspended,
    /// The custom resource is paused.
    Paused,
    /// The custom resource is disabled.
    Disabled,
    /// A source that determines the state was not read.
    Unknown,
    /// A custom resource: some nodes make progress, others fail or are blocked.
    Degraded,
    /// No progress until someone intervenes.
    Blocked,
    /// A node: a stage fails or has failed permanently.
    Failed,
    /// A custom resource: no progress because of an error. A deletion with an error is always stuck.
    Stuck,
}

impl ProgressState {
    /// The state in lower case, for text.
    pub fn word(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// Whether nothing happens until someone intervenes.
    pub fn needs_someone(self) -> bool {
        use ProgressState::{Blocked, Disabled, Failed, Paused, Stuck, Suspended};
        matches!(self, Blocked | Disabled | Failed | Paused | Stuck | Suspended)
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
