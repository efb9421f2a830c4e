//! Waiting for the operator: the progress of goals, and the findings that block them. Pure.
//!
//! [`Condition`] evaluates custom resources, [`Blockers`] runs the rules. `ctx/wait.rs` repeats both when a watch
//! shows a change.

mod blockers;
mod condition;
pub mod drain;

pub use blockers::Blockers;
pub use condition::{AwaitedResource, Condition};

/// The state of a goal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wait {
    Met,
    /// Not met yet, with the progress so far.
    Pending(String),
    /// Not met until someone intervenes, with a few words about each blocker.
    Blocked(Vec<String>),
    /// Can no longer be met, with the reason and a command to run instead.
    Never(String, Option<String>),
}
