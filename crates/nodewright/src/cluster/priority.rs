//! The order of custom resources: which one goes first, which ones wait, and on which nodes the operator can
//! work now.

use std::sync::OnceLock;

use super::{Cluster, Node, Read};
use crate::api::Skyhook;

/// Cache of the first unfinished custom resource on each node, and of the first unfinished one with
/// `sequencing: all`. The former blocks later custom resources on its node, the latter on all nodes.
#[derive(Debug, Default)]
pub(super) struct FirstIncomplete {
    on_nodes: OnceLock<Vec<Option<usize>>>,
    /// Positions of the first unfinished custom resource with `sequencing: all`, and of a node on which it is
    /// not done.
    everywhere: OnceLock<Option<(usize, usize)>>,
}

/// An earlier custom resource that must finish first.
#[derive(Debug, Clone, Copy)]
pub struct Predecessor<'a> {
    pub skyhook: &'a Skyhook,
    /// A node on which the custom resource is not done.
    pub node: &'a Node,
}

impl Skyhook {
    /// Whether the operator starts new work for the custom resource: it is neither paused nor disabled.
    pub fn is_active(&self) -> bool {
        !self.paused() && !self.disabled()
    }

    /// Whether later custom resources wait on all nodes until this one is done on all nodes.
    pub fn blocks_all_nodes(&self) -> bool {
        self.spec.sequencing == "all"
    }
}

impl Cluster {
    /// The first earlier custom resource with `sequencing: all` that is not done everywhere.
    pub fn predecessor_everywhere<'a>(&'a self, skyhook: &Skyhook) -> Option<Predecessor<'a>> {
        let first = &self.indexes.roots.everywhere;
        let (root, node) = (*first.get_or_init(|| self.first_that_blocks_all_nodes()))?;
        let predecessor =
            Predecessor { skyhook: &self.skyhooks.indexed()[root], node: &self.nodes.indexed()[node] };
        (predecessor.skyhook.order() < skyhook.order()).then_some(predecessor)
    }

    /// The first custom resource that is not done on this node, if it is an earlier one: all custom resources
    /// between the two wait for it as well.
    pub fn predecessor_on<'a>(&'a self, skyhook: &Skyhook, node: &'a Node) -> Option<Predecessor<'a>> {
        let roots = &self.indexes.roots.on_nodes;
        let roots = roots.get_or_init(|| self.first_unfinished());
        let root = roots[self.node_position(&node.name)?]?;
        let root = &self.skyhooks.indexed()[root];
        (root.order() < skyhook.order()).then_some(Predecessor { skyhook: root, node })
    }

    /// Custom resources that can block later ones, with their positions, in order. A disabled one blocks
    /// nothing.
    fn blocking(&self) -> impl Iterator<Item = (usize, &Skyhook)> {
        let all = self.skyhooks.items().iter().enumerate();
        all.filter(|(_, skyhook)| !skyhook.disabled())
    }

    /// For each node, the position of the first custom resource that is not done there.
    fn first_unfinished(&self) -> Vec<Option<usize>> {
        let nodes = self.nodes.items();
        let mut roots = vec![None; nodes.len()];
        for (at, skyhook) in self.blocking() {
            let selected = self.indexes.selections.of(&skyhook.spec.node_selectors, nodes);
            for &node in selected.iter() {
                if roots[node].is_none() && !self.is_complete_on(skyhook, &nodes[node]) {
                    roots[node] = Some(at);
                }
            }
        }
        roots
    }

    /// Positions of the first unfinished custom resource with `sequencing: all`, and of a node on which it is
    /// not done.
    fn first_that_blocks_all_nodes(&self) -> Option<(usize, usize)> {
        let mut blocking = self.blocking().filter(|(_, s)| s.blocks_all_nodes());
        blocking.find_map(|(at, skyhook)| {
            let node = self.unfinished(skyhook).next()?;
            Some((at, self.node_position(&node.name)?))
        })
    }

    /// Whether the deployment policy of a custom resource does not exist.
    pub fn policy_missing(&self, skyhook: &Skyhook) -> bool {
        let name = &skyhook.spec.deployment_policy;
        if name.is_empty() {
            return false;
        }
        match &self.policies {
            Read::Ok(_) => self.policy(name).is_none(),
            // If policies are unknown, use the condition that the operator set.
            Read::Incomplete(..) | Read::Unreadable(_) | Read::NotRequested => {
                skyhook.true_condition("DeploymentPolicyNotFound").is_some()
            }
        }
    }

    /// Unfinished nodes on which nothing but the batch keeps the operator from working.
    pub fn actionable_nodes<'a>(&'a self, skyhook: &'a Skyhook) -> Vec<&'a Node> {
        let mut actionable = self.actionable_including_ignored(skyhook);
        actionable.retain(|n| !n.ignored(self.flavor()));
        actionable
    }

    /// [`Cluster::actionable_nodes`], including ignored nodes.
    pub fn actionable_including_ignored<'a>(&'a self, skyhook: &'a Skyhook) -> Vec<&'a Node> {
        let held = !skyhook.is_active()
            || self.policy_missing(skyhook)
            || self.predecessor_everywhere(skyhook).is_some();
        if held {
            return Vec::new();
        }
        self.unfinished(skyhook)
            .filter(|n| self.untolerated_by(skyhook, n).is_empty())
            .filter(|n| !self.compartment_stopped(skyhook, n))
            .filter(|n| self.predecessor_on(skyhook, n).is_none())
            .collect()
    }
}
