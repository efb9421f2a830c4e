use std::collections::BTreeSet;

use super::{Input, LintFindings};
use crate::cluster::drain::is_evicted;
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
    SKY866 "drain-will-be-refused" Warning
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    let Some(cluster) = input.cluster else {
        return;
    };
    for (manifest, skyhook) in input.skyhooks() {
        let interrupts = skyhook.packages().any(|(_, p)| p.interrupt.is_some());
        let bypassed = skyhook.spec.drain_config.disable_eviction == Some(true);
        if !interrupts || bypassed || skyhook.disabled() {
            continue;
        }
        let open = input.selected(skyhook).unwrap_or_default().into_iter();
        let open: BTreeSet<&str> = open
            .filter(|node| !cluster.is_complete_on(skyhook, node))
            .map(|node| node.name.as_str())
            .collect();
        let budgets = cluster.disruption_budgets.items().iter();
        for budget in budgets.filter(|budget| budget.refuses_for_good()) {
            let pods = cluster.workloads.items().iter();
            let pods = pods.filter(|pod| budget.selects(pod) && is_evicted(pod));
            let nodes: BTreeSet<&str> =
                pods.map(|pod| pod.spec.node_name.as_str()).filter(|node| open.contains(node)).collect();
            if nodes.is_empty() {
                continue;
            }
            let nodes: Vec<&str> = nodes.into_iter().collect();
            let message = format!(
                "the budget {} allows no eviction: drains wait on {}",
                budget.path(),
                some_of(&nodes)
            );
            findings
                .report(manifest, &["spec", "packages"], message)
                .fix("Let the budget allow a disruption, or move the workload before the rollout")
                .evidence(
                    format!("poddisruptionbudget/{}", budget.path()),
                    "disruptions allowed",
                    budget.allows(),
                );
        }
    }
}
