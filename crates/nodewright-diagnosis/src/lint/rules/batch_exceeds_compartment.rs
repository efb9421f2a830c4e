use super::strategies::strategies;
use super::{Input, LintFindings};
use crate::text::plural;

lint_rule! {
    /// A batch is larger than the group of nodes that it is taken from.
    ///
    /// # What it means
    ///
    /// All nodes of the compartment, or all selected nodes, are worked on at once.
    ///
    /// # How to fix
    ///
    /// Lower `initialBatch`, or the budget.
    SKY845 "batch-exceeds-compartment" Warning
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for (manifest, policy) in input.policies() {
        for strategy in strategies(policy) {
            let Some(nodes) = strategy.nodes(input, policy) else {
                continue;
            };
            let matched = nodes.len() as i64;
            if matched < 2 || strategy.initial <= matched {
                continue;
            }
            let path = strategy.path(&["strategy", strategy.kind, "initialBatch"]);
            let message = format!(
                "initialBatch {} exceeds the {matched} nodes of {}: all start at once",
                strategy.initial,
                strategy.label()
            );
            findings.report(manifest, &path, message).fix(format!("Set initialBatch below {matched}"));
        }
    }
    for (manifest, skyhook) in input.skyhooks() {
        let budget = skyhook.spec.interruption_budget.count;
        let (Some(budget), Some(nodes)) = (budget, input.selected(skyhook)) else {
            continue;
        };
        let selected = nodes.len() as i64;
        if selected > 1 && budget > selected {
            let message = format!(
                "the budget of {budget} exceeds the {} that the custom resource selects: all start at once",
                plural(nodes.len(), "node")
            );
            findings
                .report(manifest, &["spec", "interruptionBudget", "count"], message)
                .fix(format!("Set count below {selected}"));
        }
    }
}
