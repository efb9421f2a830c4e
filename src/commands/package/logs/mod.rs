mod choose;
mod fetch;
mod follow;
mod no_log;
mod printer;
mod spool;
mod stream;

use std::collections::BTreeSet;
use std::time::Duration;

use self::choose::LogSelection;
use self::fetch::LogSource;
use crate::api::Stage;
use crate::args::duration::duration;
use crate::args::nodes::OnNodes;
use crate::args::selection::OnlySkyhook;
use crate::cluster::attempts::Choice;
use crate::cluster::live::log::{LogError, Since};
use crate::cluster::{Cluster, Node, Source};
use crate::commands::shared::command::command;
use crate::commands::shared::{nodes, scope, selection};
use crate::ctx::Ctx;
use crate::error::{Error, Exit, Result};
use crate::view::shell_words;

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
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook package logs driver --skyhook gpu-tune
  kubectl skyhook package logs driver --skyhook gpu-tune --node gpu-0001 --stage apply --tail 50
  kubectl skyhook package logs driver --skyhook gpu-tune -f")]
pub struct Args {
    /// The package; or a node on which only one package has logs
    package: String,
    #[command(flatten)]
    of: OnlySkyhook,
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
        nodes::named_nodes(args.on.query(), args.of.skyhook.as_deref(), Some(&args.package))
    };
    let cluster = ctx.limit_to(named.filter(|_| args.of.skyhook.is_some())).load(&NEEDS).await?;
    let args = &args.resolved(&cluster)?;
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
    let skyhook = args.skyhook();
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
    /// The custom resource, once resolved.
    fn skyhook(&self) -> &str {
        self.of.skyhook.as_deref().unwrap_or_default()
    }

    /// The arguments with the custom resource, and with the package of a node that is given instead of a package.
    ///
    /// # Errors
    ///
    /// None or several fit.
    fn resolved(&self, cluster: &Cluster) -> Result<Args> {
        let mut args = self.clone();
        let has = |skyhook: &str, package: &str| {
            scope::packages(cluster, &cluster.package_runs(), skyhook).contains(package)
        };
        let names = || cluster.skyhooks.items().iter().map(|skyhook| skyhook.name());
        let is_package = match &self.of.skyhook {
            Some(skyhook) => has(skyhook, &self.package),
            None => names().any(|skyhook| has(skyhook, &self.package)),
        };
        if !is_package && self.on.query().is_empty() && cluster.node(&self.package).is_some() {
            return self.of_node(cluster, &self.package);
        }
        let pod = self.package.strip_prefix("pod/").unwrap_or(&self.package);
        if let Some(run) =
            cluster.package_runs().all().iter().find(|run| run.pods.iter().any(|of| of.name() == pod))
            && !is_package
        {
            args.of.skyhook = Some(run.skyhook.clone());
            args.package.clone_from(&run.package);
            args.on.flags.node = vec![run.node.parse().map_err(Error::usage)?];
        }
        if args.of.skyhook.is_none() {
            let any = is_package || names().next().is_none();
            let fits = |skyhook: &str| !any || has(skyhook, &self.package);
            args.of.skyhook = Some(selection::only_skyhook(cluster, fits)?);
        }
        Ok(args)
    }

    /// The arguments for the only package with logs on a node.
    fn of_node(&self, cluster: &Cluster, node: &str) -> Result<Args> {
        let package_runs = cluster.package_runs();
        let here = package_runs.all().iter().filter(|run| run.node == node && !run.package.is_empty());
        let here = here.filter(|run| self.of.skyhook.as_deref().is_none_or(|skyhook| skyhook == run.skyhook));
        let found: BTreeSet<(&str, &str)> =
            here.map(|run| (run.skyhook.as_ref(), run.package.as_str())).collect();
        let mut found = found.into_iter();
        let (first, rest) = (found.next(), found.next());
        let (Some((skyhook, package)), None) = (first, rest) else {
            let error = Error::failed(match first {
                None => format!("{node} is a node, and no package has logs there"),
                Some(_) => format!("{node} is a node, and several packages have logs there: name one"),
            });
            let all = first.into_iter().chain(rest).chain(found);
            let argv = |(skyhook, package)| {
                shell_words(&[
                    "kubectl",
                    "skyhook",
                    "package",
                    "logs",
                    package,
                    "--skyhook",
                    skyhook,
                    "--node",
                    node,
                ])
            };
            return Err(all.map(argv).fold(error, Error::hint));
        };
        let mut args = self.clone();
        args.of.skyhook = Some(skyhook.to_owned());
        args.package = package.to_owned();
        args.on.flags.node = vec![node.parse().map_err(Error::usage)?];
        Ok(args)
    }

    fn nodes<'a>(&self, cluster: &'a Cluster) -> Result<Vec<&'a Node>> {
        nodes::selected(cluster, self.on.query())
    }

    fn wanted(&self) -> LogSelection<'_> {
        LogSelection {
            skyhook: self.skyhook(),
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
