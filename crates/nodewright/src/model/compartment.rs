//! Compartments: parts of a rollout with their own batches, and the assignment of nodes to them.

use serde_json::Value;

use super::operator::Operator;
use super::place::{Place, Status};
use crate::api::skyhook::{BatchState, Budget, DEFAULT_COMPARTMENT};
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

/// The counters of a rollout that begins.
pub(super) fn fresh() -> BatchState {
    BatchState { current_batch: 1, ..BatchState::default() }
}

/// Number of nodes that a budget allows (operator `CalculateCeiling`).
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
        let state =
            skyhook.status.compartment_statuses.get(name).and_then(|status| status.batch_state.clone());
        Compartment {
            name,
            selector,
            budget: budget.clone(),
            strategy,
            state: state.unwrap_or_else(fresh),
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
        (safety, ceiling(&compartment.budget, matched.max(1)), compartment.name)
    };
    ranks.sort_by_key(rank);
    let assigned: Vec<u16> = nodes
        .iter()
        .map(|node| {
            let own = ranks.iter().find(|at| matches(&compartments[**at], node));
            *own.unwrap_or(&default) as u16
        })
        .collect();
    for (node, at) in assigned.iter().enumerate() {
        compartments[usize::from(*at)].members.push(node as u32);
    }
    assigned
}

/// A strategy of a deployment policy (operator `DeploymentStrategy`).
#[derive(Debug, Clone, Copy)]
pub(super) struct Strategy {
    growth: Growth,
    initial: i64,
    threshold: i64,
    safety_limit: i64,
    failure_threshold: Option<i64>,
}

#[derive(Debug, Clone, Copy)]
enum Growth {
    Fixed,
    Linear { delta: i64 },
    Exponential { factor: i64 },
}

impl Strategy {
    /// The fixed strategy equivalent to an `interruptionBudget` (operator `createLegacyDefaultCompartment`).
    pub fn fixed(initial: i64) -> Strategy {
        Strategy { growth: Growth::Fixed, initial, threshold: 100, safety_limit: 50, failure_threshold: None }
    }

    /// Reads a strategy. Absent fields have the defaults that the webhook fills in.
    pub fn read(value: &Value) -> Option<Strategy> {
        let kinds = ["fixed", "linear", "exponential"];
        let (kind, fields) =
            kinds.iter().find_map(|kind| Some((*kind, value.get(kind)?)).filter(|(_, v)| !v.is_null()))?;
        let number = |name: &str| fields.get(name).and_then(Value::as_i64);
        Some(Strategy {
            growth: match kind {
                "linear" => Growth::Linear { delta: number("delta").unwrap_or(1) },
                "exponential" => Growth::Exponential { factor: number("growthFactor").unwrap_or(2) },
                _ => Growth::Fixed,
            },
            initial: number("initialBatch").unwrap_or(1),
            threshold: number("batchThreshold").unwrap_or(100),
            safety_limit: number("safetyLimit").unwrap_or(50),
            failure_threshold: number("failureThreshold"),
        })
    }

    /// The size of every batch but the last, which may be smaller, if the strategy is fixed.
    pub fn fixed_size(&self) -> Option<i64> {
        matches!(self.growth, Growth::Fixed).then_some(self.initial)
    }

    /// The rank of the strategy's safety; lower is safer. A node that several compartments select belongs to
    /// the safest one (operator `strategySafetyOrder`).
    pub fn safety(&self) -> u8 {
        match self.growth {
            Growth::Fixed => 0,
            Growth::Linear { .. } => 1,
            Growth::Exponential { .. } => 2,
        }
    }

    /// The size of the next batch, which the budget does not limit (operator `CalculateBatchSize`).
    pub fn batch_size(&self, total: i64, state: &BatchState) -> i64 {
        let processed = state.completed_nodes + state.failed_nodes;
        let shrinks = || state.last_batch_failed && percent(processed, total) < self.safety_limit;
        let last = state.last_batch_size;
        let size = match self.growth {
            _ if total == 0 => return 0,
            Growth::Linear { delta } if last > 0 && shrinks() => (last - delta).max(1),
            Growth::Linear { delta } if last > 0 => last + delta,
            Growth::Exponential { factor } if last > 0 && factor > 0 && shrinks() => (last / factor).max(1),
            Growth::Exponential { factor } if last > 0 && factor > 0 => (last * factor).min(total),
            _ => self.initial,
        };
        size.min(total - processed).max(1)
    }

