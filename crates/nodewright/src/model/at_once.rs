//! The maximum number of nodes of a compartment on which the operator works at the same time.

use super::resource::Resource;

/// The maximum number of nodes of a compartment on which the operator works at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtOnce {
    /// At most this many nodes.
    UpTo(i64),
    /// The batch size changes: a linear or exponential strategy increases it, and reduces it after failures.
    Varies,
    Unknown,
}

impl AtOnce {
    /// The maximum number of nodes, if it is known.
    pub fn limit(self) -> Option<i64> {
        match self {
            AtOnce::UpTo(nodes) => Some(nodes),
            AtOnce::Varies | AtOnce::Unknown => None,
        }
    }

    /// The limit for a compartment. The batch size follows from the strategy, not from the budget (operator
    /// `createNewBatch`). The reported `ceiling` is the budget, and limits a batch only without a strategy.
    /// The size of a running linear or exponential batch is unknown: if no node is in progress during a
    /// reconcile, the operator counts a part of the batch as a whole batch, and records the size of that
    /// part.
    pub(super) fn of(resource: &Resource<'_>, name: &str) -> AtOnce {
        let mut compartments = resource.compartments.iter();
        let compartment = compartments.find(|compartment| compartment.name == name);
        let statuses = &resource.skyhook.status.compartment_statuses;
        let (Some(compartment), Some(status)) = (compartment, statuses.get(name)) else {
            return AtOnce::Unknown;
        };
        let limit = match &compartment.strategy {
            // Use only the strategy of a deployment policy. Without one, the model derives a strategy from
            // the budget.
            Some(strategy) if resource.ordered => match strategy.fixed_size() {
                Some(size) => size,
                None => return AtOnce::Varies,
            },
            _ => status.ceiling,
        };
        // More nodes than the limit may be in progress: a new version, a new configuration and an uninstall
        // start on all nodes, outside of batches.
        if limit < 1 || status.in_progress > limit {
            return AtOnce::Unknown;
        }
        AtOnce::UpTo(limit)
    }
}
