use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::shared::command::command;
use super::shared::diagnosis::Diagnosis;
use super::shared::mutes::Target;
use crate::args::connection::duration;
use crate::args::listing::size;
use crate::cluster::capture::{Index, ReadOutcome};
use crate::cluster::live::{CollectRequest, Collected};
use crate::cluster::{Source, capture};
use crate::ctx::{Ctx, now};
use crate::error::{Error, Exit, Result};
use crate::rules::{self, Scope};
use crate::view::text::{self, Text};
use crate::view::{OutputFormat, count, plural};

/// A time limit that is never reached.
const NO_LIMIT: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Collect everything that a diagnosis reads into one file
///
/// The file is for someone without access to the cluster: with --from, `diagnose stuck`, `status`,
/// `package status` and `leftovers` report the same as they would for the cluster. It is a .tar.gz of nodes,
/// custom resources and their policies, the operator's Deployment, pods, Jobs, events, disruption budgets,
/// webhooks and their backends, the CustomResourceDefinitions, the logs of failing and running containers and
/// of the operator, and all versions.
///
/// Data that the server refuses or fails to return is noted in index.json, and everything else is collected.
/// Commands that read the file report what they could not check. Values of environment variables, data of
/// ConfigMaps and apparent credentials are replaced by placeholders; equal values get the same placeholder.
/// Names, labels, images and messages stay: look through the file before you send it.
///
/// The file is written completely or not at all, with mode 0600, and its path is printed. The command exits
/// with 4 if something is missing from the file.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook collect
  kubectl skyhook collect -o ticket-4711.tar.gz
  kubectl skyhook diagnose stuck --from ticket-4711.tar.gz")]
pub struct Args {
    /// The file to write, or - for standard output; by default skyhook-TIME.tar.gz
    ///
    /// With --contexts, the name of the context is added to the name of the file.
    // With this id, it replaces the global flag of the same name.
    #[arg(id = "format", short = 'o', long = "output", value_name = "FILE", value_parser = capture_file)]
    output: Option<OutputFormat>,

    /// Overwrite the file if it exists
    #[arg(long)]
    force: bool,

    /// Maximum file size; beyond it, the least important data is left out, and this is reported
    ///
    /// Events are left out first, then ConfigMaps, PodDisruptionBudgets and webhooks, then pods; custom
    /// resources last.
    #[arg(long, value_name = "SIZE", default_value = "100Mi", value_parser = size)]
    max_size: u64,

    /// Number of lines to keep from the end of each log; for the operator's log, ten times as many
    #[arg(long, value_name = "LINES", default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    tail: u64,

    /// Time limit; data that is not read in time is recorded as missing; 0 means no limit
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration)]
    timeout: Duration,
}

command! {
    "collect": Args => run,
    needs: Source::ALL,
    gets: &[
        ("", "pods/log"),
        ("apiextensions.k8s.io", "customresourcedefinitions"),
    ],
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    let target = Target::of(ctx, args.path()?, Some(args.force), "-o")?;
    let request = CollectRequest {
        limit: args.max_size,
        patience: match args.timeout {
            Duration::ZERO => NO_LIMIT,
            some => some,
        },
        lines: args.tail,
        see_holders: |_| {},
        asked: |cluster| {
            let report = rules::diagnose(cluster, &Scope::default());
            Diagnosis::new(cluster, report).logs().concat()
        },
        api: None,
        namespace: None,
        tool: format!("v{}", env!("CARGO_PKG_VERSION")),
    };
    let Collected { mut index, tape } = ctx.collect(request).await?;
    let (reels, logs) = tape.into_reels();
    index.files = reels.iter().map(|(file, _)| file.clone()).collect();
    let size = target.fill(ctx, |out| capture::write(out, &index, reels, &logs))?;
    ctx.note(of(&index, size));
    Ok(if index.is_whole() { Exit::Done } else { Exit::Partly })
}

impl Args {
    fn path(&self) -> Result<PathBuf> {
        match &self.output {
            Some(OutputFormat::File(path)) => Ok(path.clone()),
            None | Some(OutputFormat::Table) => {
                let time = now().strftime("%Y%m%d-%H%M%S");
                Ok(PathBuf::from(format!("skyhook-{time}.tar.gz")))
            }
            Some(_) => Err(Error::usage(
                "with collect, -o specifies a file and must follow the command: collect -o FILE",
            )),
        }
    }
}

fn capture_file(text: &str) -> std::result::Result<OutputFormat, String> {
    if text.is_empty() {
        return Err("expected a file, or -".to_owned());
    }
    if text.parse::<OutputFormat>().is_ok() {
        return Err(format!(
            "{text} is an output format, but collect -o expects a file; to write to a file of this name: collect -o ./{text}"
        ));
    }
    Ok(OutputFormat::File(PathBuf::from(text)))
}

const MIB: f64 = (1u64 << 20) as f64;

pub fn of(index: &Index, size: u64) -> Text {
    let mut text = Text::new();
    let size = match size as f64 / MIB {
        small if small < 0.1 => format!("{} KiB", count(size.div_ceil(1024) as usize)),
        mib => format!("{mib:.1} MiB"),
    };
    text.paragraph(format!("Collected {}: {size}.", contents(index)));
    let logs = index.sources.iter().find(|s| s.name == "logs");
    if let Some(message) = logs.and_then(|logs| logs.message.as_ref()) {
        text.paragraph(format!("{message}."));
    }
    for (what, why) in missing(index) {
        text.item("- ", text::warning("missing: ") + format!("{what}: {why}"));
    }
    let whole = if index.is_whole() { "" } else { " Commands that read this file report what is missing." };
    text.paragraph(format!(
        "Recognized secrets are replaced by placeholders; review the file before you share \
         it.{whole}"
    ));
    text
}

fn contents(index: &Index) -> String {
    let number = |names: &[&str]| {
        let named = index.sources.iter().filter(|source| names.contains(&source.name.as_str()));
        named.filter_map(|source| source.items).sum::<usize>()
    };
    let parts = [
        plural(number(&["nodes"]), "node"),
        plural(number(&["skyhooks", "nodewrights"]), "custom resource"),
        plural(number(&["package-pods"]), "package pod"),
        plural(number(&["logs"]), "log"),
    ];
    parts.join(", ")
}

/// The missing sources with reasons; logs with equal reasons are combined.
fn missing(index: &Index) -> Vec<(String, String)> {
    let is_missing = |outcome: ReadOutcome| !outcome.is_whole();
    let sources = index.sources.iter().filter(|s| is_missing(s.outcome));
    let mut missing: Vec<(String, String)> =
        sources.map(|s| (s.name.replace('-', " "), s.message.clone().unwrap_or_default())).collect();
    let mut logs: BTreeMap<&str, usize> = BTreeMap::new();
    for log in index.logs.iter().filter(|log| is_missing(log.outcome)) {
        *logs.entry(log.message.as_deref().unwrap_or_default()).or_default() += 1;
    }
    missing.extend(logs.into_iter().map(|(why, n)| (plural(n, "log"), why.to_owned())));
    missing
}
