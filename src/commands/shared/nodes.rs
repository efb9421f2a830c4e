//! Resolution of node arguments against the nodes of a cluster.

use std::collections::BTreeSet;

use super::selection::{complete, readable};
use crate::args::nodes::{NodeArg, NodeQuery, OnNodes, whole};
use crate::cluster::{Cluster, NamedNodes, Node, Source};
use crate::error::{Error, Result};
use crate::view::shell_words;
use crate::view::{NodeSet, count, plural};

/// The nodes that a query selects, in the cluster's order; all nodes for an empty query.
///
/// # Errors
///
/// A name does not exist or a pattern matches nothing: a typo must not look like "no nodes". Labels may match
/// nothing. Or the nodes could not be read, unless the query is empty.
pub fn selected<'a>(cluster: &'a Cluster, query: NodeQuery<'_>) -> Result<Vec<&'a Node>> {
    let all = cluster.nodes.items();
    if query.is_empty() {
        return Ok(all.iter().collect());
    }
    readable(cluster, Source::Nodes)?;
    let mut named = BTreeSet::new();
    for arg in query.named {
        let nodes = named_by(cluster, arg).map_err(|error| hint_of_regex(cluster, arg, error))?;
        named.extend(nodes.into_iter().map(|node| node.name.as_str()));
    }
    let mut nodes: Vec<&Node> =
        all.iter().filter(|node| query.named.is_empty() || named.contains(node.name.as_str())).collect();
    if let Some(pattern) = query.pattern {
        nodes.retain(|node| pattern.is_match(&node.name));
        if nodes.is_empty() {
            complete(cluster, Source::Nodes)?;
            let of = if named.is_empty() { "" } else { " selected" };
            return Err(Error::failed(format!("no{of} node matches --match")));
        }
    }
    nodes.retain(|node| query.selector.is_none_or(|s| s.matches(&node.labels)));
    Ok(nodes)
}

/// The single node that an argument names.
///
/// # Errors
///
/// No node or several nodes match, or the nodes could not be read.
pub fn single<'a>(cluster: &'a Cluster, arg: &NodeArg) -> Result<&'a Node> {
    readable(cluster, Source::Nodes)?;
    match named_by(cluster, arg)?.as_slice() {
        [node] => Ok(*node),
        several => Err(Error::usage(format!(
            "expected one node, but {:?} matches {}: {}",
            arg.to_string(),
            count(several.len()),
            NodeSet::of(several.iter().map(|node| node.name.as_str())).limited(6)
        ))),
    }
}

/// The nodes of one argument, at least one.
fn named_by<'a>(cluster: &'a Cluster, arg: &NodeArg) -> Result<Vec<&'a Node>> {
    if let Some(names) = arg.names() {
        return names.iter().map(|name| known(cluster, name)).collect();
    }
    let all = cluster.nodes.items().iter();
    let matched: Vec<&Node> = all.filter(|node| arg.matches(&node.name)).collect();
    if matched.is_empty() {
        complete(cluster, Source::Nodes)?;
        return Err(Error::failed(format!("no node matches {:?}", arg.to_string())));
    }
    Ok(matched)
}

/// Adds a hint at --match if the argument would match nodes as a regular expression, which upstream's CLI
/// accepts.
fn hint_of_regex(cluster: &Cluster, arg: &NodeArg, error: Error) -> Error {
    let text = arg.to_string();
    let nodes = cluster.nodes.items().iter();
    let matched = whole(&text).map_or(0, |regex| nodes.filter(|n| regex.is_match(&n.name)).count());
    if arg.names().is_some() || matched == 0 {
        return error;
    }
    error.hint(format!(
        "as a regular expression it matches {}: --match {}",
        plural(matched, "node"),
        shell_words(&[text])
    ))
}

/// The names in the query, if they are few: then only these nodes are read.
///
/// `None` without names, with a glob, or with many names.
pub fn named_nodes(query: NodeQuery<'_>, skyhook: Option<&str>, package: Option<&str>) -> Option<NamedNodes> {
    let names = query.named.iter().map(NodeArg::names);
    let names: Option<Vec<&[String]>> = names.collect();
    let named = NamedNodes::few(names?.into_iter().flatten().cloned())?;
    Some(NamedNodes { skyhook: skyhook.map(str::to_owned), package: package.map(str::to_owned), ..named })
}

/// The node of this name.
///
/// # Errors
///
/// No node has the name; the error lists similar names. Or some nodes could not be read, possibly this one.
fn known<'a>(cluster: &'a Cluster, name: &str) -> Result<&'a Node> {
    if let Some(node) = cluster.node(name) {
        return Ok(node);
    }
    complete(cluster, Source::Nodes)?;
    let names = cluster.nodes.items().iter().map(|n| n.name.as_str());
    Err(Error::unknown("node", name, names))
}

/// The nodes of a change to one package; they must be specified.
#[derive(Debug, clap::Args)]
pub struct PackageNodes {
    #[command(flatten)]
    on: OnNodes,

    /// All nodes of the custom resource
    #[arg(long, conflicts_with_all = ["node", "pattern", "selector"])]
    all_nodes: bool,
}

impl PackageNodes {
    /// The names of the selected nodes, if they are named and few.
    pub fn named_nodes(&self) -> Option<NamedNodes> {
        named_nodes(self.on.query(), None, None)
    }

    /// The selected nodes, with or without a record of the custom resource.
    ///
    /// # Errors
    ///
    /// No nodes are specified, a node does not exist, or the nodes could not be read.
    pub fn nodes<'a>(&self, cluster: &'a Cluster) -> Result<Vec<&'a Node>> {
        complete(cluster, Source::Nodes)?;
        let query = self.on.query();
        if query.is_empty() && !self.all_nodes {
            return Err(Error::usage("no nodes specified; use --node, --match, -l or --all-nodes"));
        }
        selected(cluster, query)
    }
}
