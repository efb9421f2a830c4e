//! The map of the crate.
//!
//! ```text
//! argv ─cli─► commands ─ctx.load─► Cluster ─pure─► View   ─► screen
//!                                     └─────pure─► Report ─► screen   (diagnose: all rules)
//!                                     └─────pure─► Plan   ─► preview ─► confirm ─► apply ─► journal
//! ```
//!
//! Modules stand in the order in which data flows: each uses those above it only.
//!
//! What is not there: no I/O in `api`, `rules` and `view`, and none in `cluster` but in its two edges `live` and
//! `dump`. No clock but in `ctx`. No API group spelled outside `api`. No client in the hands of a command.

pub mod reason;

pub mod api;
pub mod cluster;
pub mod plan;
pub mod rules;
pub mod view;

pub mod apply;
pub mod args;
pub mod connect;
pub mod screen;

pub mod cli;
pub mod commands;
pub mod ctx;
pub mod error;
pub mod program;
