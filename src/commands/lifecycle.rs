//! `pause`, `resume`, `disable` and `enable`: set or remove an annotation, and the annotation with its
//! reason.

mod request;

use self::request::{Names, Request, Verb};
use crate::args::safety::{Confirmation, Safety};
use crate::cluster::{Cluster, Source};
use crate::commands::shared::command::{Write, command};
use crate::ctx::{CommandOptions, Ctx};
use crate::error::{Exit, Result};
use crate::plan::Plan;
use crate::plan::planners;

/// Pause custom resources
///
/// With an operator up to v0.17, running stages run to completion; from v0.18 on, running jobs are stopped
/// and restart after `resume`. On nodes where a paused custom resource is not complete, custom resources that
/// come later in order wait. A deletion with a pending uninstall waits, too.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook pause gpu-tune --reason \"kernel upgrade, ticket 4711\"
  kubectl skyhook pause gpu-tune --dry-run
  kubectl skyhook pause --all --reason \"power maintenance\"")]
pub struct Pause {
    #[command(flatten)]
    with: Stop,
}

/// Disable custom resources
///
/// No new work is started, and custom resources that come later in order do not wait for it. A running pod
/// continues to the end of its stage.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook disable gpu-tune --reason \"replaced by gpu-tune-2\"")]
pub struct Disable {
    #[command(flatten)]
    with: Stop,
}

/// Resume paused custom resources
///
/// Refuses while pods of the older operator still run for the custom resource: two operators would modify the
/// same host. --all ends only pauses that this plugin set, and lists the others. Name them, or add --force,
/// to end those too.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook resume gpu-tune
  kubectl skyhook resume --all --dry-run")]
pub struct Resume {
    #[command(flatten)]
    with: Go,
}

/// Enable disabled custom resources
///
/// Refuses while pods of the older operator still run for the custom resource: two operators would modify the
/// same host. --all enables only custom resources that this plugin disabled, and lists the others. Name them,
/// or add --force, to enable those too.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook enable gpu-tune")]
pub struct Enable {
    #[command(flatten)]
    with: Go,
}

#[derive(Debug, clap::Args)]
struct Stop {
    #[command(flatten)]
    of: Names,

    /// Reason, stored on the object for other users to see
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    #[command(flatten)]
    safety: Confirmation,
}

#[derive(Debug, clap::Args)]
struct Go {
    #[command(flatten)]
    of: Names,

    /// Proceed despite a migration, pods of the older operator, or another command that needs the pause
    ///
    /// Without this flag, the command refuses while a migration blocks the operator, while pods of the older
    /// operator may still run, or while another command of this plugin is running and keeps the custom
    /// resource paused. With --all, also includes custom resources that this plugin did not stop.
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    safety: Confirmation,
}

/// The sources of `pause`, after which nothing new starts: an emergency cannot wait for thousands of nodes to be read.
pub const STOP_NEEDS: [Source; 4] = [Source::Skyhooks, Source::Legacy, Source::Operator, Source::Pods];
command! {
    "pause": Pause => async |ctx, args: &Pause| stop(ctx, Verb::Pause, &args.with).await,
    needs: STOP_NEEDS,
    writes: &[Write::Skyhooks],
    plans: |cluster, args: &Pause| plan_stop(cluster, Verb::Pause, &args.with),
}

command! {
    "resume": Resume => async |ctx, args: &Resume| go(ctx, Verb::Resume, &args.with).await,
    // Nodes are needed to predict the work that starts again.
    needs: Source::OF_ROLLOUTS,
    lists: planners::LISTS,
    writes: &[Write::Skyhooks],
    plans: |cluster, args: &Resume| plan_go(cluster, Verb::Resume, &args.with),
}

command! {
    "disable": Disable => async |ctx, args: &Disable| stop(ctx, Verb::Disable, &args.with).await,
    // Nodes are needed to predict the custom resources that no longer wait.
    needs: Source::OF_ROLLOUTS,
    lists: planners::LISTS,
    writes: &[Write::Skyhooks],
    plans: |cluster, args: &Disable| plan_stop(cluster, Verb::Disable, &args.with),
}

command! {
    "enable": Enable => async |ctx, args: &Enable| go(ctx, Verb::Enable, &args.with).await,
    // Nodes are needed to predict the work that starts again.
    needs: Source::OF_ROLLOUTS,
    lists: planners::LISTS,
    writes: &[Write::Skyhooks],
    plans: |cluster, args: &Enable| plan_go(cluster, Verb::Enable, &args.with),
}

fn plan_stop(cluster: &Cluster, verb: Verb, args: &Stop) -> Result<Plan> {
    Request { verb, of: &args.of, reason: args.reason.as_deref(), force: false }.plan(cluster)
}

fn plan_go(cluster: &Cluster, verb: Verb, args: &Go) -> Result<Plan> {
    Request { verb, of: &args.of, reason: None, force: args.force }.plan(cluster)
}

async fn stop(ctx: &mut Ctx, verb: Verb, args: &Stop) -> Result<Exit> {
    // A pause holds up later custom resources as well; after a disable, they continue.
    let needs: &[Source] = if verb == Verb::Pause { &STOP_NEEDS } else { &Source::OF_ROLLOUTS };
    let cluster = ctx.load_to_change(needs, &[]).await?;
    let mut plan = plan_stop(&cluster, verb, args)?;
    ctx.forecast(&cluster, &mut plan).await;
    ctx.execute_with(&plan, &Safety::from(&args.safety), CommandOptions::default(), None).await
}

async fn go(ctx: &mut Ctx, verb: Verb, args: &Go) -> Result<Exit> {
    let cluster = ctx.load_to_change(&Source::OF_ROLLOUTS, &Source::REQUIRED_FOR_CHANGES).await?;
    let mut plan = plan_go(&cluster, verb, args)?;
    ctx.forecast(&cluster, &mut plan).await;
    if plan.is_empty() {
        // Name the skipped custom resources here: an empty plan has no preview.
        for left in &plan.consequences.notes {
            ctx.note(left.as_str());
        }
    }
    // Existing scripts run these commands without a confirmation and a terminal, and expect exit code 0.
    let manner = CommandOptions { aborts: true, ..CommandOptions::default() };
    ctx.execute_with(&plan, &Safety::from(&args.safety), manner, None).await
}
