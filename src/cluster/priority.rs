//! The order of custom resources: which one goes first, which one waits, and where the operator can work now.

use std::sync::OnceLock;

use super::{Cluster, Node, Read};
use crate::api::Skyhook;

/// The first unfinished custom resources, by position. An unfinished root blocks all custom resources after it.
#[derive(Debug, Default)]
pub(super) struct Roots {
    on_nodes: OnceLock<Vec<Option<usize>>>,
    /// The root with `sequencing: all`, and a node on which it is not done.
    everywhere: OnceLock<Option<(usize, usize)>>,
}

/// An earlier custom resource that must finish first.
#[derive(Debug, Clone, Copy)]
pub struct Gate<'a> {
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
    pub fn gates_everywhere(&self) -> bool {
        self.spec.sequencing == "all"
    }
}

impl Cluster {
    /// The first earlier custom resource with `sequencing: all` that is not done everywhere.
    pub fn gate_everywhere<'a>(&'a self, skyhook: &Skyhook) -> Option<Gate<'a>> {
        let first = &self.indexes.roots.everywhere;
        let (root, node) = (*first.get_or_init(|| self.first_that_gates_everywhere()))?;
        let gate = Gate { skyhook: &self.skyhooks.indexed()[root], node: &self.nodes.indexed()[node] };
        (gate.skyhook.order() < skyhook.order()).then_some(gate)
    }

    /// The first earlier custom resource that is not done on this node: the root of the chain.
    pub fn gate_on<'a>(&'a self, skyhook: &Skyhook, node: &'a Node) -> Option<Gate<'a>> {
        let roots = &self.indexes.roots.on_nodes;
        let roots = roots.get_or_init(|| self.first_unfinished());
        let root = roots[self.node_position(&node.name)?]?;
        let root = &self.skyhooks.indexed()[root];
        (root.order() < skyhook.order()).then_some(Gate { skyhook: root, node })
    }

    /// Custom resources that block others, with their positions, in order. A disabled one blocks nothing.
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

    /// Positions of the first unfinished custom resource with `sequencing: all`, and of a node on which it is not done.
    fn first_that_gates_everywhere(&self) -> Option<(usize, usize)> {
        let mut gating = self.blocking().filter(|(_, s)| s.gates_everywhere());
        gating.find_map(|(at, skyhook)| {
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
            // If policies are unknown, the operator's condition decides.
            Read::Incomplete(..) | Read::Unreadable(_) | Read::NotRequested => {
                skyhook.true_condition("DeploymentPolicyNotFound").is_some()
            }
        }
    }

    /// Unfinished nodes on which nothing but the batch keeps the operator from working.
    pub fn open_nodes<'a>(&'a self, skyhook: &'a Skyhook) -> Vec<&'a Node> {
        let mut open = self.open_but_for_ignore(skyhook);
        open.retain(|n| !n.ignored(self.flavor()));
        open
    }

    /// [`Cluster::open_nodes`], including ignored nodes.
    pub fn open_but_for_ignore<'a>(&'a self, skyhook: &'a Skyhook) -> Vec<&'a Node> {
        let held =
            !skyhook.is_active() || self.policy_missing(skyhook) || self.gate_everywhere(skyhook).is_some();
        if held {
            return Vec::new();
        }
        self.unfinished(skyhook)
            .filter(|n| self.untolerated_by(skyhook, n).is_empty())
            .filter(|n| !self.compartment_stopped(skyhook, n))
            .filter(|n| self.gate_on(skyhook, n).is_none())
            .collect()
    }
}
