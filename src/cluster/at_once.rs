//! How many nodes of a compartment the operator works on at once.

use super::Cluster;
use crate::api::Skyhook;
use crate::api::deployment_policy::DEFAULT_COMPARTMENT;

/// What bounds the nodes of a compartment that are worked on at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtOnce {
    /// No more than these.
    UpTo(i64),
    /// Each batch may have another size: a linear or exponential strategy grows it, and shrinks it after failures.
    Varies,
    Unknown,
}

impl AtOnce {
    /// The number, where there is one.
    pub fn limit(self) -> Option<i64> {
        match self {
            AtOnce::UpTo(nodes) => Some(nodes),
            AtOnce::Varies | AtOnce::Unknown => None,
        }
    }
}

impl Cluster {
    /// The number of nodes of a compartment that are worked on at once.
    ///
    /// The strategy decides the size of a batch, not the budget (`createNewBatch`); the reported `ceiling` is the
    /// budget, and limits a batch only without a strategy. The size of a running linear or exponential batch is
    /// unknown: the operator may count a part of it as a batch of its own when no node happens to be in progress, and
    /// records the size of that part.
    pub fn nodes_at_once(&self, skyhook: &Skyhook, compartment: &str) -> AtOnce {
        let Some(status) = skyhook.status.compartment_statuses.get(compartment) else {
            return AtOnce::Unknown;
        };
        let limit = match self.strategy_of(skyhook, compartment) {
            Strategy::None => status.ceiling,
            Strategy::Fixed(batch) => batch,
            Strategy::Growing => return AtOnce::Varies,
            Strategy::Unknown => return AtOnce::Unknown,
        };
        // A new version, a new configuration and an uninstall begin on all nodes, in no batch.
        if limit < 1 || status.in_progress > limit {
            return AtOnce::Unknown;
        }
        AtOnce::UpTo(limit)
    }

    fn strategy_of(&self, skyhook: &Skyhook, compartment: &str) -> Strategy {
        let policy = &skyhook.spec.deployment_policy;
        if policy.is_empty() {
            return Strategy::None;
        }
        let Some(policy) = self.policy(policy) else {
            return Strategy::Unknown;
        };
        // A compartment without a strategy does not take that of the default one.
        let strategy = if compartment == DEFAULT_COMPARTMENT {
            &policy.spec.default.strategy
        } else {
            let mut compartments = policy.spec.compartments.iter();
            match compartments.find(|c| c.name == compartment) {
                Some(own) => &own.strategy,
                None => return Strategy::Unknown,
            }
        };
        let Some(strategy) = strategy else {
            return Strategy::None;
        };
        let has = |kind: &str| strategy.get(kind).is_some_and(|value| !value.is_null());
        if has("fixed") {
            let batch = strategy["fixed"]["initialBatch"].as_i64();
            batch.map_or(Strategy::Unknown, Strategy::Fixed)
        } else if has("linear") || has("exponential") {
            Strategy::Growing
        } else {
            Strategy::Unknown
        }
    }
}

/// How a compartment's batches get their size.
enum Strategy {
    /// From the budget.
    None,
    /// All are of this size.
    Fixed(i64),
    Growing,
    Unknown,
}
