//! How many nodes of a compartment the operator works on at once.

use super::resource::Resource;

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

    /// The strategy decides the size of a batch, not the budget (operator `createNewBatch`); the reported `ceiling` is the
    /// budget, and limits a batch only without a strategy. The size of a running linear or exponential batch is unknown: if no
    /// node is in progress at a pass, the operator counts part of a batch as one of its own, and records the size of that.
    pub(super) fn of(resource: &Resource<'_>, name: &str) -> AtOnce {
        let mut compartments = resource.compartments.iter();
        let compartment = compartments.find(|compartment| compartment.name == name);
        let statuses = &resource.skyhook.status.compartment_statuses;
        let (Some(compartment), Some(status)) = (compartment, statuses.get(name)) else {
            return AtOnce::Unknown;
        };
        let limit = match &compartment.strategy {
            // Without a deployment policy the model derives a strategy from the budget.
            Some(strategy) if resource.ordered => match strategy.fixed_size() {
                Some(size) => size,
                None => return AtOnce::Varies,
            },
            _ => status.ceiling,
        };
        // A new version, a new configuration and an uninstall begin on all nodes, in no batch.
        if limit < 1 || status.in_progress > limit {
            return AtOnce::Unknown;
        }
        AtOnce::UpTo(limit)
    }
}
