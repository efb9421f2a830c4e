use super::deletion::Deletion;
use super::report::FinalizerStatus;
use crate::args::named;
use crate::cluster::{Cluster, Source};
use crate::commands::shared::command::command;
use crate::commands::shared::{scope, selection};
use crate::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::rules::Scope;

/// Show whether a deletion is progressing, and what it waits for
///
/// Shows whether the deletion is progressing, slow or blocked, which packages have to be uninstalled first and where,
/// what the rules find, and every remedy, least disruptive first, with the one to use now. The result is based on
/// running work and on findings, never on age alone.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook finalizer status gpu-tune
  kubectl skyhook finalizer status gpu-tune -o json")]
pub struct Args {
    /// The custom resource
    #[arg(value_name = "NAME", value_parser = named::skyhook)]
    name: String,
}

command! {
    "finalizer status": Args => run,
    needs: Scope::default().needs(),
    prints: { "FinalizerStatus": super::document::Document },
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    let needs = Scope::default().needs();
    let cluster = ctx.load(&needs).await?;
    let view = view(&cluster, args)?;
    scope::say_what_is_missing(ctx, &cluster, &needs);
    ctx.show(&view)?;
    Ok(Exit::Done)
}

fn view<'a>(cluster: &'a Cluster, args: &Args) -> Result<FinalizerStatus<'a>> {
    let skyhook = selection::existing(cluster, &args.name)?;
    selection::complete(cluster, Source::Nodes)?;
    Ok(FinalizerStatus {
        cluster,
        deletion: Deletion::of(cluster, skyhook),
    })
}
