//! The nodes that manifests select, and whether two of them select the same ones.

use super::Input;
use crate::api::{LabelSelector, Skyhook};
use crate::cluster::Node;

impl<'a> Input<'a> {
    /// The nodes that a selector matches, if the nodes are known.
    pub fn matching(&self, selector: &LabelSelector) -> Option<Vec<&'a Node>> {
        let nodes = self.nodes()?.iter();
        Some(nodes.filter(|n| selector.matches(&n.labels)).collect())
    }

    /// The nodes that a custom resource selects, if the nodes are known.
    pub fn selected(&self, skyhook: &Skyhook) -> Option<Vec<&'a Node>> {
        self.matching(&skyhook.spec.node_selectors)
    }

    /// Whether two custom resources certainly select the same nodes: nodes of the cluster, or without a cluster because
    /// one selector contains the other.
    pub fn share_nodes(&self, one: &Skyhook, other: &Skyhook) -> bool {
        match self.selected(one) {
            Some(nodes) => nodes.into_iter().any(|node| other.selects(node)),
            None => {
                let (one, other) = (&one.spec.node_selectors, &other.spec.node_selectors);
                contains(one, other) || contains(other, one)
            }
        }
    }

    /// The custom resources that use a policy.
    pub fn users(&self, policy: &str) -> Vec<&Skyhook> {
        let all = self.all_skyhooks().into_iter();
        all.filter(|s| s.spec.deployment_policy == policy).collect()
    }
}

/// Whether every node of `narrow` is also a node of `wide`, as all requirements of `wide` are in `narrow`.
fn contains(wide: &LabelSelector, narrow: &LabelSelector) -> bool {
    let labels = wide.match_labels.iter();
    let expressions = wide.match_expressions.iter();
    labels
        .into_iter()
        .all(|(key, value)| narrow.match_labels.get(key) == Some(value))
        && expressions
            .into_iter()
            .all(|requirement| narrow.match_expressions.contains(requirement))
}
