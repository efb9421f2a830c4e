//! What plans are built from: one planner per kind of change, and the parts that several of them share.

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
