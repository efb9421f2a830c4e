mod fetch;
mod follow;

use std::collections::BTreeMap;
use std::time::Duration;

use fetch::LogSource;
use follow::Printer;

use crate::api::{Entry, Executor, Skyhook, Stage, State};
use crate::args::connection::duration;
use crate::args::nodes::{self, OnNodes, OnlySkyhook};
use crate::cluster::attempts::{Choice, choice};
use crate::cluster::live::logs::{LogError, Since};
use crate::cluster::{Cluster, Job, Node, PackageRun, Phase, Source};
use crate::commands::shared::command::command;
use crate::commands::shared::scope;
use crate::ctx::Ctx;
use crate::error::{Error, Exit, Result};
use crate::view::text::{self, Text};
use crate::view::{NodeSet, OutputFormat, list, natural, plural};

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
    /// The package; or a pod, a Job, or a node or custom resource where only one package has logs
    #[arg(value_parser = subject)]
    package: String,
    /// The pod or the Job that was named instead of a package, once resolved.
    #[arg(skip)]
    object: Option<String>,
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
    if !matches!(ctx.global().output.format, OutputFormat::Table | OutputFormat::Wide) {
        return Err(Error::usage("package logs prints text; -o is not supported")
            .hint(format!("kubectl skyhook package status {} -o json", args.package)));
    }
    // With `-f`, watch all nodes, because new ones may join.
    let named = if args.follow {
        None
    } else {
        scope::named_nodes(args.on.query(), args.of.skyhook.as_deref(), Some(&args.package))
    };
    let cluster = ctx.limit_to(named.filter(|_| args.of.skyhook.is_some())).load(&NEEDS).await?;
    let args = &args.resolved(&cluster)?;
    let choices = view(&cluster, args)?;
    scope::warn_unreadable(ctx, &cluster, &NEEDS);
    let client = ctx.client();
    let origin = match (&client, &cluster.kept_logs) {
        (Some(client), _) => LogSource::Server(client),
        (None, Some(logs)) => LogSource::Capture { logs, now: cluster.taken_at },
        (None, None) => return from_files(ctx, &choices, args.prefix),
    };
    if let (true, Some(client)) = (args.follow, &client) {
        return follow::run(ctx, client, args, cluster).await;
    }
    if choices.is_empty() {
        ctx.note(nothing(&cluster, &args.nodes(&cluster)?, args.wanted()));
        return Ok(Exit::Done);
    }
    fetch::run(ctx, &origin, args, &choices).await
}

/// The choices of logs for the arguments.
fn view(cluster: &Cluster, args: &Args) -> Result<Vec<Choice>> {
    let skyhook = args.skyhook();
    for source in [Source::Nodes, Source::Pods, Source::Jobs] {
        if cluster.has(source) {
            scope::complete(cluster, source)?;
        }
    }
    scope::known_skyhook(cluster, skyhook)?;
    scope::known_package(cluster, skyhook, &args.package)?;
    Ok(choose(cluster, &args.nodes(cluster)?, args.wanted()))
}

impl Args {
    /// The custom resource, once resolved.
    fn skyhook(&self) -> &str {
        self.of.skyhook.as_deref().unwrap_or_default()
    }

