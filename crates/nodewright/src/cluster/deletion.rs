//! Packages that delay the deletion of a custom resource.

use super::{Cluster, Node, NodeRecord};
use crate::api::{Entry, Package, Skyhook, State};

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
    /// Packages that declare an uninstall and are still recorded on selected nodes, at the version of the
    /// spec.
    ///
    /// The operator's finalizer waits for these packages (operator `HandleFinalizer`). Packages without
    /// `uninstall.enabled` do not count, nor do nodes that are no longer selected.
    pub fn pending_uninstalls<'a>(&'a self, skyhook: &'a Skyhook) -> Vec<Pending<'a>> {
        let nodes = self.selected(skyhook);
        nodes.flat_map(|node| self.pending_uninstalls_on(skyhook, node)).collect()
    }

    /// The pending uninstalls on one node, selected or not.
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
            Some(Pending { on, node, name, package, entry })
        })
    }
}

impl Pending<'_> {
    /// Whether the operator begins the uninstall in its next reconcile, if the node is in the batch. It then
    /// sets the node's status to in_progress (operator `HandleUninstallRequests`).
    pub fn begins_next(&self) -> bool {
        self.entry.state == State::Complete && !self.entry.stage.is_uninstall()
    }
}
