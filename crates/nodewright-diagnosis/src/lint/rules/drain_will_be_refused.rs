use super::{Input, LintFindings};
use crate::model::Effects;
use crate::rules::some_of;

lint_rule! {
    /// A PodDisruptionBudget will refuse the drain of selected nodes.
    ///
    /// # What it means
    ///
    /// The budget allows no disruption even with all its pods healthy. Before an interrupt the operator evicts the pods
    /// of a node, and retries until the budget allows each eviction. Until then the rollout waits.
    ///
    /// # How to fix
    ///
    /// Let the budget allow a disruption, add replicas, or move the workload before the rollout.
    SKY866 "drain-will-be-refused" Warning Effects
}

fn check(input: &Input<'_>, effects: &[Effects<'_>], findings: &mut LintFindings) {
    for (manifest, skyhook) in input.skyhooks() {
        let own = effects.iter().filter(|effects| effects.skyhook == skyhook.name());
        for (budget, nodes) in own.flat_map(|effects| &effects.refusing) {
            if !budget.refuses_for_good() {
                continue;
            }
            let nodes: Vec<&str> = nodes.iter().copied().collect();
            let message = format!(
                "PodDisruptionBudget {} allows no eviction, so drains wait on {}",
                budget.path(),
                some_of(&nodes)
            );
            findings
                .report(manifest, &["spec", "packages"], message)
                .fix(
                    "Let the PodDisruptionBudget allow a disruption, or move the workload before the \
                    rollout",
                )
                .evidence(
                    format!("poddisruptionbudget/{}", budget.path()),
                    "disruptions allowed",
                    budget.allows(),
                );
        }
    }
}