    /// The arguments with the custom resource, and with the package of an object that is given instead of a package.
    ///
    /// # Errors
    ///
    /// Several packages have logs of the object; or no custom resource fits, or several do.
    fn resolved(&self, cluster: &Cluster) -> Result<Args> {
        let mut args = self.clone();
        let name = self.package.as_str();
        let package_runs = cluster.package_runs();
        let has = |skyhook: &str| scope::packages(cluster, &package_runs, skyhook).contains(name);
        let is_package = match &self.of.skyhook {
            Some(skyhook) => has(skyhook),
            None => cluster.skyhooks.iter().any(|skyhook| has(skyhook.name())),
        };
        let found = package_runs.all().iter().filter(|run| {
            !is_package
                && !run.package.is_empty()
                && self.of.skyhook.as_ref().is_none_or(|skyhook| *skyhook == run.skyhook)
                && (run.node == name || run.skyhook == name || run.of_object(name).is_some())
        });
        let found: BTreeMap<(&str, &str), &PackageRun<'_>> =
            found.map(|run| ((run.skyhook.as_str(), run.package.as_str()), run)).collect();
        if found.len() > 1 {
            let packages = found.keys().map(|(skyhook, package)| format!("{package} of {skyhook}"));
            let why = format!("several packages have logs of {name}: name one");
            return Err(Error::failed(why).hint(list(&packages.collect::<Vec<_>>())));
        }
        if let Some(run) = found.into_values().next() {
            args.object = run.of_object(name).map(|_| name.to_owned());
            args.of.skyhook = Some(run.skyhook.clone());
            args.package.clone_from(&run.package);
            if args.object.is_some() || run.node == name {
                args.on.flags.node = vec![run.node.parse().map_err(Error::usage)?];
            }
        }
        if args.package == name && !is_package && cluster.node(name).is_some() {
            return Err(Error::failed(format!("{name} is a node, and no package has logs there")));
        }
        if args.of.skyhook.is_none() {
            scope::known_anywhere(cluster, &args.package)?;
            args.of.skyhook = Some(scope::only_skyhook(cluster, |skyhook| !is_package || has(skyhook))?);
        }
        Ok(args)
    }

