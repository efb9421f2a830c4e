//! Groups nodes by the effect of an uninstall.

use crate::api::{Entry, Package, Skyhook, State};
use crate::cluster::{Cluster, Node, Phase};
use crate::view::{NodeSet, plural};

/// Nodes by the effect of an uninstall.
#[derive(Debug, Default)]
pub struct PlacementSummary<'a> {
    /// The package is complete: the uninstall starts immediately.
    pub ready: Vec<&'a Node>,
    /// The uninstall is in progress.
    pub begun: Vec<(&'a Node, &'a Entry)>,
    /// The package is being installed: the uninstall starts once the current stage is complete.
    pub unfinished: Vec<(&'a Node, &'a Entry)>,
    /// The operator ignores the node.
    pub ignored: Vec<&'a Node>,
    /// Selected nodes without the package.
    pub absent: Vec<&'a Node>,
    /// Selected nodes with only another version, or with another version that is being uninstalled.
    pub other: Vec<(&'a Node, &'a Entry)>,
    pub malformed: Vec<&'a Node>,
    /// Nodes with the package that are no longer selected: the operator does nothing there.
    pub deselected: Vec<&'a Node>,
}

impl<'a> PlacementSummary<'a> {
    pub fn of(
        cluster: &'a Cluster,
        skyhook: &'a Skyhook,
        name: &'a str,
        package: &Package,
    ) -> PlacementSummary<'a> {
        let mut survey = PlacementSummary::default();
        for node in cluster.nodes.items() {
            let here = cluster.placement(skyhook, name, node);
            if !here.selected {
                survey.deselected.extend(here.entry.map(|_| node));
                continue;
            }
            let mut all = cluster.placements_on(skyhook.name(), node).into_iter();
            let other = all.find_map(|p| {
                let other = p.package == name && p.version != package.version;
                p.entry.filter(|_| other && (here.entry.is_none() || p.phase.is_uninstall()))
            });
            survey.other.extend(other.map(|other| (node, other)));
            match (here.phase, here.entry) {
                (Phase::Malformed, _) => survey.malformed.push(node),
                (_, None) if other.is_some() => {}
                (_, None) => survey.absent.push(node),
                (phase, Some(entry)) if phase.is_uninstall() => survey.begun.push((node, entry)),
                _ if here.ignored => survey.ignored.push(node),
                // The operator starts an uninstall from every stage that is complete.
                (_, Some(entry)) if entry.state != State::Complete => {
                    survey.unfinished.push((node, entry));
                }
                _ => survey.ready.push(node),
            }
        }
        survey
    }

    /// The selected nodes on which the uninstall is running or will run.
    pub fn concerned(&self) -> impl Iterator<Item = &'a Node> {
        let with_entry = self.begun.iter().chain(&self.unfinished);
        let with_entry = with_entry.map(|(node, _)| *node);
        let rest = self.ready.iter().chain(&self.ignored);
        with_entry.chain(rest.copied())
    }

    /// Whether no selected node has the package in the version of the spec, and no node state is malformed.
    pub fn is_absent(&self) -> bool {
        self.concerned().next().is_none() && self.malformed.is_empty()
    }
}

/// Formats nodes: `gpu-1`, or `gpu-[1-3] (3 nodes)`.
pub fn nodes<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> String {
    let set = NodeSet::of(nodes.into_iter().map(|n| n.name.as_str()));
    match set.len() {
        1 => set.limited(6),
        n => format!("{} ({})", set.limited(6), plural(n, "node")),
    }
}

pub fn first<'a>(entries: &[(&'a Node, &'a Entry)]) -> Option<(&'a Node, &'a Entry)> {
    entries.first().copied()
}
