//! The parts of a node that a command needs, and those that were read.

use super::{Allocatable, Node, NodeCondition, READY, System, Taint};
use crate::api::Shared;
use crate::cluster::cordon_marks::Holder;

/// How much of each node is read. Each needs less of the server than the next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeFields {
    /// Labels, annotations and `managedFields`.
    Metadata,
    /// The metadata, and whether the node is cordoned.
    Cordons,
    #[default]
    All,
}

/// The parts of a node that are neither metadata nor the cordon.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeBody {
    pub taints: Shared<Vec<Taint>>,
    /// The Ready condition, conditions with taints, and the operator's conditions. Others are dropped.
    pub conditions: Box<[NodeCondition]>,
    /// `nvidia.com/gpu` in the node's capacity.
    pub gpus: u64,
    pub allocatable: Shared<Allocatable>,
    pub system: Shared<System>,
    /// Who besides the operator wants it to stay cordoned, cordoned or not; some of them show only in the taints.
    pub cordon_holders: Shared<Vec<Holder>>,
}

impl Node {
    /// How much of the node was read.
    pub fn fields(&self) -> NodeFields {
        match (&self.body, self.unschedulable) {
            (Some(_), _) => NodeFields::All,
            (None, Some(_)) => NodeFields::Cordons,
            (None, None) => NodeFields::Metadata,
        }
    }

    /// Whether new pods are not scheduled here; `None` where it was not read.
    pub fn cordoned(&self) -> Option<bool> {
        self.unschedulable
    }

    /// Taints, conditions and the like; `None` where they were not read.
    pub fn body(&self) -> Option<&NodeBody> {
        self.body.as_ref()
    }

    /// Whether the Ready condition is true; `None` where it was not read. A node without the condition is not ready.
    pub fn ready(&self) -> Option<bool> {
        let conditions = &self.body()?.conditions;
        let mut ready = conditions.iter().filter(|c| c.kind == READY);
        Some(ready.any(|c| c.is_true()))
    }

    /// The known conditions.
    pub fn conditions(&self) -> &[NodeCondition] {
        self.body().map_or(&[], |body| &body.conditions)
    }

    /// The condition of this type, if the node is known to have it.
    pub fn condition(&self, kind: &str) -> Option<&NodeCondition> {
        let mut conditions = self.conditions().iter();
        conditions.find(|c| *c.kind == *kind)
    }

    /// The known taints.
    pub fn taints(&self) -> &[Taint] {
        self.body().map_or(&[], |body| &body.taints)
    }

    /// Who besides the operator wants the node to stay cordoned; an unknown owner where it was not read.
    pub fn cordon_holders(&self) -> Vec<Holder> {
        self.body().map_or_else(|| vec![Holder::unknown()], |body| body.cordon_holders.to_vec())
    }

    /// The GPUs in the known capacity.
    pub fn gpus(&self) -> u64 {
        self.body().map_or(0, |body| body.gpus)
    }

    /// Drops all but the metadata, and sets the cordon as another list has it: a server that does not know metadata lists
    /// returns whole nodes.
    pub(in crate::cluster) fn limit_to_metadata(&mut self, cordoned: Option<bool>) {
        self.body = None;
        self.unschedulable = cordoned;
    }
}
