//! The strategies of a DeploymentPolicy, and the nodes of their compartments.

use serde_json::Value;

use super::Input;
use crate::api::skyhook::{Budget, DEFAULT_COMPARTMENT};
use crate::api::{DeploymentPolicy, LabelSelector};
use crate::cluster::Node;

/// Budget and strategy of one compartment.
pub(super) struct Strategy<'p> {
    pub name: &'p str,
    /// The index in `spec.compartments`; `None` for the default compartment.
    index: Option<usize>,
    selector: Option<&'p LabelSelector>,
    pub budget: &'p Budget,
    /// `fixed`, `linear` or `exponential`; empty without a strategy.
    pub kind: &'static str,
    pub fields: &'p Value,
    /// Number of nodes in the first batch; 0 without a strategy.
    pub initial: i64,
}

/// The strategies of all compartments; the default compartment is last.
pub(super) fn strategies(policy: &DeploymentPolicy) -> Vec<Strategy<'_>> {
    let spec = &policy.spec;
    let mut all: Vec<Strategy<'_>> = spec
        .compartments
        .iter()
        .enumerate()
        .map(|(index, c)| {
            let place = (c.name.as_str(), Some(index), Some(&c.selector));
            Strategy::new(place, &c.budget, c.strategy.as_ref())
        })
        .collect();
    let default = &spec.default;
    all.push(Strategy::new((DEFAULT_COMPARTMENT, None, None), &default.budget, default.strategy.as_ref()));
    all
}

impl<'p> Strategy<'p> {
    fn new(
        (name, index, selector): (&'p str, Option<usize>, Option<&'p LabelSelector>),
        budget: &'p Budget,
        strategy: Option<&'p Value>,
    ) -> Strategy<'p> {
        let members = strategy.unwrap_or(&Value::Null);
        let kind = ["fixed", "linear", "exponential"].into_iter().find(|kind| members[*kind].is_object());
        let fields = kind.map_or(&Value::Null, |kind| &members[kind]);
        let initial = kind.map(|_| fields["initialBatch"].as_i64().unwrap_or(1));
        Strategy {
            name,
            index,
            selector,
            budget,
            kind: kind.unwrap_or_default(),
            fields,
            initial: initial.unwrap_or_default(),
        }
    }

    /// The path of a field of the compartment.
    pub fn path(&self, field: &[&str]) -> Vec<String> {
        let compartment = match self.index {
            Some(index) => vec!["compartments".to_owned(), index.to_string()],
            None => vec!["default".to_owned()],
        };
        let field = field.iter().map(|key| (*key).to_owned());
        std::iter::once("spec".to_owned()).chain(compartment).chain(field).collect()
    }

    /// Names the compartment: `compartment gpu`, or `the default compartment`.
    pub fn label(&self) -> String {
        match self.index {
            Some(_) => format!("compartment {}", self.name),
            None => "the default compartment".to_owned(),
        }
    }

    /// The compartment's nodes, among the nodes that users of the policy select, or among all nodes if the
    /// policy has no users. A node that matches the selectors of several compartments counts in each. `None`
    /// if the nodes are unknown.
    pub fn nodes<'a>(&self, input: &Input<'a>, policy: &DeploymentPolicy) -> Option<Vec<&'a Node>> {
        let nodes = input.nodes()?.iter();
        let users = input.users(&policy.metadata.name);
        let nodes = nodes.filter(|n| users.is_empty() || users.iter().any(|s| s.selects(n)));
        Some(nodes.filter(|n| self.holds(policy, n)).collect())
    }

    fn holds(&self, policy: &DeploymentPolicy, node: &Node) -> bool {
        let mut compartments = policy.spec.compartments.iter();
        match self.selector {
            Some(selector) => selector.matches(&node.labels),
            None => compartments.all(|c| !c.selector.matches(&node.labels)),
        }
    }
}
