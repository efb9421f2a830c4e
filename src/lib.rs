//! The map of the crate.
//!
//! ```text
//! argv ─cli─► commands ─ctx.load─► Cluster ─pure─► View   ─► screen
//!                                     └─────pure─► Report ─► screen   (diagnose: all rules)
//!                                     └─────pure─► Plan   ─► preview ─► confirm ─► apply ─► journal
//! ```
//!
//! Modules are declared in the order in which data flows: each uses only modules above it.
//!
//! | To change | Look in |
//! | --- | --- |
//! | a rule, or add one | `rules/NAME.rs` with its fixture `tests/rules/NAME.yaml`; see `rules/mod.rs` |
//! | a rule of `lint`, or add one | `lint/rules/NAME.rs` with its fixtures in `tests/lint/NAME`; see `lint/mod.rs` |
//! | a column of a table | `Columns::new()` in the command's `View`; the data of a row of `node status` and `node list`: `commands/node/row.rs` |
//! | drains: who refuses an eviction, what is left on the node | `cluster/drain/` (refusals: `refusal.rs`, `eviction.rs`), `rules/drain_*.rs`, `model/gates/drain.rs` |
//! | a difference between versions of the operator | `grep -rE "before\\(0, \|operator_(before\|since)\\(" src`: in `model/`, and in rules and queries that name it |
//! | the progress of a package on a node | `cluster/placement.rs`; `cluster/placement/spec.rs` |
//! | the blockers of an install, an uninstall or a deletion | `blocks` of each rule, and `rules/support/blockers.rs` |
//! | goals and ends of `wait` and of other waiting commands | `wait/`; the watches behind it: `ctx/wait.rs` |
//! | predictions of the operator's next actions: order, batches, gates, stages | `model/`; `model/mod.rs` has a map |
//! | a source, or add one | `cluster/source.rs` lists all sources; the compiler and the tests require the rest, in `cluster/live/sources.rs`, `cluster/dump/loader.rs` and `cluster/capture/pieces.rs` |
//! | when a rule is "not checked", as after a 403 | `rules/report.rs`; the text: `commands/shared/diagnosis/mod.rs` |
//! | the result of reading a source (403, not in the input) | `cluster/read.rs`; from a response of the server: `cluster/live/request.rs` |
//! | a command's sources, writes and output | its `command!` in `commands/` |
//! | a flag of all commands, or of all that change something | `args/global.rs`, `args/safety.rs` |
//! | the plan of a command | `plan/planners/`; the preconditions of a step: `plan/guard.rs` |
//! | the order of a plan's stages | `plan/graph.rs`, `apply/stages.rs` |
//! | the text of a preview | `plan/preview.rs`; its lines: `plan/change.rs`, `plan/metadata.rs`, `plan/consequences.rs` |
//! | the effects of a plan or a manifest on rollouts | `model/effects/`; a plan on a copy of the cluster: `plan/forecast.rs` |
//! | requests for changes, and their results | `apply/`; retries: `apply/step.rs` |
//! | manuals, completions, schemas, tables of `docs` | nothing: `UPDATE=1 cargo test --test it generated` writes them |
//!
//! Restrictions: `api`, `rules` and `view` do no I/O; in `cluster`, only `live` and `dump` do. Only `ctx` reads the
//! clock, and `connect` for credentials that expire. Only `api` spells out API groups. Only commands that stream or wait
//! get a client.

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
