mod assessment;
mod findings;
mod item;
mod overview;
mod page;
pub mod report;
mod screen;
mod tree;

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
/// Without a name: one row per custom resource with its assessment, complete and failed nodes, the estimated remaining
/// time, and the cause or the object that it waits for; then the causes. The glossary explains the assessments. With
/// -o wide, more columns.
///
/// With a name: its compartments with the nodes that are next, packages by stage, pods and jobs at work, latest events
/// and causes. With -o wide, nothing is left out.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook status
  kubectl skyhook status gpu-tune
  kubectl skyhook status -o jsonpath='{.items[?(@.assessment!=\"Complete\")].name}'")]
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
    Ok(StatusReport::new(cluster, report, &args.names))
}
