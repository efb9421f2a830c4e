//! Compartments: parts of a rollout with their own batches, and the assignment of nodes to them.

use super::strategy::Strategy;
use crate::api::deployment_policy::{Budget, DEFAULT_COMPARTMENT};
use crate::api::skyhook::BatchState;
use crate::api::{DeploymentPolicy, LabelSelector, Skyhook};
use crate::cluster::Node;

/// A compartment of a custom resource.
pub(super) struct Compartment<'a> {
    pub name: &'a str,
    /// `None` for the default compartment, which contains the nodes that no other compartment selects.
    selector: Option<&'a LabelSelector>,
    budget: Budget,
    pub strategy: Option<Strategy>,
    /// The counters that the operator has recorded.
    pub state: BatchState,
    /// Indexes of its nodes, in the operator's order of nodes.
    pub members: Vec<u32>,
}

impl Compartment<'_> {
    /// Number of nodes that the budget allows (operator `CalculateCeiling`).
    pub fn ceiling(&self, matched: i64) -> i64 {
        ceiling(&self.budget, matched)
    }
}

fn ceiling(budget: &Budget, matched: i64) -> i64 {
    match (budget.count, budget.percent) {
        (Some(count), _) => count,
        (None, Some(_)) if matched == 0 => 0,
        // Truncate the product, as the operator does.
        (None, Some(percent)) => ((matched as f64 * (percent as f64 / 100.0)) as i64).max(1),
        (None, None) => 0,
    }
}

/// The compartments of a custom resource, still without nodes (operator `BuildState`); empty if its policy is
/// missing.
pub(super) fn compartments<'a>(
    skyhook: &'a Skyhook,
    policy: Option<&'a DeploymentPolicy>,
    nodes: usize,
    without_policy: bool,
) -> Vec<Compartment<'a>> {
    let compartment = |name: &'a str, selector, budget: &Budget, strategy| {
        let recorded = skyhook.status.compartment_statuses.get(name);
        let state = recorded.and_then(|status| status.batch_state.clone());
        Compartment {
            name,
            selector,
            budget: budget.clone(),
            strategy,
            state: state.unwrap_or_else(|| BatchState { current_batch: 1, ..BatchState::default() }),
            members: Vec::new(),
        }
    };
    if without_policy {
        let budget = match &skyhook.spec.interruption_budget {
            Budget { percent: None, count: None } => Budget { percent: Some(100), count: None },
            // The percentage takes precedence if both are set.
            Budget { percent: Some(percent), .. } => Budget { percent: Some(*percent), count: None },
            budget => budget.clone(),
        };
        let nodes = nodes as i64;
        let initial = match budget.count {
            Some(count) => count.min(nodes).max(1),
            None => ceiling(&budget, nodes).max(1),
        };
        let strategy = Some(Strategy::fixed(initial));
        return vec![compartment(DEFAULT_COMPARTMENT, None, &budget, strategy)];
    }
    let Some(spec) = policy.map(|policy| &policy.spec) else {
        return Vec::new();
    };
    let own = spec.compartments.iter().map(|c| {
        let strategy = c.strategy.as_ref().and_then(Strategy::read);
        compartment(&c.name, Some(&c.selector), &c.budget, strategy)
    });
    let strategy = spec.default.strategy.as_ref().and_then(Strategy::read);
    let default = compartment(DEFAULT_COMPARTMENT, None, &spec.default.budget, strategy);
    own.chain([default]).collect()
}

/// Assigns each node to a compartment. If several compartments select a node, it belongs to the one with the
/// safest strategy, then the smallest ceiling, then the first name (operator `AssignNodeToCompartment`).
pub(super) fn assign(compartments: &mut [Compartment<'_>], nodes: &[&Node]) -> Vec<u16> {
    let Some(default) = compartments.iter().position(|c| c.selector.is_none()) else {
        return vec![u16::MAX; nodes.len()];
    };
    let matches = |c: &Compartment<'_>, node: &Node| {
        let selector = c.selector.as_ref();
        selector.is_some_and(|selector| selector.matches(&node.labels))
    };
    let mut ranks: Vec<usize> = (0..compartments.len()).filter(|at| *at != default).collect();
    let rank = |at: &usize| {
        let compartment = &compartments[*at];
        let matched = nodes.iter().filter(|n| matches(compartment, n)).count() as i64;
        let safety = compartment.strategy.map_or(u8::MAX, |s| s.safety());
        (safety, compartment.ceiling(matched.max(1)), compartment.name)
    };
    ranks.sort_by_key(rank);
    let assigned: Vec<u16> = nodes
        .iter()
        .map(|node| {
            let mut ranks = ranks.iter();
            let own = ranks.find(|at| matches(&compartments[**at], node));
            *own.unwrap_or(&default) as u16
        })
        .collect();
    for (node, at) in assigned.iter().enumerate() {
        compartments[usize::from(*at)].members.push(node as u32);
    }
    assigned
}
