//! Drains of nodes: recorded starts, the pods that they evict, and obstacles.

pub mod eviction;
pub mod obstacles;
pub mod refusal;

use std::collections::HashMap;

use super::pod::Pod;
use super::{Cluster, Node, NodeRecord};
use crate::api::{Skyhook, Status};

/// A node that must be drained before a package can continue.
#[derive(Debug)]
pub struct Drain<'a> {
    pub skyhook: &'a Skyhook,
    pub node: &'a Node,
    pub package: &'a str,
    /// Whether the drain of the node may have begun.
    pub begun: bool,
    /// Whether the node is ignored. It is drained only after the ignore label is removed.
    pub ignored: bool,
}

impl NodeRecord {
    /// Whether a drain may be in progress: the operator cordons a node first.
    pub fn may_drain(&self) -> bool {
        self.cordon || self.drain_start.is_some() || self.drain_blocked.is_some()
    }
}

impl Cluster {
    /// Whether the operator works on no node of the custom resource, so that any node may be next.
    ///
    /// Package pods do not count as work. Before v0.20.0 the operator may create a pod on one node, abort the
    /// reconcile at a refused eviction on another node without recording the pod, and delete the pod in the
    /// next reconcile.
    pub fn is_idle(&self, skyhook: &Skyhook) -> bool {
        skyhook.status.node_priority.is_empty()
            && self.selected(skyhook).all(|n| {
                let on = self.on_node(n, skyhook.name());
                on.is_none_or(|on| on.operator_status() != Status::InProgress && !on.cordon)
            })
    }

    /// Whether the operator has begun to work on the node.
    pub fn is_taken_up(&self, skyhook: &Skyhook, node: &Node) -> bool {
        skyhook.status.node_priority.contains_key(&node.name)
            || self
                .on_node(node, skyhook.name())
                .is_some_and(|on| on.may_drain() || on.operator_status() == Status::InProgress)
    }

    /// Running or pending workload pods that are not being deleted, by node.
    pub fn workloads_by_node(&self) -> HashMap<&str, Vec<&Pod>> {
        self.by_node(|p| is_active(p) && !p.metadata.deleting())
    }

    /// Workload pods that a drain evicts, including pods that are already being deleted, by node.
    pub fn evictable_by_node(&self) -> HashMap<&str, Vec<&Pod>> {
        self.by_node(|p| is_active(p) && is_evicted(p))
    }

    fn by_node(&self, which: impl Fn(&Pod) -> bool) -> HashMap<&str, Vec<&Pod>> {
        let mut by_node: HashMap<&str, Vec<&Pod>> = HashMap::new();
        for pod in self.workloads.items().iter().filter(|p| which(p)) {
            by_node.entry(&pod.spec.node_name).or_default().push(pod);
        }
        by_node
    }
}

fn is_active(pod: &Pod) -> bool {
    matches!(pod.status.phase.as_str(), "Running" | "Pending") && !pod.spec.node_name.is_empty()
}

/// Whether a drain evicts the pod (operator `ShouldEvict`). Pods of a DaemonSet tolerate a cordon.
pub fn is_evicted(pod: &Pod) -> bool {
    let tolerates = pod.spec.tolerations.iter().any(|t| t.key == "node.kubernetes.io/unschedulable");
    let owned_by_node_agent =
        pod.metadata.owner_references.iter().any(|o| o.kind == "DaemonSet" || o.kind == "Node");
    !tolerates && !owned_by_node_agent && pod.metadata.namespace.as_deref() != Some("kube-system")
}
