//! The nodes that a change is for.

use std::collections::BTreeSet;

use super::selection::{expanded, known_node};
use crate::api::{State, Status};
use crate::args::selection::Selection;
use crate::cluster::{Cluster, Node, NodeRecord};
use crate::error::Result;

/// The nodes of a selection, sorted by name.
///
/// # Errors
///
/// A `--node` that does not exist, with the near names; or the nodes could not be read.
pub fn nodes<'a>(cluster: &'a Cluster, selection: &Selection) -> Result<Vec<&'a Node>> {
    super::selection::readable(cluster, crate::cluster::Source::Nodes)?;
    let mut named = BTreeSet::new();
    for word in &selection.node {
        for name in expanded(word)? {
            known_node(cluster, &name)?;
            named.insert(name);
        }
    }
    let all = cluster.nodes.items().iter();
    Ok(all
        .filter(|node| named.is_empty() || named.contains(node.name.as_str()))
        .filter(|node| {
            let pattern = selection.pattern.as_ref();
            pattern.is_none_or(|p| p.is_match(&node.name))
        })
        .filter(|node| {
            let selector = selection.selector.as_ref();
            selector.is_none_or(|s| s.matches(&node.labels))
        })
        .collect())
}

/// Whether something of a custom resource fails on a node.
pub fn fails(on: &NodeRecord) -> bool {
    on.is_malformed()
        || on.status == Some(Status::Erroring)
        || on.entries().iter().any(|e| e.state == State::Erroring)
}
