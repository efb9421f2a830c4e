//! Code shared by several commands. Nothing here imports a command.

pub mod admission;
pub mod cause_table;
pub mod command;
pub mod deletion;
pub mod diagnosis;
pub mod event_row;
pub mod fail_on;
pub mod folded;
pub mod grouped;
pub mod mutes;
pub mod new_file;
pub mod nodes;
pub mod package_row;
pub mod progress;
pub mod remedy;
pub mod rights;
pub mod rule;
pub mod scope;
pub mod selection;
pub mod status;
pub mod watched;
