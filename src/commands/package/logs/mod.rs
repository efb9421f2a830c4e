mod choose;
mod fetch;
mod follow;
mod no_log;
mod printer;
mod spool;
mod stream;

use std::time::Duration;

use self::choose::LogSelection;
use self::fetch::LogSource;
use crate::api::Stage;
use crate::args::duration::duration;
use crate::args::nodes::OnNodes;
use crate::args::selection::OfSkyhook;
use crate::cluster::attempts::Choice;
use crate::cluster::live::log::{LogError, Since};
use crate::cluster::{Cluster, Node, Source};
use crate::commands::shared::command::command;
use crate::commands::shared::{nodes, scope, selection};
use crate::ctx::Ctx;
use crate::error::{Exit, Result};

/// Print the logs of a package
///
/// Finds the pods of the package, whether the operator runs them itself or through Jobs, at every stage, interrupts and
/// uninstalls included. For each stage on each node, it shows the most useful log: the running attempt, else the latest
/// failed attempt, else the first failed attempt, else the tail kept by the operator. For a container that is waiting
/// to restart, the log of its last run is shown.
///
/// Lines of several pods are sorted by time and prefixed with node and container. With -f, new attempts and
/// new nodes are included, and the command ends when all runs have finished.
///
/// From a file written by `collect`, at most the last 100 lines of each log are shown; the file itself contains more.
///
/// If no logs are left in the cluster, it prints where the agent keeps its logs on the hosts.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook package logs driver --skyhook gpu-tune
  kubectl skyhook package logs driver --skyhook gpu-tune --node gpu-0001 --stage apply --tail 50
  kubectl skyhook package logs driver --skyhook gpu-tune -f")]
pub struct Args {
    /// The package
    package: String,
    #[command(flatten)]
    of: OfSkyhook,
    #[command(flatten)]
    on: OnNodes,

    /// Only this stage: apply, config, interrupt, post-interrupt, upgrade, uninstall or uninstall-interrupt
    #[arg(long, value_parser = stage)]
    stage: Option<Stage>,

    /// Follow logs until all runs finish
    #[arg(short, long)]
    follow: bool,

    /// Number of lines to show from the end of each container's log; -1 for all
    #[arg(
        long,
        value_name = "LINES",
        default_value_t = -1,
        allow_negative_numbers = true,
        hide_default_value = true
    )]
    tail: i64,

    /// Show logs of the previous attempt, or of the previous run of the container
    #[arg(short, long, conflicts_with = "follow")]
    previous: bool,

    /// Only lines newer than this duration, such as 10m
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    since: Option<Duration>,

    /// Show when each line was written
    #[arg(long)]
    timestamps: bool,

    /// Prefix each line with node and container, even if there is only one pod
    #[arg(long)]
    prefix: bool,
}

pub const NEEDS: [Source; 5] =
    [Source::Skyhooks, Source::Nodes, Source::Pods, Source::Jobs, Source::Operator];

/// The sources that `-f` watches.
const WATCHED: [Source; 4] = [Source::Skyhooks, Source::Nodes, Source::Pods, Source::Jobs];

command! {
    "package logs": Args => run,
    needs: NEEDS,
    gets: &[("", "pods/log")],
    watches: &WATCHED,
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    // With `-f`, watch all nodes, because new ones may join.
    let named = if args.follow {
        None
    } else {
        nodes::named_nodes(args.on.query(), Some(&args.of.skyhook), Some(&args.package))
    };
    let cluster = ctx.limit_to(named).load(&NEEDS).await?;
    let choices = view(&cluster, args)?;
    scope::warn_unreadable(ctx, &cluster, &NEEDS);
    let client = ctx.client();
    let origin = match (&client, &cluster.kept_logs) {
        (Some(client), _) => LogSource::Server(client),
        (None, Some(logs)) => LogSource::Capture { logs, now: cluster.taken_at },
        (None, None) => return no_log::from_files(ctx, &choices),
    };
    if let (true, Some(client)) = (args.follow, &client) {
        return follow::run(ctx, client, args, cluster).await;
    }
    if choices.is_empty() {
        ctx.note(no_log::nothing(&cluster, &args.nodes(&cluster)?, args.wanted()));
        return Ok(Exit::Done);
    }
    fetch::run(ctx, &origin, args, &choices).await
}

/// The choices of logs for the arguments.
fn view(cluster: &Cluster, args: &Args) -> Result<Vec<Choice>> {
    let skyhook = args.of.skyhook.as_str();
    for source in [Source::Nodes, Source::Pods, Source::Jobs] {
        if cluster.has(source) {
            selection::complete(cluster, source)?;
        }
    }
    selection::known_skyhook(cluster, skyhook)?;
    scope::known_package(cluster, skyhook, &args.package)?;
    Ok(choose::choose(cluster, &args.nodes(cluster)?, args.wanted()))
}

impl Args {
    fn nodes<'a>(&self, cluster: &'a Cluster) -> Result<Vec<&'a Node>> {
        nodes::selected(cluster, self.on.query())
    }

    fn wanted(&self) -> LogSelection<'_> {
        LogSelection {
            skyhook: &self.of.skyhook,
            package: &self.package,
            // `--stage=` selects all stages.
            stage: self.stage.as_ref().filter(|s| !s.as_str().is_empty()),
            previous: self.previous,
        }
    }

    fn lines(&self) -> Option<u64> {
        u64::try_from(self.tail).ok()
    }

    fn since(&self) -> Since {
        // The server refuses 0, and counts whole seconds.
        self.since.map_or(Since::Beginning, |s| Since::Seconds(s.as_secs().max(1)))
    }
}

fn stage(text: &str) -> std::result::Result<Stage, String> {
    match Stage::from(text) {
        Stage::Other(word) if !word.is_empty() => Err(format!("expected one of {}", Stage::KNOWN.join(", "))),
        stage => Ok(stage),
    }
}

fn warn_unreadable(ctx: &mut Ctx, what: &str, error: &LogError) {
    if error.code == Some(403) {
        ctx.note_refusal();
    }
    ctx.warn(format!("cannot read the log of {what}: {error}"));
}
