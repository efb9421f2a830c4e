//! The nodes that a command names, and whether they alone answer it.

use super::{Cluster, Node, NodeRecord};
use crate::api::Skyhook;

/// What a command is about, where it names its nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Only {
    pub nodes: Vec<String>,
    /// The custom resource that must be known.
    pub skyhook: Option<String>,
    /// The package of it that must be known.
    pub package: Option<String>,
    /// Whether something is changed there: a pause that goes with it bears on other nodes, too.
    pub to_change: bool,
    /// Whether it is asked what keeps the one node: that takes all of them, unless nothing is left to do there.
    pub explained: bool,
}

impl Only {
    /// Up to so many nodes, each is asked for by its name; a list of all comes sooner than more of them.
    pub const MOST: usize = 50;
}

impl Cluster {
    /// Whether what was read of the named nodes answers: they are all there, and what else was named is known.
    ///
    /// What is not known here may be known on another node, or have a near name there.
    pub fn suffices(&self, only: &Only) -> bool {
        let there = only.nodes.iter().all(|name| self.node(name).is_some());
        let unread = self.nodes.ok().is_none();
        let known = |name: &String| {
            let mut all = self.skyhooks.items().iter().chain(self.legacy.items());
            all.any(|s| s.name() == name) || self.names_on_nodes().contains(&name.as_str())
        };
        unread
            || there
                && only.skyhook.as_ref().is_none_or(known)
                && only.package.as_ref().is_none_or(|package| {
                    let skyhook = only.skyhook.as_deref().unwrap_or_default();
                    self.has_package(skyhook, package)
                })
                && !(only.to_change && self.gave_up_elsewhere())
    }

    /// Whether no custom resource has anything left to do on a node, so that nothing elsewhere can keep it.
    pub fn is_done_with(&self, node: &Node) -> bool {
        let done = |s: &Skyhook| {
            let on = self.on_node(node, s.name());
            !s.deleting()
                && self.is_complete_on(s, node)
                && !on.is_some_and(NodeRecord::is_malformed)
        };
        let selects = |s: &&Skyhook| s.selects(node);
        let skyhooks = self.skyhooks.ok().map(|all| all.iter().filter(selects));
        self.legacy.items().is_empty() && skyhooks.is_some_and(|mut all| all.all(done))
    }

    /// Whether a Job has failed permanently on a node that was not read; what is recorded there decides what a pause does to it.
    fn gave_up_elsewhere(&self) -> bool {
        let package_runs = self.package_runs();
        let mut failed = package_runs
            .all()
            .iter()
            .filter(|e| e.job.is_some() && e.given_up());
        failed.any(|e| self.node(e.node).is_none())
    }

    fn has_package(&self, skyhook: &str, package: &str) -> bool {
        let spec = self.skyhook(skyhook).and_then(|s| s.package(package));
        let mut entries = self.tracked(skyhook).flat_map(|(_, on)| on.entries());
        spec.is_some() || entries.any(|e| e.identity().0 == package)
    }
}
