use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::shared::rows::EventRow;
use crate::args::connection::duration;
use crate::args::nodes::{self, NodeArg};
use crate::cluster::{Cluster, Source};
use crate::commands::shared::command::command;
use crate::commands::shared::{progress, rows, scope};
use crate::ctx::{self, AimProgress, Ctx};
use crate::error::{Exit, Result};
use crate::view::text::Text;
use crate::view::{ItemsAt, List, View};
use crate::wait::Wait;

/// Show the events of custom resources, their pods, jobs and nodes
///
/// The latest events come last. Events with the same reason and message share a row, which counts them. The
/// API server deletes events after an hour by default.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook events
  kubectl skyhook events gpu-tune --since 10m
  kubectl skyhook events --node gpu-0001
  kubectl skyhook events -w
  kubectl skyhook events -o json | jq -r '.items[] | select(.type==\"Warning\") | \"\\(.last) \\(.objects[0]) \\(.reason)\"'")]
pub struct Args {
    /// Show only events of these custom resources
    #[arg(value_name = "NAME", value_parser = skyhook)]
    names: Vec<String>,

    /// Same as NAME, in the form of `kubectl events --for`: skyhook/NAME
    #[arg(long = "for", value_name = "NAME", value_parser = skyhook)]
    skyhooks: Vec<String>,

    /// Show only what happened on this node, or on a set of nodes such as gpu-[01-12]
    ///
    /// Events of the node, of pods and jobs on it, and those that name it.
    #[arg(long, value_name = "NODE")]
    node: Option<NodeArg>,

    /// Show only events within this time
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    since: Option<Duration>,

    /// Watch, until Ctrl-C or --timeout
    ///
    /// On a terminal, the latest events are redrawn in place; in a pipe, each new event or count is printed as
    /// a line.
    #[arg(short, long)]
    watch: bool,

    /// With --watch: how long to watch; 0 watches forever
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = duration, requires = "watch")]
    timeout: Duration,
}

/// Parses the name of a custom resource.
fn skyhook(text: &str) -> std::result::Result<String, String> {
    match nodes::node(text) {
        Ok(node) if node != text => Err(format!(
            "the events of a node: kubectl skyhook events --node {node}; its state: kubectl skyhook diagnose node {node}"
        )),
        Err(_) if text.starts_with("pod/") || text.starts_with("job/") => {
            Err(format!("the events of one object: kubectl events --all-namespaces --for {text}"))
        }
        _ => nodes::skyhook(text),
    }
}

/// Maximum number of events that a watch shows on a terminal.
const SHOWN: usize = 20;

/// The last two only with --node.
const READS: [Source; 6] =
    [Source::Skyhooks, Source::Nodes, Source::Operator, Source::Events, Source::Pods, Source::Jobs];

command! {
    "events": Args => run,
    needs: READS,
    watches: &[Source::Skyhooks, Source::Nodes],
    prints: { "Events": ItemsAt<EventRow> },
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    if args.watch {
        progress::refuse_watch(ctx, None)?;
    }
    let reads = if args.node.is_some() { &READS[..] } else { &READS[..4] };
    let cluster = ctx.load(reads).await?;
    let events = view(&cluster, args)?;
    scope::warn_unreadable(ctx, &cluster, reads);
    if args.watch {
        return watch(ctx, args, cluster).await;
    }
    if events.rows.is_empty() {
        let asked = cluster.source(Source::Events).was_asked();
        ctx.note(if asked {
            "No events of custom resources, their nodes, pods or jobs: by default, the API server deletes events after an hour."
        } else {
            "The capture contains no events."
        });
    }
    ctx.show(&events)?;
    Ok(scope::exit_without(&cluster, &[Source::Events]))
}

async fn watch(ctx: &mut Ctx, args: &Args, cluster: Cluster) -> Result<Exit> {
    let mut live = Live::new(args);
    let ended = ctx.wait(&mut live, cluster, args.timeout).await?;
    // A terminal has cleared the last screen, so print it again; a pipe has all lines already.
    if ctx.redraws() {
        ctx.show(&live.events)?;
    }
    progress::exit(&ended, args.timeout)
}

/// The state of a watch for events.
struct Live<'a> {
    args: &'a Args,
    events: Events,
    /// The printed count of each row, by reason and message.
    printed: HashMap<(String, String), i64>,
}

impl<'a> Live<'a> {
    fn new(args: &'a Args) -> Live<'a> {
        Live {
            args,
            events: Events { rows: Vec::new(), now: Timestamp::UNIX_EPOCH },
            printed: HashMap::new(),
        }
    }
}

impl ctx::Aim for Live<'_> {
    fn look(&mut self, cluster: &Cluster) -> AimProgress {
        let mut progress =
            AimProgress { state: Wait::Pending(String::new()), whole: Text::new(), news: Vec::new() };
        // Keep watching if events temporarily cannot be read.
        let Ok(events) = view(cluster, self.args) else {
            progress.whole = self.events.blocks(false);
            return progress;
        };
        for row in &events.rows {
            let before = self.printed.insert(row.key(), row.count);
            if before.is_none_or(|count| count != row.count) {
                progress.news.push(row.line());
            }
        }
        let shown = events.rows.len().saturating_sub(SHOWN);
        progress.whole = rows::table(&events.rows[shown..], events.now).into();
        self.events = events;
        progress
    }

    fn is_screen(&self) -> bool {
        true
    }

    fn reads_unwatched(&self) -> bool {
        true
    }
}

fn view(cluster: &Cluster, args: &Args) -> Result<Events> {
    scope::readable(cluster, Source::Events)?;
    let mut names: BTreeSet<&str> = args.names.iter().chain(&args.skyhooks).map(String::as_str).collect();
    names.iter().try_for_each(|name| scope::known_skyhook(cluster, name))?;
    if let Some(node) = &args.node {
        scope::named_by(cluster, node)?;
    }
    if names.is_empty() {
        names.extend(cluster.skyhooks.iter().map(|s| s.name()));
        names.extend(cluster.names_on_nodes());
    }
    let names: Vec<&str> = names.into_iter().collect();
    let mut rows = rows::rows(cluster, &names, args.node.as_ref());
    if let Some(since) = args.since {
        let since = SignedDuration::try_from(since).unwrap_or(SignedDuration::MAX);
        rows.retain(|row| row.at.is_none_or(|at| cluster.taken_at.duration_since(at) <= since));
    }
    Ok(Events { rows, now: cluster.taken_at })
}

struct Events {
    rows: Vec<EventRow>,
    now: Timestamp,
}

impl View for Events {
    fn blocks(&self, _wide: bool) -> Text {
        rows::table(&self.rows, self.now).into()
    }

    /// The objects, without duplicates.
    fn names(&self) -> Vec<String> {
        let objects: BTreeSet<&str> = self.rows.iter().flat_map(EventRow::objects).collect();
        objects.into_iter().map(str::to_owned).collect()
    }

    fn document(&self) -> Value {
        List::new("Events", self.rows.iter()).at(self.now).document()
    }
}
