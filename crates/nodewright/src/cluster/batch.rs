//! Batches: the nodes of a compartment on which the operator works together, and the nodes that wait for a
//! batch.

use std::collections::BTreeMap;

use super::{Cluster, Node};
use crate::api::{Skyhook, Status};

/// The batch of one compartment of a custom resource.
#[derive(Debug)]
pub struct Batch<'a> {
    pub compartment: &'a str,
    /// The unfinished nodes of the compartment.
    unfinished: Vec<&'a Node>,
    /// Unfinished nodes on which nothing but the batch can keep the operator from working.
    open: Vec<&'a Node>,
    skyhook: &'a Skyhook,
}

impl Skyhook {
    /// Whether the operator currently selects nodes in batches. A deletion works on all nodes at once.
    pub fn has_batches(&self) -> bool {
        self.is_active() && !self.deleting() && !self.status.node_priority.is_empty()
    }

    fn chose(&self, node: &Node) -> bool {
        self.status.node_priority.contains_key(&node.name)
    }
}

impl<'a> Batch<'a> {
    /// The unfinished nodes of the compartment, in the batch or not.
    pub fn unfinished(&self) -> impl Iterator<Item = &'a Node> {
        self.unfinished.iter().copied()
    }

    pub fn contains(&self, node: &Node) -> bool {
        self.skyhook.chose(node)
    }

    /// Unfinished nodes in the batch.
    pub fn chosen(&self) -> impl Iterator<Item = &'a Node> {
        self.unfinished().filter(|n| self.skyhook.chose(n))
    }

    /// Nodes in the batch that the operator skips although nothing blocks them: before v0.20 it works only on
    /// the nodes in progress while there are any (`GetNodesForNextBatch`, upstream issue 587). Empty from
    /// v0.20 on: these nodes then proceed at the same time, up to the batch size.
    pub fn passed_over(&self, cluster: &Cluster) -> Vec<&'a Node> {
        let in_progress = |node: &&'a Node| cluster.status_on(self.skyhook, node) == Status::InProgress;
        if !cluster.operator_before(0, 20) || !self.unfinished().any(|n| in_progress(&n)) {
            return Vec::new();
        }
        let chosen = self.open.iter().copied().filter(|n| self.skyhook.chose(n));
        chosen.filter(|n| !in_progress(n)).collect()
    }

    /// Nodes that are not in the batch, and that nothing else blocks.
    pub fn waiting(&self) -> Vec<&'a str> {
        let waiting = self.open.iter().filter(|n| !self.skyhook.chose(n));
        waiting.map(|n| n.name.as_str()).collect()
    }
}

impl Cluster {
    /// Batches of a custom resource, without compartments whose rollout has stopped.
    pub fn batches<'a>(&'a self, skyhook: &'a Skyhook) -> Vec<Batch<'a>> {
        let mut batches: BTreeMap<&str, Batch<'a>> = BTreeMap::new();
        let mut within = |node: &'a Node, open: bool| {
            let Some(compartment) = self.compartment_of(skyhook, node) else {
                return;
            };
            let batch = batches.entry(compartment).or_insert_with(|| Batch {
                compartment,
                unfinished: Vec::new(),
                open: Vec::new(),
                skyhook,
            });
            if open { batch.open.push(node) } else { batch.unfinished.push(node) }
        };
        for node in self.unfinished(skyhook) {
            if !self.compartment_stopped(skyhook, node) {
                within(node, false);
            }
        }
        for node in self.actionable_nodes(skyhook) {
            within(node, true);
        }
        batches.into_values().collect()
    }
}
