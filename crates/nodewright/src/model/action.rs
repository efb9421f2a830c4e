//! Actions of the operator for a custom resource on a node.

use std::fmt;

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
    /// The action as a participle for "the operator has": `started stage apply of driver`.
    pub fn participle(&self) -> String {
        match self {
            Action::StartStage { package, stage } => format!("started stage {stage} of {package}"),
            Action::Interrupt { package, kind } => format!("started the {kind} interrupt of {package}"),
            Action::SkipInterrupt { package } => format!("marked the interrupt of {package} as skipped"),
            Action::Record { package, stage } => {
                format!("recorded the outcome of stage {stage} of {package}")
            }
            Action::Restart { package, stage } => format!("restarted stage {stage} of {package}"),
            Action::Suspend { package, stage } => format!("suspended the job of stage {stage} of {package}"),
            Action::Resume { package, stage } => format!("resumed the job of stage {stage} of {package}"),
            Action::Cordon => "cordoned the node".to_owned(),
            Action::Drain => "evicted the pods on the node".to_owned(),
            Action::RemoveEntry { package } => format!("removed {package} from the node state"),
            Action::Uncordon => "removed its cordon from the node".to_owned(),
            Action::MarkComplete => "marked the node as complete".to_owned(),
            Action::Finalize => {
                "removed its annotations and labels from the node, and its finalizer".to_owned()
            }
        }
    }
}

/// Formats the action as a predicate of "the operator": `starts stage apply of driver`.
impl fmt::Display for Action<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::StartStage { package, stage } => write!(f, "starts stage {stage} of {package}"),
            Action::Interrupt { package, kind } => {
                write!(f, "starts the {kind} interrupt of {package}")
            }
            Action::SkipInterrupt { package } => {
                write!(f, "marks the interrupt of {package} as skipped")
            }
            Action::Record { package, stage } => {
                write!(f, "records the outcome of stage {stage} of {package}")
            }
            Action::Restart { package, stage } => write!(
                f,
                "deletes the job of stage {stage} of {package}, which was created for an older spec, and starts it again"
            ),
            Action::Suspend { package, stage } => {
                write!(f, "suspends the job of stage {stage} of {package}")
            }
            Action::Resume { package, stage } => {
                write!(f, "resumes the job of stage {stage} of {package}")
            }
            Action::Cordon => f.write_str("cordons the node"),
            Action::Drain => f.write_str("drains the node"),
            Action::RemoveEntry { package } => {
                write!(f, "removes {package} from the node state")
            }
            Action::Uncordon => f.write_str("removes its cordon from the node"),
            Action::MarkComplete => f.write_str("marks the node as complete"),
            Action::Finalize => {
                f.write_str("removes its annotations and labels from the node, and its finalizer")
            }
        }
    }
}
