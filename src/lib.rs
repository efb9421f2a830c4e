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
//! `dump`. No clock but in `ctx`, and in `connect` for credentials that expire. No API group spelled outside `api`. No
//! client in the hands of a command, but of those that stream or wait.

pub mod bounded;
pub mod program;
pub mod reason;
pub mod redact;
pub mod suggestions;

pub mod api;
pub mod view;

pub mod args;
pub mod connect;

pub mod cluster;
pub mod plan;
pub mod rules;

pub mod apply;
pub mod error;
pub mod screen;

pub mod ctx;

pub mod commands;

pub mod cli;
