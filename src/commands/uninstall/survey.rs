//! Where a package stands on all nodes, with regard to its uninstall.

use crate::api::{Entry, Package, Skyhook, State};
use crate::cluster::{Cluster, Execution, Node};
use crate::commands::package::scope::identity;
use crate::view::{NodeSet, plural};

/// Nodes by what an uninstall does there.
#[derive(Debug, Default)]
pub(super) struct Survey<'a> {
    /// Complete: it begins at once.
    pub ready: Vec<&'a Node>,
    /// It is under way.
    pub begun: Vec<(&'a Node, &'a Entry)>,
    /// Being installed: it begins once that is complete.
    pub unfinished: Vec<(&'a Node, &'a Entry)>,
    /// The operator leaves the node alone.
    pub ignored: Vec<&'a Node>,
    /// Selected, and without the package.
    pub absent: Vec<&'a Node>,
    /// Selected, with another version alone, or with one that is being uninstalled.
    pub other: Vec<(&'a Node, &'a Entry)>,
    pub malformed: Vec<&'a Node>,
    /// With the package, and no longer selected: the operator does nothing there.
    pub deselected: Vec<&'a Node>,
}

impl<'a> Survey<'a> {
    pub fn of(
        cluster: &'a Cluster,
        skyhook: &'a Skyhook,
        name: &str,
        package: &Package,
    ) -> Survey<'a> {
        let mut survey = Survey::default();
        let key = package.entry_key(name);
        for node in cluster.nodes.items() {
            let on = cluster.on_node(node, skyhook.name());
            let entry = on.and_then(|on| on.entry(&key));
            if !skyhook.spec.node_selectors.matches(&node.labels) {
                survey.deselected.extend(entry.map(|_| node));
                continue;
            }
            let mut entries = on.map_or(&[][..], |on| on.entries()).iter();
            let other = entries.find(|e| {
                e.key != key && identity(e).0 == name && (entry.is_none() || e.stage.is_uninstall())
            });
            survey.other.extend(other.map(|other| (node, other)));
            match entry {
                _ if on.is_some_and(|on| on.is_malformed()) => survey.malformed.push(node),
                None if other.is_some() => {}
                None => survey.absent.push(node),
                Some(entry) if entry.stage.is_uninstall() => survey.begun.push((node, entry)),
                Some(_) if node.ignored(cluster.generation()) => survey.ignored.push(node),
                Some(entry) if entry.state != State::Complete => {
                    survey.unfinished.push((node, entry));
                }
                Some(_) => survey.ready.push(node),
            }
        }
        survey
    }

    /// The selected nodes with the package, whose uninstall is begun or will be.
    pub fn concerned(&self) -> impl Iterator<Item = &'a Node> {
        let with_entry = self.begun.iter().chain(&self.unfinished);
        let with_entry = with_entry.map(|(node, _)| *node);
        let rest = self.ready.iter().chain(&self.ignored);
        with_entry.chain(rest.copied())
    }

    /// Whether the package is on no selected node, as far as can be read.
    pub fn is_absent(&self) -> bool {
        self.concerned().next().is_none() && self.malformed.is_empty()
    }
}

/// Where the uninstall of a package is at work.
pub(super) fn at_work<'a>(
    cluster: &'a Cluster,
    skyhook: &str,
    package: &str,
) -> Vec<(&'a str, String)> {
    let executions = cluster.executions();
    let ours = |e: &&Execution<'_>| {
        e.skyhook == skyhook && e.package == package && e.stage.is_uninstall() && e.alive()
    };
    let all = executions.all().iter().filter(ours);
    all.map(|e| (e.node, e.reference())).collect()
}

/// `gpu-1`, or `gpu-[1-3] (3 nodes)`.
pub(super) fn nodes<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> String {
    let set = NodeSet::of(nodes.into_iter().map(|n| n.name.as_str()));
    match set.len() {
        1 => set.limited(6),
        n => format!("{} ({})", set.limited(6), plural(n, "node")),
    }
}

/// The first of the nodes.
pub(super) fn first<'a>(entries: &[(&'a Node, &'a Entry)]) -> Option<(&'a Node, &'a Entry)> {
    entries.first().copied()
}
