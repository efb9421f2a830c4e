//! How far a custom resource has got on a node: the operator's own sums, done again.

use super::Cluster;
use super::node::{Node, OnNode};
use crate::api::{Entry, Package, Skyhook, Stage, State, Status};

impl Cluster {
    /// What a custom resource left on a node, in the generation that rules.
    pub fn on_node<'a>(&self, node: &'a Node, skyhook: &str) -> Option<&'a OnNode> {
        node.keys(self.generation()).skyhooks.get(skyhook)
    }

    /// The nodes that the custom resource selects now.
    pub fn selected<'a>(&'a self, skyhook: &'a Skyhook) -> impl Iterator<Item = &'a Node> {
        let selector = &skyhook.spec.node_selectors;
        self.nodes
            .items()
            .iter()
            .filter(|n| selector.matches(&n.labels))
    }

    /// The nodes that carry keys of the custom resource, selected or not.
    pub fn tracked<'a>(&'a self, skyhook: &str) -> impl Iterator<Item = (&'a Node, &'a OnNode)> {
        let nodes = self.nodes.items().iter();
        nodes.filter_map(move |n| self.on_node(n, skyhook).map(|on| (n, on)))
    }

    /// The names of all custom resources that left keys on nodes, sorted.
    pub fn names_on_nodes(&self) -> Vec<&str> {
        let nodes = self.nodes.items().iter();
        let mut names: Vec<&str> = nodes
            .flat_map(|n| n.keys(self.generation()).skyhooks.iter())
            .filter(|(_, on)| on.has_keys())
            .map(|(name, _)| name.as_str())
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

impl Skyhook {
    /// Whether the operator counts the package as done with this entry (operator `IsComplete`).
    ///
    /// State alone is not enough: the stage must be the last one, `post-interrupt` for a package
    /// with an interrupt and `config` for one without.
    pub fn is_package_complete(&self, name: &str, entry: &Entry) -> bool {
        let Some(package) = self.package(name) else {
            return false;
        };
        let last = match self.pending_interrupt(name, package) {
            Some(_) => Stage::PostInterrupt,
            None => Stage::Config,
        };
        entry.state == State::Complete && entry.stage == last
    }

    /// The type of interrupt that the operator would carry out for a package now.
    pub fn pending_interrupt<'a>(&self, name: &str, package: &'a Package) -> Option<&'a str> {
        let updates = self
            .status
            .config_updates
            .get(name)
            .map_or(&[][..], Vec::as_slice);
        package.pending_interrupt(updates)
    }

    /// The packages of the spec that are done on a node, and how many there are to do.
    ///
    /// A package that is to be uninstalled counts as done once it is absent.
    pub fn progress(&self, on: Option<&OnNode>) -> Progress {
        let mut progress = Progress::default();
        for (name, package) in self.packages() {
            progress.total += 1;
            let entry = on.and_then(|on| on.entry(&package.entry_key(name)));
            let complete = match entry {
                Some(entry) => self.is_package_complete(name, entry),
                None => package.uninstall().enabled && package.uninstall().apply,
            };
            progress.complete += usize::from(complete);
        }
        progress
    }

    /// Whether nothing is left to do on a node (operator `IsComplete` of the node).
    pub fn is_node_complete(&self, on: Option<&OnNode>) -> bool {
        let progress = self.progress(on);
        let removing = on.is_some_and(|on| {
            on.entries()
                .iter()
                .any(|e| self.package(&e.name).is_some() && e.stage.is_uninstall())
        });
        progress.complete == progress.total && !removing && !on.is_some_and(OnNode::is_malformed)
    }

    /// Whether a package is to go from the nodes: by its own uninstall, or with the custom resource.
    pub fn uninstalls(&self, package: &Package) -> bool {
        let uninstall = package.uninstall();
        uninstall.enabled && (uninstall.apply || self.deleting())
    }

    /// Whether a package that is to go is still recorded on a node.
    pub fn has_uninstall_left(&self, on: Option<&OnNode>) -> bool {
        let mut going = self.packages().filter(|(_, p)| self.uninstalls(p));
        going.any(|(name, p)| on.is_some_and(|on| on.entry(&p.entry_key(name)).is_some()))
    }
}

/// Packages of the spec, done and to do, on one node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    pub complete: usize,
    pub total: usize,
}

impl OnNode {
    /// What the operator says of the node; `unknown` where it has said nothing.
    pub fn operator_status(&self) -> Status {
        self.status.clone().unwrap_or(Status::Unknown)
    }
}
