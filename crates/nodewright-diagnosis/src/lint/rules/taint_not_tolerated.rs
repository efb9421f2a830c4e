use std::collections::BTreeMap;

use super::{Input, LintFindings};
use crate::rules::some_of;
use crate::text::plural;

lint_rule! {
    /// Selected nodes have a taint that the custom resource does not tolerate.
    ///
    /// # What it means
    ///
    /// The operator does not work on such a node, regardless of the taint's effect. Taints that come and go with a
    /// node, such as `node.kubernetes.io/not-ready`, are not reported.
    ///
    /// # How to fix
    ///
    /// Add a toleration for the taint to `additionalTolerations`, or exclude the nodes in `nodeSelectors`.
    SKY863 "taint-not-tolerated" Warning
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    let Some(cluster) = input.cluster else {
        return;
    };
    for (manifest, skyhook) in input.skyhooks() {
        let mut nodes_of: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        let selected = input.selected(skyhook).unwrap_or_default();
        for node in &selected {
            for taint in cluster.untolerated_by(skyhook, node) {
                if !taint.of_lifecycle() {
                    nodes_of.entry(taint.kubectl_notation()).or_default().push(&node.name);
                }
            }
        }
        for (taint, nodes) in nodes_of {
            let message = format!(
                "the taint {taint} on {} of {} is not tolerated, so no package runs on these nodes",
                nodes.len(),
                plural(selected.len(), "selected node")
            );
            findings
                .report(manifest, &["spec", "additionalTolerations"], message)
                .fix("Add a toleration for the taint to additionalTolerations, or exclude the nodes in nodeSelectors")
                .evidence("nodes", "with the taint", some_of(&nodes));
        }
    }
}
