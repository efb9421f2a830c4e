use super::{Input, LintFindings};
use crate::api::LabelSelector;
use crate::cluster::Node;

lint_rule! {
    /// A node selector selects no node.
    ///
    /// # What it means
    ///
    /// The custom resource becomes complete at once with 0 of 0 nodes, and nothing is installed. A compartment without
    /// nodes has no effect: the nodes that it was meant for are in another compartment.
    ///
    /// # How to fix
    ///
    /// Correct the selector, or label the nodes.
    SKY841 "selects-no-node" Warning
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    let Some(nodes) = input.nodes().filter(|nodes| !nodes.is_empty()) else {
        return;
    };
    for (manifest, skyhook) in input.skyhooks() {
        let path = ["spec", "nodeSelectors"];
        if let Some(why) = unmatched(&skyhook.spec.node_selectors, nodes) {
            findings
                .report(manifest, &path, format!("nodeSelectors selects no node: {why}"))
                .fix("Correct the selector, or label the nodes");
        }
    }
    for (manifest, policy) in input.policies() {
        for (index, compartment) in policy.spec.compartments.iter().enumerate() {
            let path = ["spec", "compartments", &index.to_string(), "selector"];
            if let Some(why) = unmatched(&compartment.selector, nodes) {
                let name = &compartment.name;
                let message = format!("compartment {name} selects no node: {why}");
                findings.report(manifest, &path, message).fix("Correct the selector, or label the nodes");
            }
        }
    }
}

/// Why a selector matches none of the nodes; `None` if it matches a node.
fn unmatched(selector: &LabelSelector, nodes: &[Node]) -> Option<String> {
    if nodes.iter().any(|node| selector.matches(&node.labels)) {
        return None;
    }
    let without = selector.match_labels.iter().find(|(key, value)| {
        nodes.iter().filter_map(|node| node.labels.get(key.as_str())).all(|found| found != value.as_str())
    });
    let Some((key, value)) = without else {
        return Some("no node meets all requirements".to_owned());
    };
    let labelled = nodes.iter().any(|node| node.labels.get(key.as_str()).is_some());
    Some(if labelled { format!("no node has {key}={value}") } else { format!("no node has the label {key}") })
}
