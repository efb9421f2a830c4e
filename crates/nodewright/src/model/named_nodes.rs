//! Whether the nodes that a command names suffice for the command.

use super::Model;
use crate::api::{Skyhook, Status};
use crate::cluster::{NamedNodes, Node, NodeRecord};

impl Model<'_> {
    /// Whether the named nodes suffice for the command: they exist, all other names are known, and nothing
    /// requires the state of other nodes. `true` if nodes could not be read.
    ///
    /// If the named nodes do not suffice, all nodes are read: they may have a name that the named nodes lack,
    /// or a similar name to suggest.
    pub fn suffices(&self, named: &NamedNodes) -> bool {
        let there = named.nodes.iter().all(|name| self.cluster.node(name).is_some());
        let unread = self.cluster.nodes.ok().is_none();
        let known = |name: &String| {
            let mut all = self.cluster.skyhooks.items().iter().chain(self.cluster.legacy.items());
            all.any(|s| s.name() == name) || self.cluster.names_on_nodes().contains(&name.as_str())
        };
        unread
            || there
                && named.skyhook.as_ref().is_none_or(known)
                && named.package.as_ref().is_none_or(|package| {
                    let skyhook = named.skyhook.as_deref().unwrap_or_default();
                    self.has_package(skyhook, package)
                })
                && !self.lacks_requested_uninstall()
                && !(named.to_change
                    && (self.gave_up_elsewhere()
                        || self.has_work_elsewhere()
                        || self.has_stopped_rollout()
                        || self.has_stopped_deletion()))
    }

    /// Whether all custom resources are finished on a node, so that other nodes do not affect it.
    pub fn is_done_with(&self, node: &Node) -> bool {
        let done = |s: &Skyhook| {
            let on = self.cluster.on_node(node, s.name());
            // Only the whole list of nodes shows whether a package was uninstalled or never installed.
            let absent_by_request = s.packages().any(|(_, p)| p.uninstall().apply);
            !s.deleting()
                && !absent_by_request
                && self.is_done_on(s, node)
                && !on.is_some_and(NodeRecord::is_malformed)
        };
        let selects = |s: &&Skyhook| s.selects(node);
        let skyhooks = self.cluster.skyhooks.ok().map(|all| all.iter().filter(selects));
        self.cluster.legacy.items().is_empty() && skyhooks.is_some_and(|mut all| all.all(done))
    }

    /// Whether a Job failed permanently on a node that was not read. How a pause affects the Job depends on
    /// the state of that node.
    fn gave_up_elsewhere(&self) -> bool {
        let package_runs = self.cluster.package_runs();
        let mut failed = package_runs.all().iter().filter(|run| run.job.is_some() && run.given_up());
        failed.any(|e| self.cluster.node(e.node).is_none())
    }

    /// Whether a custom resource may be incomplete on a node that was not read: work there may start once the named
    /// nodes change.
    fn has_work_elsewhere(&self) -> bool {
        let acts = |skyhook: &&Skyhook| skyhook.is_active() || skyhook.hold().is_some();
        let mut skyhooks = self.cluster.skyhooks.items().iter().filter(acts);
        skyhooks.any(|skyhook| {
            let status = &skyhook.status;
            if skyhook.deleting() || status.observed_generation < skyhook.metadata.generation {
                return true;
            }
            let counts = status.complete_nodes.split_once('/');
            let counts = counts.and_then(|(done, all)| Some((done.parse().ok()?, all.parse().ok()?)));
            let Some((done, all)): Option<(usize, usize)> = counts else {
                return status.status != Some(Status::Complete);
            };
            let nodes = self.cluster.nodes.items().iter().filter(|node| skyhook.selects(node));
            let open = nodes.filter(|node| !self.is_done_on(skyhook, node)).count();
            all.saturating_sub(done) > open
        })
    }

    /// Whether a package with a requested uninstall is absent on a node. Only the whole list of nodes shows
    /// whether the package was ever installed.
    fn lacks_requested_uninstall(&self) -> bool {
        self.cluster.skyhooks.items().iter().any(|skyhook| {
            let mut requested = skyhook.packages().filter(|(_, p)| p.uninstall().apply);
            requested.any(|(name, package)| {
                let absent = |node: &Node| {
                    let on = self.cluster.on_node(node, skyhook.name());
                    let recorded = on.is_some_and(|on| on.entry(&package.entry_key(name)).is_some());
                    skyhook.selects(node) && !recorded
                };
                self.cluster.nodes.items().iter().any(absent)
            })
        })
    }

    /// Whether a rollout has stopped: resuming it affects all of its nodes.
    fn has_stopped_rollout(&self) -> bool {
        let mut all = self.cluster.skyhooks.items().iter();
        all.any(|s| s.stopped_compartments().next().is_some())
    }

    /// Whether a pause or disable stops a deletion. Only the whole list of nodes shows whether packages are left
    /// to uninstall; otherwise the operator finishes the deletion.
    fn has_stopped_deletion(&self) -> bool {
        self.cluster.skyhooks.items().iter().any(|skyhook| skyhook.deleting() && !skyhook.is_active())
    }

    fn has_package(&self, skyhook: &str, package: &str) -> bool {
        let spec = self.cluster.skyhook(skyhook).and_then(|s| s.package(package));
        let mut entries = self.cluster.tracked(skyhook).flat_map(|(_, on)| on.entries());
        spec.is_some() || entries.any(|e| e.identity().0 == package)
    }
}
