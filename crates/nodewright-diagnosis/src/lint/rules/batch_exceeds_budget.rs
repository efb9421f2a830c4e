use super::strategies::{Strategy, strategies};
use super::{Input, LintFindings};

lint_rule! {
    /// A strategy starts more nodes than the budget beside it allows.
    ///
    /// # What it means
    ///
    /// With a strategy, the operator takes the size of a batch from the strategy alone: the budget does not limit it.
    ///
    /// # How to fix
    ///
    /// Lower `initialBatch`, or use a `fixed` strategy with `initialBatch` at the budget.
    SKY844 "batch-exceeds-budget" Warning
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for (manifest, policy) in input.policies() {
        for strategy in strategies(policy) {
            let nodes = strategy.nodes(input, policy).map(|nodes| nodes.len() as i64);
            let share = |percent: i64| {
                let nodes = nodes.filter(|nodes| *nodes > 1)?;
                Some(percent.saturating_mul(nodes) / 100).map(|budget| budget.max(1))
            };
            let budget = strategy.budget;
            let budget = budget.count.or_else(|| budget.percent.and_then(share));
            let Some(budget) = budget.filter(|count| *count > 0) else {
                continue;
            };
            let (first, largest) = (strategy.initial, strategy.largest(nodes));
            let message = if first > budget {
                format!(
                    "initialBatch {first} exceeds the budget of {budget}, which does not limit the batches \
                     of a strategy"
                )
            } else if largest > budget {
                format!(
                    "the {} strategy grows from {first} to {largest} nodes; the budget of {budget} does not limit it",
                    strategy.kind
                )
            } else {
                continue;
            };
            let path = strategy.path(&["strategy", strategy.kind]);
            findings
                .report(manifest, &path, message)
                .fix(format!("Use a fixed strategy with initialBatch {budget} or less"));
        }
    }
}

impl Strategy<'_> {
    /// Number of nodes in the largest batch if all succeed; in the second batch if the nodes are unknown.
    fn largest(&self, nodes: Option<i64>) -> i64 {
        let number = |name: &str, default| self.fields[name].as_i64().unwrap_or(default);
        let next = |batch: i64| match self.kind {
            "linear" => batch.saturating_add(number("delta", 1).max(1)),
            "exponential" => batch.saturating_mul(number("growthFactor", 2).max(2)),
            _ => batch,
        };
        let Some(nodes) = nodes else {
            return next(self.initial);
        };
        let (mut batch, mut left, mut largest) = (self.initial.max(1), nodes, 0);
        while left > 0 {
            largest = largest.max(batch.min(left));
            left -= batch.min(left);
            batch = next(batch);
        }
        largest
    }
}