    fn nodes<'a>(&self, cluster: &'a Cluster) -> Result<Vec<&'a Node>> {
        scope::selected(cluster, self.on.query())
    }

    fn wanted(&self) -> LogSelection<'_> {
        LogSelection {
            skyhook: self.skyhook(),
            package: &self.package,
            // `--stage=` selects all stages.
            stage: self.stage.as_ref().filter(|s| !s.as_str().is_empty()),
            previous: self.previous,
            object: self.object.as_deref(),
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

/// The name of a package, or of an object with the logs of packages, which kubectl names with its kind.
fn subject(text: &str) -> std::result::Result<String, String> {
    match text.split_once('/') {
        Some((kind, name)) if ["pod", "pods", "po", "job", "jobs", "no"].contains(&&*kind.to_lowercase()) => {
            Ok(name.to_owned())
        }
        Some((kind, name)) if ["package", "packages"].contains(&&*kind.to_lowercase()) => {
            nodes::skyhook(name)
        }
        Some((of, name))
            if !name.is_empty() && !["skyhook", "nodewright", "node"].contains(&of.trim_end_matches('s')) =>
        {
            Err(format!("for package {name} of {of}: kubectl skyhook logs {name} --skyhook {of}"))
        }
        _ => nodes::node(text).or_else(|_| nodes::skyhook(text)),
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

/// The criteria for the choice of logs.
#[derive(Debug, Clone, Copy)]
pub struct LogSelection<'a> {
    pub skyhook: &'a str,
    pub package: &'a str,
    pub stage: Option<&'a Stage>,
    /// Whether to show the attempt before the newest, or the container run before the current one.
    pub previous: bool,
    /// The only pod, or the Job whose pods are wanted; `None` for all.
    pub object: Option<&'a str>,
}

/// The package runs with their logs, by node and then by time.
pub fn choose(cluster: &Cluster, nodes: &[&Node], wanted: LogSelection<'_>) -> Vec<Choice> {
    let package_runs = cluster.package_runs();
    let mut found: Vec<&PackageRun<'_>> = nodes
        .iter()
        .flat_map(|node| package_runs.of_skyhook_on(wanted.skyhook, &node.name))
        .filter(|run| wanted.is_for(cluster, run))
        .collect();
    found.sort_by(|a, b| {
        natural(a.node, b.node)
            .then_with(|| a.created().cmp(&b.created()))
            .then_with(|| a.to_string().cmp(&b.to_string()))
    });
    found
        .into_iter()
        .filter_map(|run| match wanted.object {
            Some(name) => run.of_object(name).map(|run| choice(cluster, &run, wanted.previous)),
            None => Some(choice(cluster, run, wanted.previous)),
        })
        .collect()
}

impl LogSelection<'_> {
    fn is_for(&self, cluster: &Cluster, package_run: &PackageRun<'_>) -> bool {
        self.stage.is_none_or(|stage| *stage == package_run.stage)
            && (package_run.package == self.package || self.merged(cluster, package_run))
    }

    /// Whether an interrupt also runs for this package. A merged interrupt names only one package; the other packages
    /// wait at the same stage.
    fn merged(&self, cluster: &Cluster, package_run: &PackageRun<'_>) -> bool {
        let entries = || {
            let node = cluster.node(package_run.node)?;
            Some(cluster.on_node(node, self.skyhook)?.entries())
        };
        package_run.interrupt
            && entries().is_some_and(|entries| {
                entries.iter().any(|e| {
                    e.name == self.package && e.stage == package_run.stage && e.state != State::Complete
                })
            })
    }
}

/// Whether the package still has to run on any of the nodes.
fn is_to_come(cluster: &Cluster, nodes: &[&Node], wanted: LogSelection<'_>) -> bool {
    let Some(skyhook) = cluster.skyhook(wanted.skyhook) else {
        return false;
    };
    if !skyhook.is_active() || wanted.object.is_some() {
        return false;
    }
    let package_runs = cluster.package_runs();
    let expects = |node: &&Node| {
        let given_up = package_runs
            .of_skyhook_on(wanted.skyhook, &node.name)
            .filter(|run| run.package == wanted.package)
            .max_by_key(|run| run.created())
            .is_some_and(|run| run.job.is_some_and(Job::gave_up));
        !given_up && !node.ignored(cluster.flavor()) && more(cluster, skyhook, node, wanted)
    };
    nodes.iter().any(expects)
}

fn more(cluster: &Cluster, skyhook: &Skyhook, node: &Node, wanted: LogSelection<'_>) -> bool {
    let mut all = cluster.placements_on(wanted.skyhook, node);
    all.retain(|p| p.package == wanted.package);
    let recorded = all.iter().filter_map(|p| Some((p, p.entry?)));
    let Some((placement, entry)) = recorded.max_by_key(|(p, _)| p.in_spec()) else {
        return !skyhook.deleting() && all.iter().any(|p| p.phase == Phase::NotStarted);
    };
    if placement.phase == Phase::Complete {
        return false;
    }
    match wanted.stage {
        None => entry.state != State::Complete || !skyhook.deleting(),
        Some(stage) => match order(&entry.stage).cmp(&order(stage)) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Equal => entry.state != State::Complete,
            std::cmp::Ordering::Greater => false,
        },
    }
}

/// The position of a stage in the life of a package.
fn order(stage: &Stage) -> u8 {
    match stage {
        Stage::Upgrade | Stage::Apply => 0,
        Stage::Config => 1,
        Stage::Interrupt => 2,
        Stage::PostInterrupt => 3,
        Stage::Uninstall => 4,
        Stage::UninstallInterrupt => 5,
        Stage::Other(_) => 6,
    }
}

/// Why the cluster has no logs, and where the hosts keep them.
pub fn nothing(cluster: &Cluster, nodes: &[&Node], wanted: LogSelection<'_>) -> Text {
    let what = match wanted.stage {
        Some(stage) => format!("stage {stage} of {}", wanted.package),
        None => wanted.package.to_owned(),
    };
    let why = match cluster.flavor().executor() {
        Executor::Pod => "the operator deletes a pod as soon as its stage is complete",
        Executor::Job => {
            "the operator lets finished jobs expire, by default an hour after they succeed and a day after they fail"
        }
    };
    let recorded = |node: &&&Node| entry(cluster, node, wanted).is_some();
    let stands = |e: &Entry| wanted.stage.is_none_or(|stage| e.stage == *stage);
    let erroring = nodes
        .iter()
        .filter_map(|node| entry(cluster, node, wanted))
        .find(|e| e.state == State::Erroring && stands(e));
    let begun: Vec<&str> = nodes.iter().filter(recorded).map(|n| n.name.as_str()).collect();
    let mut note = Text::new();
    if begun.is_empty() {
        note.paragraph(format!(
            "No pod of {what} was found, and no selected node has a record of the package: the package has not run yet, or ran long ago."
        ));
    } else if let Some(entry) = erroring {
        note.paragraph(format!(
            "No pod of {what} was found, although stage {} is erroring: its pod was deleted, or its node was recreated.",
            entry.stage
        ));
    } else {
        note.paragraph(format!("No pod of {what} is left: {why}."));
    }
    let on = match begun.as_slice() {
        [] => "the nodes".to_owned(),
        begun => NodeSet::of(begun).limited(4),
    };
    note.paragraph(format!("The agent's own logs stay on {on}, in {}.", directory(cluster, wanted.skyhook)));
    note
}

