//! Waiting for the operator: how far a goal is, and what blocks it until somebody acts. Pure.
//!
//! [`Condition`] judges custom resources, [`Blockers`] asks the rules. `ctx/wait.rs` looks again whenever a watch shows a
//! change.

mod blockers;
mod condition;
pub mod drain;

pub use blockers::Blockers;
pub use condition::{AwaitedResource, Condition};

/// The state of a goal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wait {
    Met,
    /// Not yet met, and the progress so far.
    Pending(String),
    /// Not met until somebody acts, with each blocker in a few words.
    Blocked(Vec<String>),
    /// It can no longer be met: why, and a command to run instead.
    Never(String, Option<String>),
}
