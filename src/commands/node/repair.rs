//! `node repair`: restores a node state that cannot be read from the operator's copy.

use crate::args::nodes::AnyNodes;
use crate::args::safety::{Force, Safety};
use crate::args::selection::OfSkyhook;
use crate::cluster::{Cluster, Node, Source};
use crate::commands::shared::command::{Write, command};
use crate::commands::shared::{nodes, selection};
use crate::ctx::Ctx;
use crate::error::{Error, Exit, Result};
use crate::plan::planners::migration;
use crate::plan::planners::node_state::{self, CannotRepair};
use crate::plan::{Change, Plan, Step, Target};
use crate::view::plural;

/// Restore node states that cannot be read
///
/// The operator copies the state of each node into the status of the custom resource. Where the annotation of a node
/// is not valid, it is replaced by that copy, which dates from the operator's last pass. Annotations that can
/// be read are not changed. If there is no copy, `reset` is the only option. Without nodes, all nodes of the custom
/// resource are repaired.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook node repair --skyhook gpu-tune --dry-run
  kubectl skyhook node repair gpu-0001 --skyhook gpu-tune")]
pub struct Args {
    #[command(flatten)]
    on: AnyNodes,

    #[command(flatten)]
    of: OfSkyhook,

    #[command(flatten)]
    force: Force,

    #[command(flatten)]
    safety: Safety,
}

pub const NEEDS: [Source; 4] = [Source::Skyhooks, Source::Legacy, Source::Nodes, Source::Operator];

command! {
    "node repair": Args => run,
    needs: NEEDS,
    writes: &[Write::Nodes],
    plans: plan,
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    let cluster = ctx
        .limit_to(nodes::named_nodes(args.on.query(), None, None))
        .load_to_change(&NEEDS, &Source::REQUIRED_FOR_CHANGES)
        .await?;
    let plan = plan(&cluster, args)?;
    ctx.execute(&cluster, plan, &args.safety).await
}

fn plan(cluster: &Cluster, args: &Args) -> Result<Plan> {
    let nodes = nodes::selected(cluster, args.on.query())?;
    let skyhook = selection::existing(cluster, &args.of.skyhook)?;
    let mut plan = Plan::new("", skyhook.name());
    let mut steps = Vec::new();
    for node in nodes {
        let Some(on) = cluster.on_node(node, skyhook.name()) else {
            continue;
        };
        match node_state::repaired(skyhook, node, on) {
            Err(CannotRepair::NothingMalformed) => {}
            Err(CannotRepair::NoCopy) => return Err(no_copy(skyhook.name(), node)),
            Ok(repaired) => {
                let target = Target::of_node(node);
                let why = "restores the state that the operator last read";
                steps.push(Step::new(target, Change::Metadata(repaired.change), why));
            }
        }
    }
    plan.title = format!("repair the node state of {} on {}", skyhook.name(), plural(steps.len(), "node"));
    if !steps.is_empty() {
        plan.consequences.warn("the operator resumes work on every custom resource");
        plan.stage(steps);
    }
    migration::refuse_held(cluster, &mut plan, args.force.force)?;
    Ok(plan)
}

fn no_copy(skyhook: &str, node: &Node) -> Error {
    Error::unchanged(format!("the status of {skyhook} has no copy of the state of {}", node.name))
        .hint(format!("kubectl skyhook reset {skyhook} --node {}", node.name))
}