/// The record of the package in the state of a node.
fn entry<'a>(cluster: &'a Cluster, node: &'a Node, wanted: LogSelection<'_>) -> Option<&'a Entry> {
    let skyhook = cluster.skyhook(wanted.skyhook);
    cluster.on_node(node, wanted.skyhook)?.entries_of(skyhook, wanted.package).first().copied()
}

/// The agent's log directory on a host, as configured in the operator.
fn directory(cluster: &Cluster, skyhook: &str) -> String {
    let root = cluster.operator().setting("AGENT_LOG_ROOT");
    format!("{}/{skyhook}", root.unwrap_or("/var/log/skyhook").trim_end_matches('/'))
}

/// Prints facts about a stage and its other attempts. With `unread`, a log could not be read, so it is unknown whether
/// it has lines.
pub fn about(ctx: &mut Ctx, choice: &Choice, attempt: Option<usize>, unread: bool) {
    let shown = attempt.map(|at| &choice.attempts[at]);
    let others = choice.attempts.iter().filter(|a| !a.pieces.is_empty()).count();
    let mut messages = choice.messages.clone();
    match shown {
        Some(attempt) => {
            let failure = attempt.failure.iter().cloned();
            messages.splice(0..0, failure);
        }
        None if choice.last_logs.is_some() => {
            messages.insert(
                0,
                "its pods are gone; these are the last lines of the log, kept by the operator".to_owned(),
            );
        }
        None if messages.is_empty() && !unread => messages.push("no log output is available".to_owned()),
        None => {}
    }
    if let (Some(0), true) = (attempt, others > 1) {
        let earlier = plural(others - 1, "earlier attempt");
        messages.push(format!("{earlier} kept: --previous"));
    }
    if messages.is_empty() {
        return;
    }
    let mut note = Text::new();
    let place = format!("{} {} ({}): ", choice.node, choice.stage, choice.reference);
    note.paragraph(text::dim(place) + messages.join("; "));
    ctx.note(note);
}

/// Prints the log tails that the operator keeps on its Jobs. Other logs are read only from captures of `collect`.
pub fn from_files(ctx: &mut Ctx, choices: &[Choice], prefix: bool) -> Result<Exit> {
    let kept = choices.iter().filter(|choice| choice.last_logs.is_some()).count();
    let mut printer = (prefix || kept > 1).then(|| Printer::new(true, std::iter::empty()));
    for choice in choices {
        let newest = (!choice.attempts.is_empty()).then_some(0);
        about(ctx, choice, newest, false);
        for line in choice.last_logs.iter().flat_map(|kept| kept.split_inclusive('\n')) {
            match &mut printer {
                Some(printer) => printer.line(ctx, &choice.node, &choice.stage, line.as_bytes())?,
                None => ctx.log(&text::Line::default(), line.as_bytes())?,
            };
        }
    }
    if choices.is_empty() {
        ctx.note("The capture has no pods or jobs of it.");
    }
    ctx.note(
        "The capture contains no whole logs: use the cluster, or a capture that `kubectl skyhook collect` wrote.",
    );
    Ok(Exit::Done)
}
