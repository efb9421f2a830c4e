//! The parts that plans of several commands are made of.

pub mod applied;
pub mod batch_restart;
pub mod batches;
pub mod effects;
pub mod merge;
pub mod node;
pub mod node_state;
pub mod pause_guard;
pub mod released;
pub mod uninstalls;