    /// Updates the state after a batch (operator `EvaluateBatchResult`). The counters of complete and failed
    /// nodes are already current.
    pub fn evaluate(&self, state: &mut BatchState, size: i64, succeeded: i64, total: i64) {
        if size == 0 {
            return;
        }
        let processed = percent(state.completed_nodes + state.failed_nodes, total);
        state.last_batch_size = size;
        state.last_batch_failed = percent(succeeded, size) < self.threshold;
        if state.last_batch_failed {
            state.consecutive_failures += 1;
            let too_many = |limit: i64| state.consecutive_failures >= limit;
            if processed < self.safety_limit && self.failure_threshold.is_some_and(too_many) {
                state.should_stop = true;
            }
        } else {
            state.consecutive_failures = 0;
        }
        state.current_batch += 1;
    }
}

fn percent(part: i64, whole: i64) -> i64 {
    if whole > 0 { part * 100 / whole } else { 0 }
}

/// Number of nodes of a compartment, by the status that the operator gives them in this reconcile.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    total: i64,
    complete: i64,
    failed: i64,
    blocked: i64,
    in_progress: i64,
}

impl Counts {
    pub fn new<'p>(places: impl Iterator<Item = &'p Place>) -> Counts {
        let mut counts = Counts::default();
        for place in places {
            counts.total += 1;
            counts.add(place.status, 1);
        }
        counts
    }

    /// Moves a node from one status to another.
    pub fn change(&mut self, from: Status, to: Status) {
        self.add(from, -1);
        self.add(to, 1);
    }

    fn add(&mut self, status: Status, nodes: i64) {
        match status {
            Status::Complete => self.complete += nodes,
            Status::Erroring => self.failed += nodes,
            Status::Blocked => self.blocked += nodes,
            Status::InProgress => self.in_progress += nodes,
            Status::Waiting | Status::Unknown => {}
        }
    }

    /// The counts once the nodes of the batch are complete.
    pub fn after_batch(self, batch: usize) -> Counts {
        Counts { complete: self.complete + batch as i64, in_progress: 0, ..self }
    }
}

impl Compartment<'_> {
    /// Maximum number of nodes in a batch (operator `batchSize`).
    pub fn batch_size(&self, total: i64, state: &BatchState) -> usize {
        let size = match &self.strategy {
            Some(strategy) => strategy.batch_size(total, state),
            None => ceiling(&self.budget, total),
        };
        usize::try_from(size).unwrap_or(0)
    }

    /// The counters after the operator has evaluated the current batch, if the batch is over (operator
    /// `EvaluateCurrentBatch` and `evaluateCompletedBatches`).
    pub fn evaluated(&self, operator: &Operator<'_>, counts: Counts) -> BatchState {
        let mut state = self.state.clone();
        if counts.in_progress > 0 {
            return state;
        }
        if state.current_batch == 0 {
            state.current_batch = 1;
            return state;
        }
        let mut completed = counts.complete - state.completed_nodes;
        let mut failed = counts.failed - state.failed_nodes;
        if completed < 0 || failed < 0 {
            // Since v0.20 the operator keeps the progress of the counter that did not decrease (upstream
            // 588).
            if operator.before(0, 20) {
                state.completed_nodes = counts.complete;
                state.failed_nodes = counts.failed;
                return state;
            }
            (completed, failed) = (completed.max(0), failed.max(0));
            state.completed_nodes = state.completed_nodes.min(counts.complete);
            state.failed_nodes = state.failed_nodes.min(counts.failed);
            if completed == 0 && failed == 0 {
                return state;
            }
        }
        if completed == 0 && failed == 0 && counts.blocked == 0 {
            return state;
        }
        (state.completed_nodes, state.failed_nodes) = (counts.complete, counts.failed);
        let mut size = completed + failed;
        if size == 0 {
            // Blocked nodes alone neither fail a batch nor advance it.
            if counts.blocked == counts.total {
                return state;
            }
            size = counts.blocked;
        }
        if completed == 0 && failed == 0 && counts.blocked == size {
            return state;
        }
        match &self.strategy {
            Some(strategy) => strategy.evaluate(&mut state, size, completed, counts.total),
            None => {
                state.current_batch += 1;
                state.last_batch_size = size;
            }
        }
        state
    }
}
