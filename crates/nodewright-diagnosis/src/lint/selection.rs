//! The nodes that manifests select, and overlaps between selectors.

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

    /// Whether two custom resources certainly select a common node of the cluster. If the nodes are unknown:
    /// whether one selector implies the other.
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

/// Whether `narrow` certainly implies all requirements of `wide`, so that `wide` selects every node of
/// `narrow`.
pub(super) fn contains(wide: &LabelSelector, narrow: &LabelSelector) -> bool {
    let labels = wide.match_labels.iter();
    let mut expressions = wide.match_expressions.iter();
    let required = |key: &str, value: &String| {
        required_values(narrow, key).is_some_and(|values| values.iter().all(|v| *v == value))
    };
    labels.into_iter().all(|(key, value)| required(key, value))
        && expressions.all(|requirement| {
            let values = required_values(narrow, &requirement.key);
            narrow.match_expressions.contains(requirement)
                || values.is_some_and(|values| match requirement.operator.as_str() {
                    "In" => values.iter().all(|v| requirement.values.contains(v)),
                    "NotIn" => !values.iter().any(|v| requirement.values.contains(v)),
                    operator => operator == "Exists",
                })
        })
}

/// The values that a selector allows for a label; `None` if the selector does not list them.
pub(super) fn required_values<'s>(selector: &'s LabelSelector, key: &str) -> Option<Vec<&'s String>> {
    if let Some(value) = selector.match_labels.get(key) {
        return Some(vec![value]);
    }
    let mut expressions = selector.match_expressions.iter();
    let listed = expressions.find(|r| r.key == key && r.operator == "In" && !r.values.is_empty())?;
    Some(listed.values.iter().collect())
}
