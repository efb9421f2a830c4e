//! Compartments: the parts of a rollout that have their own budget.

use super::{Cluster, Node};
use crate::api::Skyhook;
use crate::api::deployment_policy::DEFAULT_COMPARTMENT;

impl Cluster {
    /// Whether the custom resource names a deployment policy, but no policies were read.
    pub fn policy_not_read(&self, skyhook: &Skyhook) -> bool {
        !skyhook.spec.deployment_policy.is_empty() && self.policies.ok().is_none()
    }

    /// The compartment of a node, if certain.
    ///
    /// If several selectors match, the operator chooses by strategy; this function returns `None`.
    pub fn compartment_of<'a>(&'a self, skyhook: &'a Skyhook, node: &Node) -> Option<&'a str> {
        let name = &skyhook.spec.deployment_policy;
        if name.is_empty() {
            return Some(DEFAULT_COMPARTMENT);
        }
        let Some(policy) = self.policy(name) else {
            let mut known = skyhook.status.compartment_statuses.keys();
            let only = known.next().map(String::as_str);
            return only.filter(|_| known.next().is_none());
        };
        let compartments = policy.spec.compartments.iter();
        let mut matching = compartments.filter(|c| c.selector.matches(&node.labels));
        match (matching.next(), matching.next()) {
            (None, _) => Some(DEFAULT_COMPARTMENT),
            (Some(one), None) => Some(&one.name),
            (Some(_), Some(_)) => None,
        }
    }

    /// Whether the rollout has stopped in the node's compartment, or may have stopped if the compartment is
    /// uncertain.
    pub fn compartment_stopped(&self, skyhook: &Skyhook, node: &Node) -> bool {
        if stopped_compartments(skyhook).next().is_none() {
            return false;
        }
        self.compartment_of(skyhook, node)
            .is_none_or(|own| stopped_compartments(skyhook).any(|stopped| stopped == own))
    }
}

/// Compartments whose rollout stopped after too many failures. Only a policy sets such a limit.
pub fn stopped_compartments(skyhook: &Skyhook) -> impl Iterator<Item = &str> {
    let limited = !skyhook.spec.deployment_policy.is_empty();
    let all = skyhook.status.compartment_statuses.iter();
    all.filter(move |(_, c)| limited && c.batch_state.as_ref().is_some_and(|b| b.should_stop))
        .map(|(name, _)| name.as_str())
}
