//! Which custom resource goes first, which one waits, and where the operator can work now.

use super::{Cluster, Node, Read};
use crate::api::Skyhook;

/// An earlier custom resource that has to finish first.
#[derive(Debug, Clone, Copy)]
pub struct Gate<'a> {
    pub skyhook: &'a Skyhook,
    /// A node on which it is not done.
    pub node: &'a Node,
}

impl Skyhook {
    /// Neither paused nor disabled: the operator starts new work for it.
    pub fn runs(&self) -> bool {
        !self.paused() && !self.disabled()
    }

    /// Whether later ones wait everywhere until this one is done everywhere.
    pub fn gates_everywhere(&self) -> bool {
        self.spec.sequencing == "all"
    }
}

impl Cluster {
    /// Earlier custom resources that still count, in their order. A disabled one blocks no other custom resource.
    fn earlier<'a>(&'a self, skyhook: &Skyhook) -> impl Iterator<Item = &'a Skyhook> {
        let order = skyhook.order();
        let all = self.skyhooks.items().iter();
        all.filter(move |s| s.order() < order && !s.disabled())
    }

    /// The first earlier custom resource with `sequencing: all` that is not done everywhere.
    pub fn gate_everywhere<'a>(&'a self, skyhook: &Skyhook) -> Option<Gate<'a>> {
        self.earlier(skyhook)
            .filter(|s| s.gates_everywhere())
            .find_map(|earlier| {
                let node = self.unfinished(earlier).next()?;
                Some(Gate {
                    skyhook: earlier,
                    node,
                })
            })
    }

    /// The first earlier custom resource that is not done on this node: the root of the chain.
    pub fn gate_on<'a>(&'a self, skyhook: &Skyhook, node: &'a Node) -> Option<Gate<'a>> {
        self.earlier(skyhook)
            .find(|s| s.selects(node) && !self.is_complete_on(s, node))
            .map(|skyhook| Gate { skyhook, node })
    }

    /// Whether the deployment policy that a custom resource names is not there.
    pub fn policy_missing(&self, skyhook: &Skyhook) -> bool {
        let name = &skyhook.spec.deployment_policy;
        if name.is_empty() {
            return false;
        }
        match &self.policies {
            Read::Ok(policies) => policies.iter().all(|p| p.metadata.name != *name),
            // Then the operator's condition decides.
            Read::Unreadable(_) | Read::NotRequested => {
                skyhook.true_condition("DeploymentPolicyNotFound").is_some()
            }
        }
    }

    /// The nodes with work left on which nothing but the batch keeps the operator from working.
    pub fn open_nodes<'a>(&'a self, skyhook: &'a Skyhook) -> Vec<&'a Node> {
        let mut open = self.open_but_for_ignore(skyhook);
        open.retain(|n| !n.ignored(self.flavor()));
        open
    }

    /// The same, and those that would be among them were they not ignored.
    pub fn open_but_for_ignore<'a>(&'a self, skyhook: &'a Skyhook) -> Vec<&'a Node> {
        let held = !skyhook.runs()
            || self.policy_missing(skyhook)
            || self.gate_everywhere(skyhook).is_some();
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
