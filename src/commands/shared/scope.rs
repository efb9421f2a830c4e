//! Resolution of arguments that name objects of a cluster.

use std::collections::BTreeSet;

use crate::api::{Package, Skyhook};
use crate::args::nodes::{NodeArg, NodeFlags, NodeQuery, OnNodes, whole};
use crate::cluster::operator::NEWEST_OPERATOR;
use crate::cluster::{Certainty, Cluster, NamedNodes, Node, PackageRuns, Read, Source};
use crate::ctx::Ctx;
use crate::error::{Error, Exit, Result};
use crate::plan::planners;
use crate::rules::{self, Rule, Scope};
use crate::view::{NodeSet, plural, shell_words};

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
        known_skyhook(cluster, name)?;
    }
    let query = flags.query();
    let nodes = if query.is_empty() { Vec::new() } else { selected(cluster, query)? };
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
    Err(Error::unknown_among("package", package, known.iter().map(String::as_str)))
}

/// Refuses a package that no custom resource has.
///
/// # Errors
///
/// The package is unknown; the error lists similar names.
pub fn known_anywhere(cluster: &Cluster, package: &str) -> Result<()> {
    let runs = cluster.package_runs();
    let skyhooks = cluster.skyhooks.iter().map(|s| s.name()).chain(cluster.names_on_nodes());
    let known: BTreeSet<String> = skyhooks.flat_map(|skyhook| packages(cluster, &runs, skyhook)).collect();
    if known.contains(package) {
        return Ok(());
    }
    let error = Error::unknown_among("package", package, known.iter().map(String::as_str));
    if let Some(skyhook) = cluster.skyhook(package) {
        let kind = cluster.flavor().kind();
        return Err(error.hint(format!(
            "{package} is a {kind}: kubectl skyhook package status --skyhook {}",
            skyhook.name()
        )));
    }
    Err(error)
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
    if let Some(version) = cluster.operator().unknown_version() {
        let (major, minor) = NEWEST_OPERATOR;
        ctx.warn(format!(
            "operator {version} is newer than v{major}.{minor}, the newest that this plugin knows, so the output may be wrong; upgrade the plugin"
        ));
    }
}

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
            plural(several.len(), "node"),
            NodeSet::of(several.iter().map(|node| node.name.as_str())).limited(6)
        ))),
    }
}

/// The nodes of one argument, at least one.
pub fn named_by<'a>(cluster: &'a Cluster, arg: &NodeArg) -> Result<Vec<&'a Node>> {
    if let Some(names) = arg.names() {
        return names.iter().map(|name| known(cluster, name)).collect();
    }
    let matched: Vec<&Node> = cluster.nodes.iter().filter(|node| arg.matches(&node.name)).collect();
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
    let nodes = cluster.nodes.iter();
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
    let names: Option<Vec<&[String]>> = query.named.iter().map(NodeArg::names).collect();
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
    let names = cluster.nodes.iter().map(|n| n.name.as_str());
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

    /// The selected nodes, with or without a record of the custom resource; `failed_only`: whether the command limits them
    /// to those where the package fails, if it has that flag.
    ///
    /// # Errors
    ///
    /// No nodes are specified, a node does not exist, or the nodes could not be read.
    pub fn nodes<'a>(&self, cluster: &'a Cluster, failed_only: Option<bool>) -> Result<Vec<&'a Node>> {
        complete(cluster, Source::Nodes)?;
        let query = self.on.query();
        if query.is_empty() && !self.all_nodes && failed_only != Some(true) {
            let failing = if failed_only.is_some() { "--failed-only " } else { "" };
            return Err(Error::usage(format!(
                "no nodes specified; use --node, --match, -l, {failing}or --all-nodes"
            )));
        }
        selected(cluster, query)
    }
}

/// Refuses a name that no custom resource of either API has, and of which no node has annotations or labels.
/// Accepts every name but that of a node if the input may lack custom resources.
///
/// # Errors
///
/// The name is unknown, and the error lists similar names; or the custom resources could not be read.
pub fn known_skyhook(cluster: &Cluster, name: &str) -> Result<()> {
    let on_nodes = cluster.names_on_nodes();
    let legacy = cluster.legacy.iter().map(|s| s.name());
    let mut known: Vec<&str> = cluster.skyhooks.iter().map(|s| s.name()).collect();
    known.extend(on_nodes);
    known.extend(legacy);
    let may_exist = cluster.skyhooks.absence() == Certainty::Presumed && cluster.node(name).is_none();
    if known.contains(&name) || may_exist {
        return Ok(());
    }
    complete(cluster, Source::Skyhooks)?;
    Err(not_found(cluster, name, known))
}

/// The error for a name that no custom resource has. Hints have the command for a node, a package or a rule of that name.
fn not_found<'a>(cluster: &Cluster, name: &str, known: impl IntoIterator<Item = &'a str>) -> Error {
    let error = Error::unknown_among(cluster.flavor().kind(), name, known);
    let owner = cluster.skyhooks.iter().find(|skyhook| skyhook.package(name).is_some());
    if cluster.node(name).is_some() {
        error.hint(format!("{name} is a node: kubectl skyhook diagnose node {name}"))
    } else if let Some(owner) = owner {
        let owner = owner.name();
        error.hint(format!(
            "{name} is a package of {owner}: kubectl skyhook package status {name} --skyhook {owner}"
        ))
    } else if rules::find(name).is_some() {
        error.hint(format!(
            "{name} is a rule: kubectl skyhook explain {name}, kubectl skyhook diagnose stuck --rule {name}"
        ))
    } else {
        error
    }
}

