//! `reset`: makes packages run again from the start.

use std::collections::BTreeSet;

use crate::api::{Entry, Skyhook};
use crate::args::nodes::Selection;
use crate::args::safety::{Force, Safety};
use crate::cluster::{Cluster, Node, NodeRecord, Source};
use crate::commands::shared::command::{WRITES_OF_RESET, command};
use crate::commands::shared::scope;
use crate::ctx::Ctx;
use crate::error::{Error, Exit, Result};
use crate::plan::planners::{merge, reset};
use crate::plan::{Plan, planners};
use crate::view::{NodeSet, list, plural};

/// Reset package state, so that packages rerun from the start
///
/// Removes what the operator wrote on the nodes: package states, status and version, in one patch per node. Without
/// selected nodes, the rollout also restarts from the first batch. Unreadable states and the leftovers of a deleted
/// custom resource are removed, too.
///
/// A node that the custom resource has cordoned stays cordoned until the rerun releases it; if the custom
/// resource is gone, the node is uncordoned, unless something else keeps it cordoned.
///
/// If the operator could write to the same nodes during the reset, the custom resource is paused first and resumed
/// afterwards.
///
/// With --unreadable, node states that cannot be read are restored instead, from the copy in the status of the custom
/// resource, which dates from the operator's last reconcile; everything else stays. If there is no copy, only a reset of the
/// node helps.
///
/// Without a NAME, every custom resource is reset on the selected nodes, in the order in which the operator works on them,
/// as one plan.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook reset gpu-tune --dry-run
  kubectl skyhook reset gpu-tune --node gpu-0001
  kubectl skyhook reset --node gpu-0001
  kubectl skyhook reset gpu-tune --failed-only --canary 2 --pause-between 5m
  kubectl skyhook reset gpu-tune --package driver:2.0.1 -l pool=gpu
  kubectl skyhook reset gpu-tune --unreadable --dry-run
  kubectl skyhook reset gpu-tune --dry-run -o json | jq '.grade, .consequences.rebootNodes, .steps[].target'")]
pub struct Args {
    /// The custom resource; if nodes are selected, it may be omitted: then all
    #[arg(value_name = "NAME", value_parser = crate::args::nodes::skyhook)]
    pub name: Option<String>,

    #[command(flatten)]
    pub selection: Selection,

    /// Only this package, in all versions or in one
    #[arg(long, value_name = "PACKAGE[:VERSION]", requires = "name")]
    pub package: Option<String>,

    /// Do not reset the rollout's batch state
    #[arg(long, conflicts_with = "batches")]
    pub skip_batch_reset: bool,

    /// Restart the rollout's batches even if only some nodes or packages are reset
    #[arg(long = "reset-batches", requires = "name")]
    pub batches: bool,

    /// Let the operator taint the nodes again until packages are complete
    ///
    /// For custom resources with autoTaintNewNodes: all annotations and labels of the operator are removed, so that the
    /// node counts as new.
    #[arg(long)]
    pub retaint: bool,

    /// Do not pause the custom resource, even if the operator could write to the same nodes
    #[arg(long)]
    pub no_pause: bool,

    /// Restore unreadable node states, using the operator's copy, and change nothing else
    #[arg(long, requires = "name", conflicts_with_all = ["package", "failed_only", "skip_batch_reset", "batches",
        "retaint", "no_pause"])]
    pub unreadable: bool,

    #[command(flatten)]
    pub force: Force,

    #[command(flatten)]
    pub safety: Safety,
}

command! {
    "reset": Args => run,
    needs: Source::OF_ROLLOUTS,
    lists: planners::LISTS,
    writes: WRITES_OF_RESET,
    plans: plan,
}

