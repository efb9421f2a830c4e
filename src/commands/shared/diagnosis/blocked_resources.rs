//! The nodes that a cause blocks.

use std::collections::BTreeSet;

use super::group::{FOLDED, FindingGroup};
use crate::commands::shared::grouped::grouped;
use crate::rules::Finding;
use crate::view::{NodeSet, list, plural};

impl FindingGroup<'_> {
    /// The custom resources that the cause blocks, with node counts. Counts the nodes with an effect, and the
    /// nodes that the cause or an effect keeps from starting, but not the nodes of the cause itself.
    pub(super) fn blocked_resources(&self) -> Option<String> {
        let own: BTreeSet<_> = self.findings.iter().filter_map(|f| place(f)).collect();
        let subjects = self.effects.iter().filter_map(|effect| place(effect));
        let all = self.findings.iter().chain(&self.effects);
        let not_chosen = all.flat_map(|f| {
            let skyhook = f.subject.skyhook.as_deref();
            let nodes = f.blocked_nodes.iter().map(|node| Some(node.as_str()));
            nodes.filter_map(move |node| Some((skyhook?, node)))
        });
        let places = subjects.chain(not_chosen).filter(|held| !own.contains(held));
        let held = grouped(places).into_iter();
        let held = held.map(|(name, nodes)| (name, nodes.into_iter().flatten().collect()));
        let mut held: Vec<(&str, BTreeSet<&str>)> = held.collect();
        held.sort_by_key(|(_, nodes)| std::cmp::Reverse(nodes.len()));
        let mut words = Vec::new();
        for (nodes, names) in grouped(held.iter().map(|(name, nodes)| (nodes.len(), *name))) {
            let on = |name: &str| match nodes {
                0 => name.to_owned(),
                nodes => format!("{name} on {}", plural(nodes, "node")),
            };
            match names.as_slice() {
                [_, _, _, _, ..] => words.push(on(&NodeSet::of(names).limited(FOLDED))),
                few => words.extend(few.iter().map(|name| on(name))),
            }
        }
        (!words.is_empty()).then(|| list(&words))
    }
}

/// The custom resource and the node of a finding.
fn place(finding: &Finding) -> Option<(&str, Option<&str>)> {
    let subject = &finding.subject;
    Some((subject.skyhook.as_deref()?, subject.node.as_deref()))
}
