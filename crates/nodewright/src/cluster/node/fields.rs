//! The parts of a node that are read.

use super::{Allocatable, Node, NodeCondition, READY, System, Taint};
use crate::api::Shared;
use crate::cluster::cordon::Holder;

/// The fields of a node that are read, in order of the load on the server.
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
    /// Everyone besides the operator who wants the node to stay cordoned, whether or not the node is
    /// cordoned. Some of these holders can be seen only in the taints.
    pub cordon_holders: Shared<Vec<Holder>>,
}

impl Node {
    /// The fields of the node that were read.
    pub fn fields(&self) -> NodeFields {
        match (&self.body, self.unschedulable) {
            (Some(_), _) => NodeFields::All,
            (None, Some(_)) => NodeFields::Cordons,
            (None, None) => NodeFields::Metadata,
        }
    }

    /// Whether the node is cordoned; `None` if this was not read.
    pub fn cordoned(&self) -> Option<bool> {
        self.unschedulable
    }

    /// Taints, conditions and other parts; `None` if they were not read.
    pub fn body(&self) -> Option<&NodeBody> {
        self.body.as_ref()
    }

    /// Whether the Ready condition is true; `None` if conditions were not read. A node without the condition
    /// is not ready.
    pub fn ready(&self) -> Option<bool> {
        let conditions = &self.body()?.conditions;
        let mut ready = conditions.iter().filter(|c| c.kind == READY);
        Some(ready.any(|c| c.is_true()))
    }

    /// The conditions; empty if they were not read.
    pub fn conditions(&self) -> &[NodeCondition] {
        self.body().map_or(&[], |body| &body.conditions)
    }

    /// The condition of this type; `None` if it is absent or was not read.
    pub fn condition(&self, kind: &str) -> Option<&NodeCondition> {
        let mut conditions = self.conditions().iter();
        conditions.find(|c| *c.kind == *kind)
    }

    /// The taints; empty if they were not read.
    pub fn taints(&self) -> &[Taint] {
        self.body().map_or(&[], |body| &body.taints)
    }

    /// Everyone besides the operator who wants the node to stay cordoned; an unknown holder if holders were
    /// not read.
    pub fn cordon_holders(&self) -> Vec<Holder> {
        self.body().map_or_else(|| vec![Holder::unknown()], |body| body.cordon_holders.to_vec())
    }

    /// Number of GPUs in the capacity; 0 if the capacity was not read.
    pub fn gpus(&self) -> u64 {
        self.body().map_or(0, |body| body.gpus)
    }

    /// Drops everything but the metadata, and sets the cordon, which another list has shown. Servers without
    /// metadata lists return whole nodes.
    pub fn limit_to_metadata(&mut self, cordoned: Option<bool>) {
        self.body = None;
        self.unschedulable = cordoned;
    }
}
