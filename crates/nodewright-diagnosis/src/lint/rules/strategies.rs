//! The strategies of a DeploymentPolicy, and the nodes of their compartments.

use serde_json::Value;

use super::Input;
use crate::api::DeploymentPolicy;
use crate::api::skyhook::{Budget, Compartment};
use crate::cluster::Node;

pub(super) const KINDS: [&str; 3] = ["fixed", "linear", "exponential"];

/// Budget and strategy of one compartment.
pub(super) struct Strategy<'p> {
    /// The compartment with its index in `spec.compartments`; `None` for the default compartment.
    compartment: Option<(usize, &'p Compartment)>,
    pub budget: &'p Budget,
    /// The whole strategy; null without one.
    pub whole: &'p Value,
    /// `fixed`, `linear` or `exponential`; empty without a strategy.
    pub kind: &'static str,
    pub fields: &'p Value,
    /// Number of nodes in the first batch; 0 without a strategy.
    pub initial: i64,
}

/// The strategies of all compartments; the default compartment is last.
pub(super) fn strategies(policy: &DeploymentPolicy) -> Vec<Strategy<'_>> {
    let compartments = policy.spec.compartments.iter().enumerate();
    let default = &policy.spec.default;
    compartments
        .map(|at| Strategy::new(Some(at), &at.1.budget, at.1.strategy.as_ref()))
        .chain([Strategy::new(None, &default.budget, default.strategy.as_ref())])
        .collect()
}

impl<'p> Strategy<'p> {
    fn new(
        compartment: Option<(usize, &'p Compartment)>,
        budget: &'p Budget,
        strategy: Option<&'p Value>,
    ) -> Strategy<'p> {
        let whole = strategy.unwrap_or(&Value::Null);
        let kind = KINDS.into_iter().find(|kind| whole[*kind].is_object());
        let fields = kind.map_or(&Value::Null, |kind| &whole[kind]);
        let initial = kind.map_or(0, |_| fields["initialBatch"].as_i64().unwrap_or(1));
        Strategy { compartment, budget, whole, kind: kind.unwrap_or_default(), fields, initial }
    }

    /// The path of a field of the compartment.
    pub fn path(&self, field: &[&str]) -> Vec<String> {
        let index = self.compartment.map(|(index, _)| index.to_string());
        let compartment = match &index {
            Some(index) => vec!["spec", "compartments", index],
            None => vec!["spec", "default"],
        };
        compartment.iter().chain(field).map(|key| (*key).to_owned()).collect()
    }

    /// Name of the compartment in messages.
    pub fn label(&self) -> String {
        match self.compartment {
            Some((_, compartment)) => format!("compartment {}", compartment.name),
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
        match self.compartment {
            Some((_, compartment)) => compartment.selector.matches(&node.labels),
            None => compartments.all(|c| !c.selector.matches(&node.labels)),
        }
    }
}