/// The sources of `--unreadable`.
const OF_RESTORES: [Source; 4] = [Source::Skyhooks, Source::Legacy, Source::Nodes, Source::Operator];

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    let package = args.package.as_deref().map(|package| split_package(package).0);
    let query = args.selection.query();
    if args.name.is_none() && query.is_empty() {
        return Err(Error::usage(
            "no custom resource specified; give its NAME, or nodes with --node, --match or -l",
        ));
    }
    let needs: &[Source] = if args.unreadable { &OF_RESTORES } else { &Source::OF_ROLLOUTS };
    let named = scope::named_nodes(query, args.name.as_deref(), package);
    let cluster = ctx.limit_to(named).load_or_leftovers(needs, &Source::REQUIRED_FOR_CHANGES).await?;
    let plan = plan(&cluster, args)?;
    if !query.is_empty() && scope::selected(&cluster, query)?.is_empty() {
        ctx.warn("no selected node matches -l, so no node is reset");
    }
    if let (true, Some(name)) = (plan.is_empty(), &args.name) {
        // An unknown name is no error, because scripts reset before they start; warn, because it may be a typo.
        if let Err(unknown) = scope::known_skyhook(&cluster, name) {
            if cluster.node(name).is_some() {
                return Err(unknown.hint(format!("to reset the node: kubectl skyhook reset --node {name}")));
            }
            ctx.warn(unknown.message);
            unknown.hints.into_iter().for_each(|hint| ctx.note(hint));
        } else if let Some(skyhook) = cluster.skyhook(name)
            && let nodes = scope::selected(&cluster, query)?
            && nodes.iter().all(|node| !skyhook.selects(node))
            && !nodes.is_empty()
        {
            let nodes = NodeSet::of(nodes.iter().map(|node| node.name.as_str()));
            ctx.warn(format!("{name} does not select {}, and has no state there", nodes.limited(3)));
        } else if let Some((package, version)) = args.package.as_deref().map(split_package) {
            scope::known_package(&cluster, name, package)?;
            let entries = cluster.tracked(name).flat_map(|(_, on)| on.entries());
            let versions: BTreeSet<&str> = entries
                .map(Entry::identity)
                .filter(|(own, _)| *own == package)
                .map(|(_, version)| version)
                .collect();
            if let Some(version) = version.filter(|version| !versions.contains(version)) {
                let recorded = match Vec::from_iter(versions) {
                    versions if versions.is_empty() => String::new(),
                    versions => format!("; recorded: {}", list(&versions)),
                };
                ctx.warn(format!("no node records {package} {version}{recorded}"));
            }
        }
    }
    ctx.execute(&cluster, plan, &args.safety).await
}

/// The plan of a reset.
///
/// # Errors
///
/// The refusals of [`reset::plan`]; and a node or package does not exist, or a source cannot be read.
fn plan(cluster: &Cluster, args: &Args) -> Result<Plan> {
    let part = args.package.is_some() || !args.selection.is_everything();
    let nodes = scope::selected(cluster, args.selection.query())?;
    let of = |name: &str| {
        let request = reset::ResetRequest {
            name,
            nodes: nodes.clone(),
            package: args.package.as_deref().map(split_package),
            failed_only: args.selection.failed_only,
            batches: !args.skip_batch_reset && (!part || args.batches),
            retaint: args.retaint,
            no_pause: args.no_pause,
            force: args.force.force,
        };
        reset::plan(cluster, &request)
    };
    if let Some(name) = &args.name {
        if !args.unreadable {
            return of(name);
        }
        return reset::restore(cluster, scope::existing(cluster, name)?, &nodes, args.force.force);
    }
    scope::readable(cluster, Source::Skyhooks)?;
    scope::readable(cluster, Source::Nodes)?;
    let mut plans = Vec::new();
    for name in in_order(cluster, &nodes) {
        plans.push(of(name)?);
    }
    plans.retain(|plan| !plan.is_empty());
    let title =
        format!("reset {} on {}", plural(plans.len(), "custom resource"), plural(nodes.len(), "node"));
    let subject = match nodes.as_slice() {
        [node] => &*node.name,
        _ => "reset",
    };
    Ok(match plans.as_slice() {
        [] => Plan::new(title, subject),
        [_] => plans.swap_remove(0),
        _ => merge::merged(cluster, title, subject, plans),
    })
}

/// The custom resources with keys on one of the nodes, in the operator's order; deleted ones come last.
fn in_order<'a>(cluster: &'a Cluster, nodes: &[&'a Node]) -> Vec<&'a str> {
    let mut names: Vec<&str> =
        cluster.skyhooks.iter().map(Skyhook::name).chain(cluster.names_on_nodes()).collect();
    names
        .retain(|name| nodes.iter().filter_map(|node| cluster.on_node(node, name)).any(NodeRecord::has_keys));
    names.sort_by_key(|name| {
        let skyhook = cluster.skyhook(name);
        (skyhook.is_none(), skyhook.map(Skyhook::order), *name)
    });
    names.dedup();
    names
}

/// Splits `name` or `name:version`.
fn split_package(text: &str) -> (&str, Option<&str>) {
    match text.split_once(':') {
        Some((name, version)) => (name, Some(version)),
        None => (text, None),
    }
}
