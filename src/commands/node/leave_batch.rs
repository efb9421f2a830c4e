//! `node leave-batch`: removes nodes from the current batch of a rollout.

use std::collections::BTreeMap;

use crate::api::Status;
use crate::args::nodes::SomeNodes;
use crate::args::safety::{Force, Safety};
use crate::args::selection::OfSkyhook;
use crate::cluster::{Cluster, Node, Source};
use crate::commands::shared::command::{Write, command};
use crate::commands::shared::{nodes, selection};
use crate::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::plan::planners::{self, batches, migration};
use crate::plan::{Change, Plan, Step, Target};
use crate::view::{NodeSet, plural};

/// Remove nodes from the current batch
///
/// The operator finishes the nodes of a batch before it forms the next one. Without the node, the next batch can form
/// at once. Installed packages stay on the node, and the node may be chosen again later.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook node leave-batch gpu-0001 --skyhook gpu-tune")]
pub struct Args {
    #[command(flatten)]
    on: SomeNodes,

    #[command(flatten)]
    of: OfSkyhook,

    #[command(flatten)]
    force: Force,

    #[command(flatten)]
    safety: Safety,
}

/// Maximum number of node-name ranges in a warning.
const SHOWN: usize = 6;

command! {
    "node leave-batch": Args => run,
    // The next batch may contain any node.
    needs: Source::OF_ROLLOUTS,
    lists: planners::LISTS,
    writes: &[Write::SkyhookStatus],
    plans: plan,
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    let cluster = ctx.load_to_change(&Source::OF_ROLLOUTS, &Source::REQUIRED_FOR_CHANGES).await?;
    let plan = plan(&cluster, args)?;
    ctx.execute(&cluster, plan, &args.safety).await
}

fn plan(cluster: &Cluster, args: &Args) -> Result<Plan> {
    let nodes = nodes::selected(cluster, args.on.query())?;
    let skyhook = selection::existing(cluster, &args.of.skyhook)?;
    let names = nodes.iter().map(|n| n.name.as_str());
    let fields = batches::leave(skyhook, names);
    let title =
        format!("remove {} from the current batch of {}", plural(fields.len(), "node"), skyhook.name());
    let mut plan = Plan::new(title, skyhook.name());
    if fields.is_empty() {
        return Ok(plan);
    }
    let leaving = |node: &&&Node| skyhook.status.node_priority.contains_key(node.name.as_str());
    let (kept, free): (Vec<&Node>, Vec<&Node>) =
        nodes.iter().filter(leaving).partition(|node| batches::keeps_place(cluster, skyhook, node));
    let mut by_status: BTreeMap<Status, Vec<&str>> = BTreeMap::new();
    for node in kept {
        by_status.entry(cluster.status_on(skyhook, node)).or_default().push(&node.name);
    }
    for (status, names) in by_status {
        let again = if names.len() == 1 { "it" } else { "them" };
        plan.consequences.warn(format!(
            "{}: status {status}; the operator chooses such nodes first, so the next batch includes {again} again",
            NodeSet::of(names).limited(SHOWN)
        ));
    }
    if skyhook.is_active() && !free.is_empty() {
        plan.consequences.warn("the next batch may start immediately; the nodes may be chosen again later");
    }
    let why = "the next batch is formed without these nodes";
    let target = Target::of_skyhook(cluster.flavor(), skyhook);
    plan.stage(vec![Step::new(target, Change::Status(fields), why)]);
    migration::refuse_held(cluster, &mut plan, args.force.force)?;
    Ok(plan)
}
