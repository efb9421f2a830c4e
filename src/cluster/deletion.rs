//! What still holds back the deletion of a custom resource.

use std::collections::BTreeMap;

use super::{Cluster, Node, NodeRecord};
use crate::api::{Entry, Package, Skyhook, State, Status};

/// A package that the finalizer waits for on a node.
#[derive(Debug)]
pub struct Pending<'a> {
    pub node: &'a Node,
    pub name: &'a str,
    pub package: &'a Package,
    pub entry: &'a Entry,
    pub on: &'a NodeRecord,
}

impl Cluster {
    /// The packages that declare an uninstall and are still tracked on selected nodes.
    ///
    /// The operator's finalizer waits for these (operator `HandleFinalizer`); packages without `uninstall.enabled` do
    /// not count, nor do nodes that are no longer selected.
    pub fn pending_uninstalls<'a>(&'a self, skyhook: &'a Skyhook) -> Vec<Pending<'a>> {
        let nodes = self.selected(skyhook);
        nodes
            .flat_map(|node| self.pending_uninstalls_on(skyhook, node))
            .collect()
    }

    /// The same on one node, selected or not.
    pub fn pending_uninstalls_on<'a>(
        &'a self,
        skyhook: &'a Skyhook,
        node: &'a Node,
    ) -> impl Iterator<Item = Pending<'a>> {
        let on = self.on_node(node, skyhook.name());
        let packages = skyhook.packages().filter(|(_, p)| p.uninstall().enabled);
        packages.filter_map(move |(name, package)| {
            let on = on?;
            let entry = on.entry(&package.entry_key(name))?;
            Some(Pending {
                on,
                node,
                name,
                package,
                entry,
            })
        })
    }

    /// The nodes that the operator chooses in each compartment for as long as the custom resource exists (operator
    /// `GetNodesForNextBatch`): those in progress, or else those of `status.nodePriority` that are not complete.
    ///
    /// A node that a deletion has uninstalled keeps its status, and to the operator it is not complete either.
    pub fn chosen_for_deletion<'a>(
        &'a self,
        skyhook: &'a Skyhook,
    ) -> BTreeMap<&'a str, ChosenNodes<'a>> {
        let mut compartments: BTreeMap<&str, Vec<&Node>> = BTreeMap::new();
        for node in self.selected(skyhook) {
            if let Some(compartment) = self.compartment_of(skyhook, node) {
                compartments.entry(compartment).or_default().push(node);
            }
        }
        let in_progress = |node: &Node| self.status_on(skyhook, node) == Status::InProgress;
        let in_batch = |node: &Node| {
            let on = self.on_node(node, skyhook.name());
            skyhook.status.node_priority.contains_key(&node.name) && !skyhook.is_node_complete(on)
        };
        let chosen = |nodes: Vec<&'a Node>| {
            let by_batch = !nodes.iter().any(|node| in_progress(node));
            let is_chosen = |node: &&Node| {
                if by_batch {
                    in_batch(node)
                } else {
                    in_progress(node)
                }
            };
            ChosenNodes {
                nodes: nodes.into_iter().filter(is_chosen).collect(),
                by_batch,
            }
        };
        let all = compartments.into_iter();
        all.map(|(name, nodes)| (name, chosen(nodes))).collect()
    }
}

impl Pending<'_> {
    /// Whether the operator begins the uninstall in its next reconcile, wherever it has chosen nodes: it then sets the
    /// node's status to in_progress (operator `HandleUninstallRequests`).
    pub fn begins_next(&self) -> bool {
        self.entry.state == State::Complete && !self.entry.stage.is_uninstall()
    }
}

/// The nodes of a compartment on which the operator works before it chooses others.
#[derive(Debug)]
pub struct ChosenNodes<'a> {
    pub nodes: Vec<&'a Node>,
    /// Whether `status.nodePriority` names them, because no node is in progress.
    pub by_batch: bool,
}
