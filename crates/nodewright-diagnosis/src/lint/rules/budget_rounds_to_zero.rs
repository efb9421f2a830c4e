use super::strategies::strategies;
use super::{Input, LintFindings};
use crate::text::plural;

lint_rule! {
    /// A budget is 0, or a percentage that rounds down to 0.
    ///
    /// # What it means
    ///
    /// The operator rounds a percentage down, and raises 0 to 1: it works on one node at a time. A budget of 0 does not
    /// stop the rollout.
    ///
    /// # How to fix
    ///
    /// Set a count or a percentage that gives at least one node. To stop the rollout, pause the custom resource.
    SKY846 "budget-rounds-to-zero" Warning
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for (manifest, skyhook) in input.skyhooks() {
        let budget = &skyhook.spec.interruption_budget;
        let path = ["spec", "interruptionBudget"];
        if budget.percent == Some(0) || budget.count == Some(0) {
            let message = "a budget of 0 does not stop the rollout: the operator works on one node at a time";
            findings.report(manifest, &path, message).fix("Set at least 1, or pause the custom resource");
        } else if let (Some(percent), Some(nodes)) = (budget.percent, input.selected(skyhook))
            && let Some(message) = rounded(percent, nodes.len())
        {
            findings
                .report(manifest, &["spec", "interruptionBudget", "percent"], message)
                .fix("Set count: 1, or a larger percentage");
        }
    }
    for (manifest, policy) in input.policies() {
        for strategy in strategies(policy) {
            let (Some(percent), Some(nodes)) = (strategy.budget.percent, strategy.nodes(input, policy))
            else {
                continue;
            };
            let Some(message) = rounded(percent, nodes.len()) else {
                continue;
            };
            let path = strategy.path(&["budget", "percent"]);
            findings
                .report(manifest, &path, format!("{}: {message}", strategy.label()))
                .fix("Set count: 1, or a larger percentage");
        }
    }
}

/// The problem of a percentage that is less than one node.
fn rounded(percent: i64, nodes: usize) -> Option<String> {
    let below_one = nodes > 1 && percent > 0 && percent.saturating_mul(nodes as i64) < 100;
    below_one.then(|| {
        format!("{percent}% of {} rounds down to 0, which the operator raises to 1", plural(nodes, "node"))
    })
}
