mod findings;
mod item;
pub mod report;

use self::report::StatusReport;
use crate::args::listing::Sorting;
use crate::args::named;
use crate::cluster::{Cluster, Source};
use crate::commands::shared::command::command;
use crate::commands::shared::{scope, selection};
use crate::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::rules::{self, Scope};

/// Show the progress of each custom resource, on one page
///
/// Shows for each: the status set by the operator, its nodes by status, its packages by stage, the batches of its
/// rollout, and whether `diagnose stuck` has findings about it. The operator's version and the API that it acts on are
/// shown at the top. With -o wide, the nodes that are not complete are listed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook status
  kubectl skyhook status gpu-tune -o wide
  kubectl skyhook status -o jsonpath='{.items[?(@.status!=\"complete\")].name}'")]
pub struct Args {
    /// Show only these custom resources
    #[arg(value_name = "NAME", value_parser = named::skyhook)]
    names: Vec<String>,
    #[command(flatten)]
    sorting: Sorting,
}

command! {
    "status": Args => run,
    needs: Scope::default().needs(),
    prints: { "Status": report::Document },
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    let needs = Scope::default().needs();
    let cluster = ctx.load(&needs).await?;
    let mut page = view(&cluster, args)?;
    page.sort(&args.sorting)?;
    if page.is_empty() {
        ctx.note(format!("There is no {}.", cluster.flavor().kind()));
    }
    scope::say_what_is_missing(ctx, &cluster, &needs);
    ctx.show(&page)?;
    Ok(selection::exit_without(&cluster, &Source::ESSENTIAL))
}

fn view<'a>(cluster: &'a Cluster, args: &Args) -> Result<StatusReport<'a>> {
    selection::readable(cluster, Source::Skyhooks)?;
    for name in &args.names {
        selection::known_skyhook(cluster, name)?;
    }
    let report = rules::diagnose(cluster, &Scope::default());
    Ok(StatusReport::new(cluster, &report, &args.names))
}
