//! `reset`: packages run again from the start.

mod make;

use crate::args::safety::Safety;
use crate::args::selection::Selection;
use crate::cluster::Source;
use crate::commands::migration::Force;
use crate::commands::node::selection;
use crate::commands::package::scope;
use crate::ctx::{Ctx, Manner};
use crate::error::{Exit, Result};
pub use make::{Wish, plan, plan_of};

/// Make packages run again from the start
///
/// Removes what the operator wrote on the nodes: package states, status and version, in one patch a node. Without
/// a choice of nodes the rollout's batches start anew, too. States that cannot be read are removed as well, and so
/// is what a custom resource left that no longer exists.
///
/// A node that the custom resource has cordoned stays cordoned until the re-run releases it; where the custom
/// resource is gone, the node is uncordoned, unless something else holds it.
///
/// Where the operator could write to the same nodes meanwhile, it is paused first, and resumed after.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook reset gpu-tune --dry-run
  kubectl skyhook reset gpu-tune --node gpu-0001
  kubectl skyhook reset gpu-tune --failed-only --canary 2 --pause-between 5m
  kubectl skyhook reset gpu-tune --package driver:2.0.1 -l pool=gpu")]
pub struct Args {
    /// The custom resource
    #[arg(value_name = "NAME")]
    pub name: String,

    #[command(flatten)]
    pub selection: Selection,

    /// Only this package; all its versions, or one
    #[arg(long, value_name = "PACKAGE[:VERSION]", overrides_with = "package")]
    pub package: Option<String>,

    /// Leave the state of the rollout's batches alone
    #[arg(long, conflicts_with = "batches")]
    pub skip_batch_reset: bool,

    /// Start the rollout's batches anew even though only some nodes or packages are reset
    #[arg(long = "reset-batches")]
    pub batches: bool,

    /// Let the operator taint the nodes again until packages are complete
    ///
    /// For custom resources with autoTaintNewNodes: the node counts as new once nothing of the operator is left on it.
    #[arg(long)]
    pub retaint: bool,

    /// Do not pause the operator, even where it could write to the same nodes
    #[arg(long)]
    pub no_pause: bool,

    #[command(flatten)]
    pub force: Force,

    #[command(flatten)]
    pub safety: Safety,
}

/// What is read: pods and jobs say whether the operator is at work on a node.
pub const NEEDS: [Source; 6] = [
    Source::Skyhooks,
    Source::Legacy,
    Source::Nodes,
    Source::Operator,
    Source::Pods,
    Source::Jobs,
];

pub async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    let cluster = ctx.load_or_leftovers(&NEEDS).await?;
    let plan = plan(&cluster, args)?;
    // Scripts reset before they begin, so a name that is not there is no error, but it may be a typo.
    if plan.is_empty()
        && let Err(unknown) = selection::known_skyhook(&cluster, &args.name)
    {
        ctx.warn(unknown.message);
        unknown.hints.into_iter().for_each(|hint| ctx.note(hint));
    } else if let Some(package) = &args.package
        && plan.is_empty()
    {
        let name = package.split(':').next().unwrap_or_default();
        scope::known_package(&cluster, &args.name, name)?;
    }
    ctx.carry_out(&plan, &args.safety, Manner::default()).await
}
