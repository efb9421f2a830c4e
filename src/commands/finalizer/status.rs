use super::deletion::Deletion;
use super::page::FinalizerStatus;
use crate::cluster::{Cluster, Source};
use crate::commands::lifecycle;
use crate::commands::node::selection;
use crate::commands::package::scope;
use crate::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::rules::Scope;

/// Say whether a deletion gets on, and what it waits for
///
/// Shows whether it progresses, is slow or is blocked, the packages that have to be uninstalled first and where,
/// what the rules find, and every way to its end, mildest first, with the one to take now. It goes by what is at
/// work and by what is found, never by age alone.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook finalizer status gpu-tune
  kubectl skyhook finalizer status gpu-tune -o json")]
pub struct Args {
    /// The custom resource
    #[arg(value_name = "NAME")]
    name: String,
}

pub async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    let needs = needs();
    let cluster = ctx.load(&needs).await?;
    let view = view(&cluster, args)?;
    scope::say_what_is_missing(ctx, &cluster, &needs);
    ctx.show(&view)?;
    Ok(Exit::Done)
}

/// All that the rules look at, to say why it does not get on.
pub fn needs() -> Vec<Source> {
    let mut needs = Scope::default().needs();
    needs.extend([Source::Legacy, Source::Operator]);
    needs.sort_unstable();
    needs.dedup();
    needs
}

fn view<'a>(cluster: &'a Cluster, args: &Args) -> Result<FinalizerStatus<'a>> {
    let skyhook = lifecycle::existing(cluster, &args.name)?;
    selection::readable(cluster, Source::Nodes)?;
    Ok(FinalizerStatus {
        cluster,
        deletion: Deletion::of(cluster, skyhook, Vec::new()),
    })
}
