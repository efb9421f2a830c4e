//! Planners: one per kind of change, and the parts that several planners share.

pub mod applied;
pub mod batch_restart;
pub mod batches;
pub mod effects;
pub mod held;
pub mod merge;
pub mod migration;
pub mod node;
pub mod node_state;
pub mod pause_guard;
pub mod recreation;
pub mod released;
pub mod reset;
pub mod stranding;
pub mod uninstall;
pub mod uninstalls;
