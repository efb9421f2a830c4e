//! Packages that delay the deletion of a custom resource.

use std::collections::BTreeSet;

use super::{Cluster, Node, NodeRecord, Read};
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

impl Cluster {
    /// The cluster right after the deletion request of the custom resources in `deleting`, without those in
    /// `gone`.
    ///
    /// Complete packages with an uninstall are then being uninstalled, unless the custom resource is paused
    /// or disabled. During a migration, custom resources of the other API are removed, because they are
    /// deleted first.
    pub fn simulate_deletion(&self, gone: &BTreeSet<&str>, deleting: &BTreeSet<&str>) -> Cluster {
        let mut cluster = self.clone();
        let mut freed = !gone.is_empty();
        if self.active_api.migrating()
            && let Some(legacy) = self.legacy.ok()
        {
            freed |= !legacy.is_empty();
            cluster.legacy = Read::Ok(Vec::new());
        }
        let Some(skyhooks) = cluster.skyhooks.available_mut() else {
            return cluster;
        };
        skyhooks.retain(|s| !gone.contains(s.name()));
        for skyhook in skyhooks.iter_mut() {
            let goes = deleting.contains(skyhook.name());
            let asked = &mut skyhook.metadata.deletion_timestamp;
            if goes {
                asked.get_or_insert(self.taken_at);
            }
            // Custom resources that waited for the deleted ones could not proceed before: count their
            // deletion from now.
            if freed && asked.is_some() {
                *asked = Some(self.taken_at);
            }
        }
        let flavor = self.flavor();
        let Some(nodes) = cluster.nodes.available_mut() else {
            return cluster;
        };
        for skyhook in skyhooks.iter().filter(|s| s.deleting() && s.is_active()) {
            let selects = &skyhook.spec.node_selectors;
            for node in nodes.iter_mut().filter(|n| selects.matches(&n.labels)) {
                node.simulate(flavor, skyhook.name(), |state| {
                    let packages = skyhook.packages();
                    for (name, package) in packages.filter(|(_, p)| p.uninstall().enabled) {
                        state.simulate_uninstall(&package.entry_key(name));
                    }
                });
            }
        }
        cluster
    }
}
