//! The objects of a cluster that the arguments of a command name.

use std::collections::BTreeSet;

use crate::args::nodes::NodeFlags;
use crate::cluster::{Cluster, PackageRuns, Source};
use crate::commands::shared::{nodes, selection};
use crate::ctx::Ctx;
use crate::error::{Error, Result};
use crate::rules::{Rule, Scope};

/// The custom resources, nodes and rules of a diagnosis.
///
/// # Errors
///
/// A name that does not exist, or a pattern without match: the answer would look like "nothing stuck".
pub fn of(
    cluster: &Cluster,
    skyhooks: &[String],
    flags: &NodeFlags,
    rules: Vec<&'static Rule>,
) -> Result<Scope> {
    for name in skyhooks {
        selection::known_skyhook(cluster, name)?;
    }
    let query = flags.query();
    let nodes = if query.is_empty() { Vec::new() } else { nodes::selected(cluster, query)? };
    Ok(Scope {
        skyhooks: skyhooks.to_vec(),
        nodes: nodes.iter().map(|node| node.name.to_string()).collect(),
        rules,
    })
}

/// Refuses a package that is neither in the spec, nor recorded on a node, nor at work.
///
/// # Errors
///
/// The name is not there, with the near names.
pub fn known_package(cluster: &Cluster, skyhook: &str, package: &str) -> Result<()> {
    let known = packages(cluster, &cluster.package_runs(), skyhook);
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

/// Refuses a package that no custom resource has.
///
/// # Errors
///
/// The name is not there, with the near names.
pub fn known_anywhere(cluster: &Cluster, package: &str) -> Result<()> {
    let runs = cluster.package_runs();
    let there = cluster.skyhooks.items().iter().map(|s| s.name());
    let skyhooks = there.chain(cluster.names_on_nodes());
    let known: BTreeSet<String> = skyhooks.flat_map(|skyhook| packages(cluster, &runs, skyhook)).collect();
    if known.contains(package) {
        return Ok(());
    }
    let known = known.iter().map(String::as_str);
    Err(Error::unknown("package", package, known))
}

/// The names of all packages of a custom resource: of its spec, recorded, and at work.
pub fn packages(cluster: &Cluster, package_runs: &PackageRuns<'_>, skyhook: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    if let Some(skyhook) = cluster.skyhook(skyhook) {
        names.extend(skyhook.packages().map(|(name, _)| name.to_owned()));
    }
    for (_, on) in cluster.tracked(skyhook) {
        names.extend(on.entries().iter().map(|e| e.identity().0.to_owned()));
    }
    let at_work = package_runs.of(skyhook).map(|run| &run.package);
    names.extend(at_work.filter(|package| !package.is_empty()).cloned());
    names
}

/// Names the unreadable sources, so that the answer does not pass for complete.
pub fn say_what_is_missing(ctx: &mut Ctx, cluster: &Cluster, needs: &[Source]) {
    for source in needs {
        if let Some(why) = cluster.missing(*source) {
            ctx.warn(format!("cannot read {source}: {why}; the output may be incomplete"));
        }
    }
}
