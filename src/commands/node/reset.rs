//! `node reset`: the same as `reset`, with the nodes as positional arguments.

use crate::args::nodes::{OfSkyhook, SomeNodes};
use crate::args::safety::{Force, Safety};
use crate::cluster::{Cluster, Source};
use crate::commands::shared::command::{WRITES_OF_RESET, change, command};
use crate::commands::shared::scope;
use crate::error::Result;
use crate::plan::planners::reset;
use crate::plan::{Plan, planners};

/// Reset package state on nodes, so that packages rerun
///
/// The same as `reset NAME --node …`: see `reset`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook node reset gpu-0001 --skyhook gpu-tune
  kubectl skyhook node reset 'gpu-00*' --skyhook gpu-tune --dry-run")]
pub struct Args {
    #[command(flatten)]
    on: SomeNodes,

    #[command(flatten)]
    of: OfSkyhook,

    /// Do not pause the custom resource, even if the operator could write to the same nodes
    #[arg(long)]
    no_pause: bool,

    #[command(flatten)]
    force: Force,

    #[command(flatten)]
    safety: Safety,
}

command! {
    "node reset": Args => async |ctx, args: &Args| {
        let named = scope::named_nodes(args.on.query(), Some(&args.of.skyhook), None);
        change(ctx, args, named, &Source::REQUIRED_FOR_CHANGES, &args.safety).await
    },
    needs: Source::OF_ROLLOUTS,
    lists: planners::LISTS,
    writes: WRITES_OF_RESET,
    plans: plan,
}

fn plan(cluster: &Cluster, args: &Args) -> Result<Plan> {
    scope::known_skyhook(cluster, &args.of.skyhook)?;
    let request = reset::ResetRequest {
        name: &args.of.skyhook,
        nodes: scope::selected(cluster, args.on.query())?,
        package: None,
        failed_only: false,
        batches: false,
        retaint: false,
        no_pause: args.no_pause,
        force: args.force.force,
    };
    reset::plan(cluster, &request)
}
