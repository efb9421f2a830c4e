//! Planners: one per kind of change, and the parts that several planners share.

pub mod batches;
pub mod held;
pub mod merge;
pub mod migration;
pub mod node;
pub mod pause_guard;
pub mod reset;
pub mod uninstall;

use crate::cluster::Source;

/// The sources of commands that only start or stop the operator's work.
pub const NEEDS: [Source; 6] =
    [Source::Nodes, Source::Policies, Source::Skyhooks, Source::Operator, Source::Pods, Source::Jobs];
/// Resources that are also listed if nodes are drained: budgets may refuse the evictions.
pub const LISTS: &[(&str, &str)] = &[("policy", "poddisruptionbudgets")];
