//! The map of the code.
//!
//! ```text
//! argv ─cli─► commands ─ctx.load─► Cluster ─pure─► View   ─► screen
//!                                     └─────pure─► Report ─► screen   (diagnose: all rules)
//!                                     └─────pure─► Plan   ─► preview ─► confirm ─► apply ─► journal
//! ```
//!
//! | Crate | Modules |
//! | --- | --- |
//! | `crates/nodewright` | `bounded`, `reason`, `redact`, `suggestions`, `error`, `api`, `text`, `cluster` but `cluster/live`, `model`, `dump` |
//! | `crates/nodewright-diagnosis` | `plan`, `rules`, `outlook`, `wait`, `lint` |
//! | `crates/nodewright-client` | `connect`, `cluster/live`, `apply`, and of `args`: `connection`, `redacted` |
//! | here | `program`, `view`, `args`, `screen`, `ctx`, `commands`, `cli` |
//!
//! Each crate uses only crates above it, and in each crate modules are declared in the order in which data flows: each
//! uses only modules declared before it. This crate re-exports the modules of the others. Paths below are those in the
//! `src` of the crate that has the module.
//!
//! | To change | Look in |
//! | --- | --- |
//! | a rule, or add one | `rules/NAME.rs` with its fixture `tests/rules/NAME.yaml`; see `rules/mod.rs` |
//! | a rule of `lint`, or add one | `lint/rules/NAME.rs` with its fixtures in `tests/lint/NAME`; see `lint/mod.rs` |
//! | the state of a custom resource, on a node or as a whole, and its precedence | `outlook/`; the tables: `outlook/mod.rs` |
//! | a column of a table | `Columns::new()` in the `blocks` of the command's `View`; of `status`: `items` in `commands/status/overview.rs`, before `message`, which is truncated, with the values from `commands/shared/status/item.rs` and `Summary` in `outlook/resource.rs`, whose fields are also those of `-o json`; of `node list`: `commands/node/list.rs`, of `node status`: `commands/node/status.rs`. Their rows are `commands/node/row.rs`: a field of `NodeRow` is also a field of `node status -o json` |
//! | drains | the operator's recorded refusals (`refusals`), what the API server would refuse now (`Evictions::block`), and both together: `cluster/drain.rs`; which nodes need one, and its progress: `model/on_nodes.rs`; `rules/drain_*.rs`, `model/gates/drain.rs`; what a refused one does to other nodes and custom resources: `obstacles_end_turn` in `model/profile.rs`, simulated by `add_refusal` in `model/advance.rs` |
//! | the owners of taints, labels and finalizers of nodes | `cluster/owners.rs`; features of Kubernetes by version: `cluster/kubernetes.rs` |
//! | completeness, predecessors, compartments and batches of a custom resource on nodes | `model/on_nodes.rs` |
//! | the order of nodes in a batch | `candidates` in `model/selection.rs`, by `Status::rank` in `model/place.rs`, then by age and name (`nodes` in `model/resource.rs`); only a deployment policy makes it binding (`Resource::ordered`) |
//! | a difference between versions of the operator | `model/profile.rs` for rules, planners and commands; the others: `git grep -n -e 'before(0, ' -e 'since(0, ' src crates`, then the callers of `knows_uninstall` |
//! | the progress of a package on a node | `cluster/placement.rs` |
//! | the blockers of an install, an uninstall or a deletion | `blocks` of each rule, and `rules/support/blockers.rs` |
//! | goals of `wait` and of plans | `plan/goal.rs`; how far they are, and what blocks them: `wait/`; the watches behind it: `ctx/wait.rs` |
//! | predictions of the operator's next actions: order, batches, gates, stages | `model/`; `model/mod.rs` has a map |
//! | a source, or add one | `cluster/source.rs` lists all sources; the compiler and the tests require the rest, in `cluster/live/sources.rs`, `dump/loader.rs` and `cluster/capture/mod.rs` |
//! | a 403 in `diagnose stuck` ("could not run") | `cluster/live/request.rs` (`From<Failure>`), then `unread` in `rules/report.rs`; the text: `not_checked` in `commands/shared/diagnosis/mod.rs`; the exit code: `exit` in `commands/diagnose/stuck.rs` |
//! | the result of reading a source (403, not in the capture) | `cluster/source.rs`; from a response of the server: `cluster/live/request.rs` |
//! | a command's sources, writes and output | its `command!` in `commands/` |
//! | a flag of all commands, or of all that change something | `args/global.rs`, `args/safety.rs` |
//! | the plan of a command | `plan/planners/`; the preconditions of a step, and of a whole plan on custom resources and the operator: `plan/precondition.rs`, proven in `apply/precondition.rs` |
//! | why a change is refused | those of one command are under "Errors" of the function that makes its plan, with the functions that decide (of `reset`: `plan` in `plan/planners/reset.rs`); where any is decided: `git grep -n 'Refusal::NAME'`; the words of all are in `plan/refusal.rs`. Those of all changes are decided in `ctx/execute.rs` (`refuse_other_api`, `within`, `read_again` and `send`) and `ctx/process.rs` (the answer). Once the change has begun, a step is skipped or the rest is stopped: `rebase` in `plan/step.rs`, `apply/precondition.rs`, and the exit code in `view/outcome_view.rs`. Missing rights (`may` in `ctx/execute.rs`) and unread sources (`ctx.rs`) are errors, not refusals |
//! | the order of a plan's stages | `plan/graph.rs`, `apply/stages.rs` |
//! | the text of a preview | `view/preview.rs`; its lines: `plan/change.rs`, `plan/metadata.rs`, `plan/consequences.rs` |
//! | the effects of a plan or a manifest on rollouts | `Simulation::effects` in `model/effects.rs`, for lint, previews and `status`; grade and numbers of a plan, which also count work that starts later: `plan/forecast.rs`, which runs the model on a copy of the cluster |
//! | requests for changes, and their results | `apply/`; retries: `apply/step.rs` |
//! | manuals, completions, schemas, tables of `docs` | nothing: `UPDATE=1 cargo test --test it generated` writes them |
//!
//! Restrictions: `api`, `rules` and `view` do no I/O; `dump` and, of `cluster`, `live` do. Only `ctx` reads the
//! clock, and `connect` for credentials that expire. Only `api` spells out API groups. Only commands that stream or wait
//! get a client.

pub use nodewright::{api, bounded, dump, error, model, redact};
pub use nodewright_client::{apply, cluster, connect};
pub use nodewright_diagnosis::{lint, outlook, plan, rules, wait};

pub mod program;

pub mod view;

pub mod args;

pub mod screen;

pub mod ctx;

pub mod commands;

pub mod cli;
