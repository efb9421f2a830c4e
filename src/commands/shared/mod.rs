//! Code shared by several commands. Nothing here imports a command.

pub mod admission;
pub mod cause_table;
pub mod command;
pub mod deletion;
pub mod diagnosis;
pub mod grouped;
pub mod mutes;
pub mod progress;
pub mod remedy;
pub mod rights;
pub mod rows;
pub mod rule;
pub mod scope;
pub mod status;
