mod live;
mod overview;
mod page;
mod screen;
mod tree;

use std::time::Duration;

use self::live::Live;
use crate::args::duration::duration;
use crate::args::listing::Sorting;
use crate::args::named;
use crate::cluster::live::WATCHED;
use crate::cluster::{Cluster, Source};
use crate::commands::shared::command::command;
use crate::commands::shared::diagnosis::Diagnosis;
use crate::commands::shared::mutes::MuteFlags;
use crate::commands::shared::status::{self, StatusReport};
use crate::commands::shared::{scope, selection, watched};
use crate::ctx::{self, Ctx, Ended};
use crate::error::{Exit, Result};
use crate::rules::support::mute::Mutes;
use crate::rules::{self, Scope};

/// Show the progress of each custom resource, on one page
///
/// Without a name: one row per custom resource with its assessment, complete and failed nodes, the estimated remaining
/// time, and the cause or the object that it waits for; then the causes. The glossary explains the assessments. With
/// -o wide, more columns.
///
/// With a name: its compartments with the nodes that are next, packages by stage, pods and jobs at work, latest events
/// and causes; the packages that are to be uninstalled, node by node; and a deletion, with the packages that it waits
/// for, every remedy, least disruptive first, and the remedy to use now. With -o wide, nothing is left out.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook status
  kubectl skyhook status gpu-tune
  kubectl skyhook status -o jsonpath='{.items[?(@.state!=\"Complete\")].name}'")]
pub struct Args {
    /// Show only these custom resources
    #[arg(value_name = "NAME", value_parser = named::skyhook)]
    names: Vec<String>,
    #[command(flatten)]
    sorting: Sorting,

    /// Watch until all are complete, or none makes progress any more
    ///
    /// Exits with 0 if all are complete, with 2 and the cause if nothing makes progress until someone intervenes, and with
    /// 5 on timeout. On a terminal the screen is drawn again in place; in a pipe each change is a line.
    #[arg(short, long, conflicts_with = "sort_by")]
    watch: bool,

    /// With --watch: how long to watch; 0 watches forever
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = duration, requires = "watch")]
    timeout: Duration,

    #[command(flatten)]
    muting: MuteFlags,
}

command! {
    "status": Args => run,
    needs: Scope::default().needs(),
    watches: &WATCHED,
    prints: { "Status": status::Document },
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    let needs = Scope::default().needs();
    if args.watch {
        return watch(ctx, args, &needs).await;
    }
    let cluster = ctx.load(&needs).await?;
    selection::readable(&cluster, Source::Skyhooks)?;
    let muting = args.muting.load(ctx, &cluster)?;
    let mut page = view(&cluster, args, &muting.mutes)?;
    page.sort(&args.sorting)?;
    if page.is_empty() {
        ctx.note(format!("There is no {}.", cluster.flavor().kind()));
    }
    scope::warn_unreadable(ctx, &cluster, &needs);
    ctx.show(&page)?;
    Ok(muting.exit(selection::exit_without(&cluster, &Source::ESSENTIAL)))
}

async fn watch(ctx: &mut Ctx, args: &Args, needs: &[Source]) -> Result<Exit> {
    watched::refuse(ctx, Some("kubectl skyhook wait -o json"))?;
    let timeout = (!args.timeout.is_zero()).then_some(args.timeout);
    let cluster = watched::load_within(ctx, needs, timeout).await?;
    selection::readable(&cluster, Source::Skyhooks)?;
    selection::readable(&cluster, Source::Nodes)?;
    args.names.iter().try_for_each(|name| selection::known_skyhook(&cluster, name))?;
    scope::warn_unreadable(ctx, &cluster, needs);
    let mut live = Live::new(&cluster, &args.names);
    let ended = tokio::select! {
        biased;
        () = ctx::interrupt() => None,
        ended = ctx.wait(&mut live, cluster, timeout) => Some(ended?),
    };
    if let (Some(Ended::Blocked(_)), Some(found)) = (&ended, Diagnosis::of_blockers(&live.blockers)) {
        ctx.show(&found)?;
        return Ok(Exit::Findings);
    }
    ctx.show(&live.last(ctx.redraws()))?;
    match ended {
        None => Ok(Exit::Interrupted),
        Some(Ended::TimedOut(_)) => Err(watched::timed_out(args.timeout)),
        // A blocked watch has shown its blockers.
        Some(Ended::Met | Ended::Blocked(_)) => Ok(Exit::Done),
    }
}

fn view<'a>(cluster: &'a Cluster, args: &Args, mutes: &Mutes) -> Result<StatusReport<'a>> {
    args.names.iter().try_for_each(|name| selection::known_skyhook(cluster, name))?;
    let report = rules::diagnose(cluster, &Scope::default()).mute(cluster, mutes);
    let mut status = StatusReport::new(cluster, report, &args.names);
    status.mute_words = args.muting.words();
    Ok(status)
}
