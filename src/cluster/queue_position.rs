//! The place of a node in the queue of its compartment.

use super::at_once::AtOnce;
use super::batch::Batch;
use super::{Cluster, Node};
use crate::api::{Executor, Skyhook, Status};

/// Where a node stands that nothing but the batch keeps from being worked on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuePosition<'a> {
    pub compartment: &'a str,
    /// Counted from 1; nothing where the operator chooses in no order that could be foretold.
    pub number: Option<usize>,
    /// The nodes that wait as this one does, itself included.
    pub waiting: usize,
    /// Nodes that may be worked on at once.
    pub at_once: AtOnce,
    /// Nodes of the batch that are not done.
    pub working: usize,
}

impl Cluster {
    /// The turn of a node; nothing where it is chosen already, or something else keeps it.
    pub fn turn<'a>(&'a self, skyhook: &'a Skyhook, node: &Node) -> Option<QueuePosition<'a>> {
        let batches = self.batches(skyhook);
        let batch = batches
            .into_iter()
            .find(|batch| batch.waiting().contains(&node.name.as_str()))?;
        Some(QueuePosition {
            compartment: batch.compartment,
            number: self.number_of(skyhook, node, &batch),
            waiting: batch.waiting().len(),
            at_once: batch.places(self),
            working: batch.chosen().count(),
        })
    }

    /// With a deployment policy the newer operator takes nodes by age and name, within those of one status.
    fn number_of(&self, skyhook: &Skyhook, node: &Node, batch: &Batch<'_>) -> Option<usize> {
        let ordered =
            self.flavor().executor() == Executor::Job && !skyhook.spec.deployment_policy.is_empty();
        if !ordered {
            return None;
        }
        let place = |node: &Node| {
            let status = self.status_on(skyhook, node);
            let rank = match status {
                Status::Waiting => 0,
                Status::Unknown => 1,
                Status::Blocked => 2,
                _ => 3,
            };
            (rank, node.created, node.name.clone())
        };
        let own = place(node);
        let names = batch.waiting();
        let nodes = names.iter().filter_map(|name| self.node(name));
        Some(1 + nodes.filter(|other| place(other) < own).count())
    }
}
