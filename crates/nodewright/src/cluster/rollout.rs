//! The nodes of a custom resource: selected nodes, and nodes with its keys.

use super::Cluster;
use super::node::{Node, NodeRecord};
use crate::api::{Skyhook, Status};
use crate::text::distinct;

impl Cluster {
    /// The record of a custom resource on a node, in the active API.
    ///
    /// Until the newer operator has adopted a node, the older keys count: adoption copies them unchanged.
    pub fn on_node<'a>(&self, node: &'a Node, skyhook: &str) -> Option<&'a NodeRecord> {
        let own = node.keys(self.flavor()).of(skyhook);
        if !self.active_api.migrating() || own.is_some_and(NodeRecord::has_keys) {
            return own;
        }
        let older = node.keys(self.flavor().other()).of(skyhook);
        older.filter(|on| on.has_keys() && self.skyhook(skyhook).is_some()).or(own)
    }

    /// The operator's status of a node for a custom resource; `unknown` without one.
    pub fn status_on(&self, skyhook: &Skyhook, node: &Node) -> Status {
        self.on_node(node, skyhook.name()).map_or(Status::Unknown, NodeRecord::operator_status)
    }

    /// The nodes that the custom resource selects now.
    pub fn selected<'a>(&'a self, skyhook: &'a Skyhook) -> impl Iterator<Item = &'a Node> {
        debug_assert!(!self.limited_to_named_nodes, "needs all nodes, but only named nodes were read");
        let nodes = self.nodes.indexed();
        let selected = self.indexes.selections.of(&skyhook.spec.node_selectors, nodes);
        (0..selected.len()).map(move |at| &nodes[selected[at]])
    }

    /// The custom resources that select the node, in order.
    pub fn selecting<'a>(&'a self, node: &Node) -> impl Iterator<Item = &'a Skyhook> {
        let skyhooks = self.skyhooks.indexed();
        let selecting = self.indexes.selecting.get_or_init(|| {
            let nodes = self.nodes.items();
            let mut selecting = vec![Vec::new(); nodes.len()];
            for (at, skyhook) in self.skyhooks.iter().enumerate() {
                for &node in self.indexes.selections.of(&skyhook.spec.node_selectors, nodes).iter() {
                    selecting[node].push(at);
                }
            }
            selecting
        });
        let found = self.node_position(&node.name).map(|at| selecting[at].as_slice());
        found.unwrap_or_default().iter().map(|at| &skyhooks[*at])
    }

    /// The nodes that carry keys of the custom resource, selected or not.
    pub fn tracked<'a>(&'a self, skyhook: &str) -> impl Iterator<Item = (&'a Node, &'a NodeRecord)> {
        let nodes = self.nodes.indexed();
        let tracked = self.indexes.selections.tracked(skyhook, nodes);
        let tracked = (0..tracked.len()).map(move |at| &nodes[tracked[at]]);
        let skyhook = skyhook.to_owned();
        tracked.filter_map(move |n| self.on_node(n, &skyhook).map(|on| (n, on)))
    }

    /// Nodes that a custom resource selects or that carry its keys, sorted by name.
    pub fn nodes_of(&self, skyhook: &str) -> impl Iterator<Item = &Node> {
        let nodes = self.nodes.indexed();
        let selections = &self.indexes.selections;
        let mut places = selections.tracked(skyhook, nodes).to_vec();
        if let Some(skyhook) = self.skyhook(skyhook) {
            places.extend_from_slice(&selections.of(&skyhook.spec.node_selectors, nodes));
            places.sort_unstable();
            places.dedup();
        }
        places.into_iter().map(|at| &nodes[at])
    }

    /// Sorted names of all custom resources of the active API that left keys on nodes, conditions aside.
    pub fn names_on_nodes(&self) -> Vec<&str> {
        distinct(
            self.nodes
                .iter()
                .flat_map(|n| n.keys(self.flavor()).skyhooks.iter())
                .filter(|(_, on)| on.has_keys())
                .map(|(name, _)| name.as_str()),
        )
    }
}

impl Skyhook {
    /// Whether the custom resource selects a node by the node's current labels.
    pub fn selects(&self, node: &Node) -> bool {
        self.spec.node_selectors.matches(&node.labels)
    }
}

impl NodeRecord {
    /// The operator's status of the node; `unknown` without one.
    pub fn operator_status(&self) -> Status {
        self.status.clone().unwrap_or(Status::Unknown)
    }
}
