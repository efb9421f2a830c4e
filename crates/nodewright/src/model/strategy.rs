//! Rollout strategies: the size of the next batch, and the failures that stop the rollout.

use serde_json::Value;

use crate::api::skyhook::BatchState;

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
