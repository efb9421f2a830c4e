use std::collections::BTreeSet;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::args::duration::duration;
use crate::args::named;
use crate::cluster::{Cluster, Source};
use crate::commands::shared::command::command;
use crate::commands::shared::event_row::{self, EventRow};
use crate::commands::shared::{scope, selection};
use crate::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::view::text::Text;
use crate::view::{View, to_json};

/// Show the events of custom resources, their pods, jobs and nodes
///
/// The latest events come last. Events with the same reason and message share a row, which counts them. The API server
/// deletes events after an hour by default.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook events
  kubectl skyhook events gpu-tune --since 10m")]
pub struct Args {
    /// Show only events of these custom resources
    #[arg(value_name = "NAME", value_parser = named::skyhook)]
    names: Vec<String>,

    /// Show only events within this time
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    since: Option<Duration>,
}

const READS: [Source; 4] = [
    Source::Skyhooks,
    Source::Nodes,
    Source::Operator,
    Source::Events,
];

command! {
    "events": Args => run,
    needs: READS,
    prints: { "Events": Vec<EventRow> },
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    let cluster = ctx.load(&READS).await?;
    let events = view(&cluster, args)?;
    if events.rows.is_empty() {
        ctx.note("No events.");
    }
    scope::say_what_is_missing(ctx, &cluster, &READS);
    ctx.show(&events)?;
    Ok(selection::exit_without(&cluster, &[Source::Events]))
}

fn view(cluster: &Cluster, args: &Args) -> Result<Events> {
    selection::readable(cluster, Source::Events)?;
    for name in &args.names {
        selection::known_skyhook(cluster, name)?;
    }
    let mut names: BTreeSet<&str> = args.names.iter().map(String::as_str).collect();
    if names.is_empty() {
        names.extend(cluster.skyhooks.items().iter().map(|s| s.name()));
        names.extend(cluster.names_on_nodes());
    }
    let names: Vec<&str> = names.into_iter().collect();
    let mut rows = event_row::rows(cluster, &names);
    if let Some(since) = args.since {
        let begin = cluster.taken_at - SignedDuration::try_from(since).unwrap_or_default();
        rows.retain(|row| row.at.is_none_or(|at| at >= begin));
    }
    Ok(Events {
        rows,
        now: cluster.taken_at,
    })
}

struct Events {
    rows: Vec<EventRow>,
    now: Timestamp,
}

impl View for Events {
    fn blocks(&self, _wide: bool) -> Text {
        event_row::table(&self.rows, self.now).into()
    }

    /// The objects, each once.
    fn names(&self) -> Vec<String> {
        let objects: BTreeSet<&str> = self.rows.iter().flat_map(EventRow::objects).collect();
        objects.into_iter().map(str::to_owned).collect()
    }

    fn document(&self) -> Value {
        to_json(&self.rows)
    }
}
