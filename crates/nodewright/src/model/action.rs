//! Actions of the operator for a custom resource on a node.

use std::fmt;

use jiff::Timestamp;

use super::reason::WaitReason;
use crate::api::Stage;

/// A write of the operator for a custom resource on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action<'a> {
    /// Creates the Job or Pod of a stage.
    StartStage {
        package: &'a str,
        stage: Stage,
    },
    /// Creates the Job or Pod of an interrupt.
    Interrupt {
        package: &'a str,
        kind: &'a str,
    },
    /// Records that the interrupt of another package also serves this one.
    SkipInterrupt {
        package: &'a str,
    },
    /// Records the outcome of a finished stage.
    Record {
        package: String,
        stage: Stage,
    },
    /// Deletes the Job of a stage because it was created for an older spec. The stage then starts again.
    Restart {
        package: String,
        stage: Stage,
    },
    /// Suspends the Job of a stage.
    Suspend {
        package: String,
        stage: Stage,
    },
    /// Resumes the Job of a stage.
    Resume {
        package: String,
        stage: Stage,
    },
    Cordon,
    /// Evicts the pods of the node.
    Drain,
    /// Removes a package from the node state.
    RemoveEntry {
        package: &'a str,
    },
    /// Removes the operator's cordon from a complete node.
    Uncordon,
    /// Sets the node's status to complete.
    MarkComplete,
    /// Removes the node's keys, and then the finalizer.
    Finalize,
}

impl Action<'_> {
    /// The name of the action in printed documents.
    pub fn kind(&self) -> &'static str {
        match self {
            Action::StartStage { .. } => "StartStage",
            Action::Interrupt { .. } => "Interrupt",
            Action::SkipInterrupt { .. } => "SkipInterrupt",
            Action::Record { .. } => "Record",
            Action::Restart { .. } => "Restart",
            Action::Suspend { .. } => "Suspend",
            Action::Resume { .. } => "Resume",
            Action::Cordon => "Cordon",
            Action::Drain => "Drain",
            Action::RemoveEntry { .. } => "RemoveEntry",
            Action::Uncordon => "Release",
            Action::MarkComplete => "MarkComplete",
            Action::Finalize => "Finalize",
        }
    }

    pub fn package(&self) -> Option<&str> {
        match self {
            Action::StartStage { package, .. }
            | Action::Interrupt { package, .. }
            | Action::SkipInterrupt { package }
            | Action::RemoveEntry { package } => Some(package),
            Action::Record { package, .. }
            | Action::Restart { package, .. }
            | Action::Suspend { package, .. }
            | Action::Resume { package, .. } => Some(package),
            _ => None,
        }
    }

    pub fn stage(&self) -> Option<&Stage> {
        match self {
            Action::StartStage { stage, .. }
            | Action::Record { stage, .. }
            | Action::Restart { stage, .. }
            | Action::Suspend { stage, .. }
            | Action::Resume { stage, .. } => Some(stage),
            _ => None,
        }
    }
}

impl Action<'_> {
    /// The verb, and its object: `start` and `stage apply of driver`.
    fn verb_and_object(&self) -> (&'static str, String) {
        match self {
            Action::StartStage { package, stage } => ("start", format!("stage {stage} of {package}")),
            Action::Interrupt { package, kind } => ("start", format!("the {kind} interrupt of {package}")),
            Action::SkipInterrupt { package } => ("mark", format!("the interrupt of {package} as skipped")),
            Action::Record { package, stage } => {
                ("record", format!("the outcome of stage {stage} of {package}"))
            }
            Action::Restart { package, stage } => {
                ("restart", format!("stage {stage} of {package}, whose job was created for an older spec"))
            }
            Action::Suspend { package, stage } => {
                ("suspend", format!("the job of stage {stage} of {package}"))
            }
            Action::Resume { package, stage } => ("resume", format!("the job of stage {stage} of {package}")),
            Action::Cordon => ("cordon", "the node".to_owned()),
            Action::Drain => ("drain", "the node".to_owned()),
            Action::RemoveEntry { package } => ("remove", format!("{package} from the node state")),
            Action::Uncordon => ("remove", "its cordon from the node".to_owned()),
            Action::MarkComplete => ("mark", "the node as complete".to_owned()),
            Action::Finalize => {
                ("remove", "its annotations and labels from the node, and its finalizer".to_owned())
            }
        }
    }

    /// The action as a participle for "the operator has": `started stage apply of driver`.
    pub fn participle(&self) -> String {
        let (verb, object) = self.verb_and_object();
        format!("{}ed {object}", verb.trim_end_matches('e'))
    }
}

/// Formats the action as a predicate of "the operator": `starts stage apply of driver`.
impl fmt::Display for Action<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (verb, object) = self.verb_and_object();
        write!(f, "{verb}s {object}")
    }
}

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
