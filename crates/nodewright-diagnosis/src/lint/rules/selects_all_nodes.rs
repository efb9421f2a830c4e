use super::{Input, LintFindings};
use crate::api::LabelSelector;
use crate::cluster::Node;
use crate::text::count;

lint_rule! {
    /// The node selector selects every node.
    ///
    /// # What it means
    ///
    /// The packages run on all nodes, and their interrupts restart or reboot all of them. Control plane nodes are
    /// included if their taints are tolerated.
    ///
    /// # How to fix
    ///
    /// Select the nodes by a label that only the intended nodes have.
    SKY840 "selects-all-nodes" Warning
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    let path = ["spec", "nodeSelectors"];
    for (manifest, skyhook) in input.skyhooks() {
        let selector = &skyhook.spec.node_selectors;
        if manifest.violates_schema(&path) {
            continue;
        }
        let message = if selector.is_empty() {
            "nodeSelectors is missing or empty, which selects every node".to_owned()
        } else if is_universal(selector) {
            "nodeSelectors only requires labels that every node has".to_owned()
        } else if let Some(all) = selects_whole_cluster(input, selector) {
            format!("nodeSelectors selects all {} nodes", count(all))
        } else {
            continue;
        };
        findings.report(manifest, &path, message).fix(
            "Select the nodes by a label that only the intended \
            nodes have",
        );
    }
}

/// Whether every Linux node meets all requirements: they concern only the labels for operating system and host name.
fn is_universal(selector: &LabelSelector) -> bool {
    let os = |key: &str| key == "kubernetes.io/os" || key == "beta.kubernetes.io/os";
    selector.match_labels.iter().into_iter().all(|(key, value)| os(key) && value == "linux")
        && selector.match_expressions.iter().all(|r| match r.operator.as_str() {
            "In" => os(&r.key) && r.values.iter().any(|v| v == "linux"),
            "Exists" => os(&r.key) || r.key == "kubernetes.io/hostname",
            _ => false,
        })
}

/// Number of nodes if the selector matches all nodes and looks unintended: the control plane is included, or the
/// selector only excludes labels. `None` otherwise.
fn selects_whole_cluster(input: &Input<'_>, selector: &LabelSelector) -> Option<usize> {
    let nodes = input.nodes().filter(|nodes| nodes.len() > 1)?;
    let all = nodes.iter().all(|node| selector.matches(&node.labels));
    let negative = selector.match_labels.is_empty()
        && selector.match_expressions.iter().all(|r| matches!(r.operator.as_str(), "NotIn" | "DoesNotExist"));
    let suspicious = negative || nodes.iter().any(is_control_plane);
    (all && suspicious).then_some(nodes.len())
}

fn is_control_plane(node: &Node) -> bool {
    node.labels
        .keys()
        .any(|key| key == "node-role.kubernetes.io/control-plane" || key == "node-role.kubernetes.io/master")
}
