//! What still holds back the deletion of a custom resource.

use super::{Cluster, Node, NodeRecord};
use crate::api::{Entry, Package, Skyhook};

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
    /// This is what the operator's finalizer waits for (operator `HandleFinalizer`); packages
    /// without `uninstall.enabled` do not count, nor do nodes that are no longer selected.
    pub fn pending_uninstalls<'a>(&'a self, skyhook: &'a Skyhook) -> Vec<Pending<'a>> {
        let mut pending = Vec::new();
        for node in self.selected(skyhook) {
            let Some(on) = self.on_node(node, skyhook.name()) else {
                continue;
            };
            for (name, package) in skyhook.packages().filter(|(_, p)| p.uninstall().enabled) {
                if let Some(entry) = on.entry(&package.entry_key(name)) {
                    pending.push(Pending {
                        on,
                        node,
                        name,
                        package,
                        entry,
                    });
                }
            }
        }
        pending
    }
}
