//! Resolution of arguments that name objects of a cluster.

use std::collections::BTreeSet;

use crate::args::nodes::NodeFlags;
use crate::cluster::operator::NEWEST_OPERATOR;
use crate::cluster::{Cluster, PackageRuns, Source};
use crate::commands::shared::{nodes, selection};
use crate::ctx::Ctx;
use crate::error::{Error, Result};
use crate::rules::{Rule, Scope};

/// The scope of a diagnosis: custom resources, nodes and rules.
///
/// # Errors
///
/// A name does not exist, or a pattern matches nothing: the result would look like "nothing stuck".
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

/// Refuses a package that is neither in the spec nor recorded on a node, and has no pod or Job.
///
/// # Errors
///
/// The package is unknown; the error lists similar names.
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
/// The package is unknown; the error lists similar names.
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

/// The names of all packages of a custom resource: in its spec, recorded on nodes, or with a pod or Job.
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

/// Warns about unreadable sources, so that the output does not look complete.
pub fn warn_unreadable(ctx: &mut Ctx, cluster: &Cluster, needs: &[Source]) {
    for source in needs {
        if let Some(why) = cluster.missing(*source) {
            ctx.warn(format!("cannot read {source}: {why}; the output may be incomplete"));
        }
    }
    if let Some(version) = cluster.unknown_operator_version() {
        let (major, minor) = NEWEST_OPERATOR;
        ctx.warn(format!(
            "operator {version} is newer than v{major}.{minor}, the newest that this plugin knows, so the output may be wrong; upgrade the plugin"
        ));
    }
}
