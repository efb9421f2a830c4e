use super::{Input, LintFindings};
use crate::api::Skyhook;

lint_rule! {
    /// No budget limits the number of nodes that are worked on at once.
    ///
    /// # What it means
    ///
    /// Without `interruptionBudget` and `deploymentPolicy` the operator works on all selected nodes at once. If a
    /// package needs an interrupt, all of them are drained and interrupted together. `percent: 100` is reported only if
    /// a package reboots the nodes.
    ///
    /// # How to fix
    ///
    /// Set `interruptionBudget`, or reference a DeploymentPolicy.
    SKY842 "no-budget" Warning
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for (manifest, skyhook) in input.skyhooks() {
        let spec = &skyhook.spec;
        let few = input.selected(skyhook).is_some_and(|nodes| nodes.len() < 2);
        if !spec.deployment_policy.is_empty() || spec.packages.is_empty() || few {
            continue;
        }
        let path = ["spec", "interruptionBudget"];
        if manifest.violates_schema(&path) {
            continue;
        }
        let budget = &spec.interruption_budget;
        let waits = !spec.pod_non_interrupt_labels.is_empty();
        let effect = strongest(skyhook);
        let (path, why): (&[&str], &str) = match (budget.percent, budget.count) {
            (None, None) => (&["spec"], "neither interruptionBudget nor deploymentPolicy is set"),
            (Some(100..), None) if effect == REBOOTED && !waits => (&path, "the budget is 100%"),
            _ => continue,
        };
        let message = format!("{why}: all selected nodes are {effect} at once");
        findings
            .report(manifest, path, message)
            .fix("Set interruptionBudget, or reference a DeploymentPolicy");
    }
}

const REBOOTED: &str = "drained and rebooted";

/// The strongest effect of the packages on a node.
fn strongest(skyhook: &Skyhook) -> &'static str {
    let kinds: Vec<&str> = skyhook
        .packages()
        .filter_map(|(_, package)| Some(package.interrupt.as_ref()?.kind.as_str()))
        .collect();
    if kinds.contains(&"reboot") {
        REBOOTED
    } else if kinds.is_empty() {
        "processed"
    } else {
        "drained and interrupted"
    }
}