/// Refuses a name that only an object of the older API has.
///
/// # Errors
///
/// There is such an object; the hint has the flag that selects its API.
pub fn not_only_in_other_api(cluster: &Cluster, name: &str) -> Result<()> {
    if cluster.skyhook(name).is_some() || cluster.legacy_skyhook(name).is_none() {
        return Ok(());
    }
    let flavor = cluster.flavor();
    let (kind, other) = (flavor.kind(), flavor.other());
    Err(Error::failed(format!("{name} exists only as a {} object, not as {kind}", other.kind()))
        .hint(format!("to use the older API, add --api {}", other.name())))
}

/// The custom resource that the operator acts on.
///
/// # Errors
///
/// The custom resource does not exist, and the error lists similar names; it was not migrated yet; or custom
/// resources could not be read.
pub fn existing<'a>(cluster: &'a Cluster, name: &str) -> Result<&'a Skyhook> {
    if let Some(skyhook) = cluster.skyhook(name) {
        return Ok(skyhook);
    }
    planners::refuse_unmigrated(cluster, name)?;
    complete(cluster, Source::Skyhooks)?;
    let known = cluster.skyhooks.iter().map(Skyhook::name);
    Err(not_found(cluster, name, known))
}

/// The only custom resource of the cluster that fits.
///
/// # Errors
///
/// None or several fit; the hints are complete values of the flag.
pub fn only_skyhook(cluster: &Cluster, fits: impl Fn(&str) -> bool) -> Result<String> {
    complete(cluster, Source::Skyhooks)?;
    let known = cluster.skyhooks.iter().map(Skyhook::name).chain(cluster.names_on_nodes());
    let known: BTreeSet<&str> = known.filter(|name| fits(name)).collect();
    let names: Vec<&str> = known.into_iter().collect();
    match names.as_slice() {
        [name] => Ok((*name).to_owned()),
        [] => Err(Error::failed(format!("no {} found", cluster.flavor().kind()))),
        several => {
            let number = plural(several.len(), "custom resource");
            Err(Error::usage(format!("there are {number}; select one with --skyhook"))
                .hint(several.join(", ")))
        }
    }
}

/// The custom resource of a package: the named one, or else the only one with this package.
///
/// # Errors
///
/// The custom resource does not exist, or none is named and several fit.
pub fn owner<'a>(cluster: &'a Cluster, named: Option<&str>, package: &str) -> Result<&'a Skyhook> {
    let has = |name: &str| cluster.skyhook(name).is_some_and(|skyhook| skyhook.package(package).is_some());
    let none = !cluster.skyhooks.iter().any(|skyhook| has(skyhook.name()));
    match named {
        Some(name) => existing(cluster, name),
        None => existing(cluster, &only_skyhook(cluster, |name| none || has(name))?),
    }
}

/// A package in the spec.
///
/// # Errors
///
/// The spec has no such package; the error lists similar names.
pub fn package<'a>(skyhook: &'a Skyhook, name: &str) -> Result<&'a Package> {
    let known = skyhook.packages().map(|(name, _)| name);
    skyhook.package(name).ok_or_else(|| Error::unknown_among("package", name, known))
}

/// Refuses an input that may leave out custom resources; `so` is the consequence, at the end of the message.
///
/// # Errors
///
/// The input does not prove that missing custom resources do not exist.
pub fn not_left_out(cluster: &Cluster, so: &str) -> Result<()> {
    let kind = cluster.flavor().kind();
    match cluster.skyhooks_absence() {
        // Only leftovers raise doubt: their custom resources may exist although the input lacks them.
        Certainty::Presumed if cluster.skyhooks_partial => {
            if cluster.leftovers().all().is_empty() {
                return Ok(());
            }
            Err(Error::failed(format!("the capture has some {kind} objects, but no complete {kind}List{so}")))
        }
        Certainty::Presumed => Err(Error::failed(format!("the capture has no {kind} objects{so}"))),
        _ => Ok(()),
    }
}

/// Fails if a source was requested and nothing of it could be read.
///
/// # Errors
///
/// The source could not be read; the error has the reason.
pub fn readable(cluster: &Cluster, source: Source) -> Result<()> {
    match cluster.source(source) {
        Read::Incomplete(..) => Ok(()),
        _ => complete(cluster, source),
    }
}

/// Fails if a source could not be read completely: a missing item may exist.
///
/// # Errors
///
/// The source could not be read completely; the error has the reason.
pub fn complete(cluster: &Cluster, source: Source) -> Result<()> {
    match cluster.source(source).unread() {
        Some(why) => Err(Error::failed(format!("cannot read {source}: {why}"))),
        None => Ok(()),
    }
}

/// The exit code of output that is worthless without these sources.
pub fn exit_without(cluster: &Cluster, sources: &[Source]) -> Exit {
    if sources.iter().any(|source| cluster.missing(*source).is_some()) { Exit::Failed } else { Exit::Done }
}
