//! The objects of a cluster that the arguments of a command name.

use std::collections::BTreeSet;

use crate::api::LabelSelector;
use crate::cluster::{Cluster, Node, Source};
use crate::commands::shared::selection;
use crate::ctx::Ctx;
use crate::error::{Error, Result};
use crate::rules::Scope;

/// The nodes that the words name and that have the labels; all, where neither is given.
///
/// # Errors
///
/// A name that is no node; see [`selection::nodes`].
pub fn nodes<'a>(
    cluster: &'a Cluster,
    words: &[String],
    labels: Option<&LabelSelector>,
) -> Result<Vec<&'a Node>> {
    let mut nodes = selection::nodes(cluster, words)?;
    nodes.retain(|node| labels.is_none_or(|labels| labels.matches(&node.labels)));
    Ok(nodes)
}

/// The names of nodes in words that may each be a set of them.
///
/// # Errors
///
/// A set that stands for none, or for too many.
pub fn node_names(words: &[String]) -> Result<Vec<String>> {
    let names: Result<Vec<Vec<String>>> = words.iter().map(|w| selection::expanded(w)).collect();
    Ok(names?.concat())
}

/// Refuses names that are not there: the answer would look like "nothing stuck".
///
/// # Errors
///
/// The first of them, with the near names.
pub fn known(cluster: &Cluster, scope: &Scope) -> Result<()> {
    for name in &scope.skyhooks {
        selection::known_skyhook(cluster, name)?;
    }
    for node in &scope.nodes {
        selection::known_node(cluster, node)?;
    }
    Ok(())
}

/// Refuses a package that is neither in the spec, nor recorded on a node, nor at work.
///
/// # Errors
///
/// The name is not there, with the near names.
pub fn known_package(cluster: &Cluster, skyhook: &str, package: &str) -> Result<()> {
    let known = packages(cluster, skyhook);
    if known.contains(package) {
        return Ok(());
    }
    let error = Error::unknown("package", package, known.iter().map(String::as_str));
    if known.is_empty() {
        return Err(error.hint(format!("{skyhook} has no packages")));
    }
    if !error.hints.is_empty() {
        return Err(error);
    }
    let all = known.into_iter().collect::<Vec<_>>().join(", ");
    Err(error.hint(format!("{skyhook} has {all}")))
}

/// The names of all packages of a custom resource: of its spec, recorded, and at work.
pub fn packages(cluster: &Cluster, skyhook: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    if let Some(skyhook) = cluster.skyhook(skyhook) {
        names.extend(skyhook.packages().map(|(name, _)| name.to_owned()));
    }
    for (_, on) in cluster.tracked(skyhook) {
        names.extend(on.entries().iter().map(|e| e.identity().0.to_owned()));
    }
    for package_run in cluster.package_runs().all() {
        if package_run.skyhook == skyhook && !package_run.package.is_empty() {
            names.insert(package_run.package.clone());
        }
    }
    names
}

/// Says which of the sources could not be read, so that an answer without them is not taken for whole.
pub fn say_what_is_missing(ctx: &mut Ctx, cluster: &Cluster, needs: &[Source]) {
    for source in needs {
        if let Some(why) = cluster.missing(*source) {
            ctx.warn(format!(
                "cannot read {source}: {why}; the output may be incomplete"
            ));
        }
    }
}
