//! `cordon release`: removes cordons whose custom resource was deleted or no longer selects the node.

use std::collections::BTreeMap;

use crate::api::{ApiFlavor, keys};
use crate::args::nodes::AnyNodes;
use crate::args::safety::Safety;
use crate::cluster::{Cluster, Node, Source};
use crate::commands::shared::command::{Write, command, group};
use crate::commands::shared::{nodes, selection};
use crate::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::plan::planners::node;
use crate::plan::{Change, Edit, Metadata, Plan, Step, Target};
use crate::view::{NodeSet, plural};

group! {
    /// Release orphaned cordons
    Command {
        Release(Args),
    }
}

/// Release orphaned cordons
///
/// Removes the cordon annotation of each custom resource that is gone or no longer selects the node, and
/// makes the node schedulable if nothing else keeps it cordoned. Other cordons stay, and their owner is
/// shown: a custom resource that is working on the node, the runtime-required cordon, or someone outside the
/// operator.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  # All nodes
  kubectl skyhook cordon release --dry-run

  kubectl skyhook cordon release gpu-0001")]
pub struct Args {
    #[command(flatten)]
    on: AnyNodes,

    /// Also release runtime-required cordons, which someone outside the operator should release; needs node
    /// names
    #[arg(long, requires = "nodes")]
    runtime_required: bool,

    #[command(flatten)]
    safety: Safety,
}

/// Annotation of a cordon that stays after the runtime is installed: the operator does not remove it.
const RUNTIME_REQUIRED: &str = "runtimeRequiredCordon";
/// Maximum number of node-name ranges in a warning.
const SHOWN: usize = 6;

command! {
    "cordon release": Args => run,
    needs: Source::OF_ROLLOUTS,
    writes: &[Write::Nodes],
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    let cluster = ctx
        .limit_to(nodes::named_nodes(args.on.query(), None, None))
        .load_to_change(&Source::OF_ROLLOUTS, &Source::REQUIRED_FOR_CHANGES)
        .await?;
    let plan = plan(&cluster, args)?;
    if plan.is_empty() {
        // Name the holders here: an empty plan has no preview.
        for held in &plan.consequences.warnings {
            ctx.note(held.as_str());
        }
    }
    ctx.execute(&cluster, plan, &args.safety).await
}

fn plan(cluster: &Cluster, args: &Args) -> Result<Plan> {
    selection::not_left_out(cluster, ", so orphaned cordons cannot be determined")?;
    let mut steps = Vec::new();
    let mut released: Vec<&Node> = Vec::new();
    let mut held: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for one in nodes::selected(cluster, args.on.query())? {
        let mut holders = holders(cluster, one);
        let mut change = without_orphans(cluster, one);
        let key = cluster.flavor().key(RUNTIME_REQUIRED);
        if args.runtime_required && one.cordoned() == Some(true) && holders.contains(&key) {
            holders.retain(|holder| *holder != key);
            change = change.annotation(key, Edit::new(Some("true"), None));
        }
        // A cordon without an annotation of the operator belongs to someone else.
        if one.cordoned() == Some(true) && holders.is_empty() && !change.is_empty() {
            change = change.uncordoned(one);
        }
        if change.uncordons() {
            released.push(one);
        } else if one.cordoned() == Some(true) && change.uncordon.left_for.is_empty() {
            held.entry(holders.join(", ")).or_default().push(&one.name);
        }
        if !change.is_empty() {
            let why = "its custom resource is gone or no longer selects the node";
            let target = Target::of_node(one);
            steps.push(Step::new(target, Change::Metadata(change), why));
        }
    }
    let title = format!("release orphaned cordons on {}", plural(steps.len(), "node"));
    let mut plan = Plan::new(title, "release");
    if !steps.is_empty() {
        plan.stage(steps);
    }
    for (by, nodes) in held {
        let names = NodeSet::of(&nodes).limited(SHOWN);
        let verb = if nodes.len() == 1 { "stays" } else { "stay" };
        let held = if by.is_empty() {
            let node = match nodes.as_slice() {
                [node] => *node,
                _ => "NODE",
            };
            format!(
                "{names} {verb} cordoned: the operator did not cordon {}; to release {}, run `kubectl uncordon {node}`",
                if nodes.len() == 1 { "it" } else { "them" },
                if nodes.len() == 1 { "it" } else { "a node" },
            )
        } else {
            format!("{names} {verb} cordoned by {by}")
        };
        plan.consequences.warn(held);
    }
    warn(cluster, &released, &mut plan);
    Ok(plan)
}

/// Removes the cordon annotations of custom resources that were deleted or do not select the node.
fn without_orphans(cluster: &Cluster, one: &Node) -> Metadata {
    let flavor = cluster.flavor();
    let mut change = Metadata::default();
    for (name, on) in &one.keys(flavor).skyhooks {
        let value = on.cordon_value.as_deref();
        if value.is_some() && node::releases_cordon(cluster, one, name) {
            change = change.annotation(keys::cordon(flavor, name), Edit::new(value, None));
        }
    }
    change
}

/// The holders of a node's cordon, from its annotations.
fn holders(cluster: &Cluster, one: &Node) -> Vec<String> {
    let active_api = cluster.flavor();
    let mut holders = Vec::new();
    for flavor in ApiFlavor::ALL {
        let held = one.keys(flavor);
        for (name, _) in held.skyhooks.iter().filter(|(_, on)| on.cordon) {
            let owner =
                if flavor == active_api { cluster.skyhook(name) } else { cluster.legacy_skyhook(name) };
            let selects = owner.filter(|s| s.selects(one));
            holders.extend(selects.map(|s| s.reference()));
        }
        if held.runtime_required_cordon {
            holders.push(flavor.key(RUNTIME_REQUIRED));
        }
    }
    holders
}

fn warn(cluster: &Cluster, released: &[&Node], plan: &mut Plan) {
    if released.is_empty() {
        return;
    }
    plan.consequences.warn(
        "pods may be scheduled on the nodes again; first check that no unfinished interrupt has left the nodes unusable",
    );
    let package_runs = cluster.package_runs();
    let busy = released.iter().filter(|n| {
        let mut all = package_runs.all().iter();
        all.any(|run| run.node == n.name && run.interrupt && run.alive())
    });
    let busy: Vec<&str> = busy.map(|n| n.name.as_str()).collect();
    if !busy.is_empty() {
        plan.consequences
            .warn(format!("an interrupt is still running on {}", NodeSet::of(busy).limited(SHOWN)));
    }
}
