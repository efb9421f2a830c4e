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
//! | To change | Look in |
//! | --- | --- |
//! | a rule, or add one | `rules/NAME.rs` with its fixture `tests/rules/NAME.yaml`; `rules/mod.rs` says how |
//! | a rule of `lint`, or add one | `lint/rules/NAME.rs` with its fixtures in `tests/lint/NAME`; `lint/mod.rs` says how |
//! | a column of `node status` | `commands/node/row.rs` (what a row holds) and `commands/node/status.rs` (its cells) |
//! | where a package stands on a node; whether it is complete | `cluster/placement.rs`; `cluster/placement/spec.rs` |
//! | what blocks an install, an uninstall or a deletion | `blocks` of each rule, and `rules/blockers.rs` |
//! | what `wait` and other commands wait for, and when they stop | `wait/`; the watches behind it: `ctx/wait.rs` |
//! | what the operator does next: order, batches, gates, stages | `model/`; `model/mod.rs` has a map |
//! | what is read, or add a source | `cluster/source.rs` names them all; the compiler and the tests ask for the rest, in `cluster/live/sources.rs`, `cluster/dump/loader.rs` and `cluster/capture/pieces.rs` |
//! | when a rule is "not checked", as after a 403 | `rules/report.rs` |
//! | what became of reading a source (403, not in the input) | `cluster/read.rs`; from an answer of the server: `cluster/live/request.rs` |
//! | what a command reads, writes and prints | its `command!` in `commands/` |
//! | a flag of all commands, or of all that change something | `args/global.rs`, `args/safety.rs` |
//! | what a command would do | the plans of `plan/planners/`; how a step is guarded: `plan/guard.rs` |
//! | which stage of a plan comes after which, and when it has its turn | `plan/graph.rs`, `apply/turns.rs` |
//! | the text of a preview | `plan/preview.rs`; its lines: `plan/change.rs`, `plan/metadata.rs`, `plan/consequences.rs` |
//! | the effects of a plan or a manifest on rollouts | `model/effects/`; a plan on a copy of the cluster: `plan/forecast.rs` |
//! | how changes are sent, and what counts as done | `apply/`; how often they are tried again: `apply/step.rs` |
//! | manuals, completions, schemas, tables of `docs` | nothing: `UPDATE=1 cargo test --test it generated` writes them |
//!
//! What is not there: no I/O in `api`, `rules` and `view`, and none in `cluster` but in its two edges `live` and
//! `dump`. No clock but in `ctx`, and in `connect` for credentials that expire. No API group spelled outside `api`. No
//! client in the hands of a command, but of those that stream or wait.

pub mod bounded;
pub mod program;
pub mod reason;
pub mod redact;
pub mod suggestions;

pub mod error;

pub mod api;
pub mod view;

pub mod args;
pub mod connect;

pub mod cluster;
pub mod model;
pub mod plan;
pub mod rules;

pub mod wait;

pub mod lint;

pub mod apply;
pub mod screen;

pub mod ctx;

pub mod commands;

pub mod cli;
