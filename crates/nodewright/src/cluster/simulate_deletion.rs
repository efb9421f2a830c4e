//! Simulates deletions, to evaluate the resulting cluster beforehand.

use std::collections::BTreeSet;

use super::{Cluster, Read};

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
