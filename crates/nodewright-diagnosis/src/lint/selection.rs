//! The nodes that manifests select, and overlaps between selectors.

use std::collections::{BTreeSet, HashMap};

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

    /// The custom resources that meet a condition after the manifests are applied, by their selectors.
    pub fn selections(&self, condition: impl Fn(&Skyhook) -> bool) -> Selections<'_> {
        let all = self.all_skyhooks().into_iter().filter(|skyhook| condition(skyhook));
        let mut by_selector: HashMap<&LabelSelector, Vec<&Skyhook>> = HashMap::new();
        for skyhook in all {
            by_selector.entry(&skyhook.spec.node_selectors).or_default().push(skyhook);
        }
        let mut groups: Vec<_> = by_selector.into_iter().collect();
        groups.iter_mut().for_each(|(_, skyhooks)| skyhooks.sort_by_key(|skyhook| skyhook.order()));
        groups.sort_by_key(|(_, skyhooks)| skyhooks[0].order());
        let mut by_label: HashMap<_, Vec<usize>> = HashMap::new();
        for (at, (selector, _)) in groups.iter().enumerate() {
            for label in labels(selector) {
                by_label.entry(label).or_default().push(at);
            }
        }
        Selections { nodes: self.nodes(), groups, by_label }
    }

    /// The custom resources that use a policy.
    pub fn users(&self, policy: &str) -> Vec<&Skyhook> {
        let uses = |skyhook: &&Skyhook| skyhook.spec.deployment_policy == policy;
        let own = self.skyhooks().map(|(_, skyhook)| skyhook);
        let live = self.cluster.into_iter().flat_map(|cluster| cluster.skyhooks.items()).filter(uses);
        let unchanged = live.filter(|live| own.clone().all(|skyhook| skyhook.name() != live.name()));
        own.clone().filter(uses).chain(unchanged).collect()
    }
}

/// Custom resources by their node selectors.
pub struct Selections<'s> {
    nodes: Option<&'s [Node]>,
    /// The custom resources of each selector, in the order in which the operator processes them.
    groups: Vec<(&'s LabelSelector, Vec<&'s Skyhook>)>,
    /// The groups that name a label value; `None` has those that name none.
    by_label: HashMap<Option<(&'s str, &'s str)>, Vec<usize>>,
}

impl<'s> Selections<'s> {
    /// The other custom resources that certainly select a common node of the cluster. If the nodes are unknown: those
    /// whose selector implies the one of this custom resource, or the reverse.
    pub fn overlapping<'o>(&'o self, skyhook: &'o Skyhook) -> impl Iterator<Item = &'s Skyhook> + 'o {
        let own = &skyhook.spec.node_selectors;
        let selected: Option<Vec<&Node>> =
            self.nodes.map(|nodes| nodes.iter().filter(|node| own.matches(&node.labels)).collect());
        let named = labels(own);
        // Of selectors that name values, one implies another only if both name one of them.
        let near: BTreeSet<usize> = if self.nodes.is_none() && !matches!(named.as_slice(), [None]) {
            let labels = named.iter().chain(&[None]);
            labels.filter_map(|label| self.by_label.get(label)).flatten().copied().collect()
        } else {
            (0..self.groups.len()).collect()
        };
        let groups = near.into_iter().map(|at| &self.groups[at]);
        let groups = groups.filter(move |(selector, _)| match &selected {
            Some(nodes) => nodes.iter().any(|node| selector.matches(&node.labels)),
            None => *selector == own || contains(own, selector) || contains(selector, own),
        });
        let skyhooks = groups.flat_map(|(_, skyhooks)| skyhooks.iter().copied());
        skyhooks.filter(|other| other.name() != skyhook.name())
    }
}

/// The label values that a selector names; `None` if it names none.
fn labels(selector: &LabelSelector) -> Vec<Option<(&str, &str)>> {
    let labels = selector.match_labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    let listed = selector.match_expressions.iter().filter(|r| r.operator == "In");
    let listed = listed.flat_map(|r| r.values.iter().map(|value| (r.key.as_str(), value.as_str())));
    let all: Vec<_> = labels.chain(listed).map(Some).collect();
    if all.is_empty() { vec![None] } else { all }
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
