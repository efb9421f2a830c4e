//! `report`: the state of a cluster as one HTML page.

mod fleet;
mod rollouts;

use std::collections::BTreeMap;
use std::path::PathBuf;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use fleet::Fleet;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use ring::digest::{SHA256, digest};

use super::shared::command::command;
use super::shared::diagnosis::Diagnosis;
use super::shared::diagnosis::group::{Detail, FindingGroup};
use super::shared::mutes::Target;
use super::shared::status::StatusReport;
use crate::cluster::{Cluster, Source};
use crate::commands::shared::rows::cordon_holders;
use crate::ctx::{Ctx, now};
use crate::error::{Error, Exit, Result};
use crate::rules::{self, Scope, Severity};
use crate::view::text::{Label, Line, Text};
use crate::view::{NodeSet, OutputFormat, Table, cells, count, plural, sanitize};

/// Write the state of the cluster as one HTML page, for a ticket or a meeting
///
/// The page has the verdict, each cause with evidence and remedies as in `diagnose stuck --all`, a map of all
/// nodes, the progress of each rollout with its history and estimate, package versions, and who holds which
/// cordon. What could not be read is listed below the verdict.
///
/// The file needs no network and no server: it opens from disk, follows the light or dark setting of the
/// browser, and prints. Its content security policy allows only its own style and search script, so names and
/// logs remain text.
///
/// Secrets in logs are masked as in `diagnose stuck`; names, images and messages stay: look through the page
/// before you send it. The file is written completely or not at all, with mode 0600, and its path is printed.
/// Exits with 0 if the page was written, even if it reports problems, and with 1 if the custom resources or
/// nodes could not be read.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook report
  kubectl skyhook report --from ticket-4711.tar.gz --output-file ticket-4711.html
  kubectl skyhook report --title 'Rollout of driver 550' --output-file - > report.html")]
pub struct Args {
    /// The file to write, or - for standard output; by default skyhook-report-TIME.html
    ///
    /// With --contexts, the name of the context is added to the name of the file.
    #[arg(long, value_name = "FILE")]
    output_file: Option<PathBuf>,

    /// Overwrite the file if it exists
    #[arg(long)]
    force: bool,

    /// The heading of the page
    #[arg(long, value_name = "TEXT", default_value = "Node rollout report")]
    title: String,

    /// Do not read or show the last log lines of failing containers
    #[arg(long)]
    no_logs: bool,
}

command! {
    "report": Args => run,
    needs: Scope::default().needs(),
    gets: &[("", "pods/log")],
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    if ctx.global().output.format != OutputFormat::Table {
        return Err(Error::usage("report writes HTML; -o is not supported")
            .hint("use --output-file FILE to choose the file")
            .hint("kubectl skyhook status -o json"));
    }
    let target = Target::of(ctx, args.path(), Some(args.force), "--output-file")?;
    let needs = Scope::default().needs();
    let cluster = ctx.load(&needs).await?;
    let report = rules::diagnose(&cluster, &Scope::default());
    let mut diagnosis = Diagnosis::new(&cluster, report.clone());
    if !args.no_logs {
        let logs = diagnosis.logs();
        let tails = ctx.tails(&cluster, &logs, crate::cluster::attempts::LINES).await;
        diagnosis = diagnosis.with_logs(tails);
    }
    let page = Page {
        title: &args.title,
        cluster: &cluster,
        needs: &needs,
        diagnosis: &diagnosis,
        status: &StatusReport::new(&cluster, report, &[]),
    };
    let html = page.html();
    target.fill(ctx, |out| out.write_all(html.as_bytes()).map(|()| html.len() as u64))?;
    Ok(super::shared::scope::exit_without(&cluster, &Source::ESSENTIAL))
}

impl Args {
    fn path(&self) -> PathBuf {
        self.output_file.clone().unwrap_or_else(|| {
            let time = now().strftime("%Y%m%d-%H%M%S");
            PathBuf::from(format!("skyhook-report-{time}.html"))
        })
    }
}

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Maximum number of causes without a table of contents, and of notes that are not folded.
const FEW: usize = 3;

pub struct Page<'c, 'a> {
    pub title: &'c str,
    pub cluster: &'a Cluster,
    pub needs: &'c [Source],
    pub diagnosis: &'c Diagnosis<'a>,
    pub status: &'c StatusReport<'a>,
}

impl Page<'_, '_> {
    pub fn html(&self) -> String {
        let title = sanitize(self.title);
        let sections = self.sections();
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta http-equiv="Content-Security-Policy" content=(policy());
                    meta name="viewport" content="width=device-width,initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    meta name="referrer" content="no-referrer";
                    title { (title) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    a.skip href="#main" { "Skip to content" }
                    header {
                        h1 { (title) }
                        p {
                            "State of " time datetime=(self.cluster.taken_at) { (self.cluster.taken_at.strftime("%Y-%m-%d %H:%M:%S UTC")) }
                            ". " (self.status.document.operator.line().html()) "."
                        }
                        nav aria-label="Sections" {
                            @for (id, name, _) in &sections { a href=(format!("#{id}")) { (name) } " " }
                        }
                    }
                    main #main {
                        (self.verdict())
                        (self.not_read())
                        @for (id, name, content) in &sections {
                            section id=(id) aria-labelledby=(format!("{id}-title")) {
                                h2 id=(format!("{id}-title")) { (name) }
                                (content)
                            }
                        }
                    }
                    footer {
                        p { (self.diagnosis.checked()) " Written by kubectl-skyhook " (env!("CARGO_PKG_VERSION")) "." }
                    }
                    script { (PreEscaped(SCRIPT)) }
                }
            }
        };
        page.into_string()
    }

    fn sections(&self) -> [(&'static str, &'static str, Markup); 5] {
        [
            ("fleet", "Fleet", Fleet::of(self.status).html()),
            ("rollouts", "Rollouts", rollouts::html(self.status)),
            ("diagnosis", "Diagnosis", self.diagnosis()),
            ("packages", "Packages", or_none(&rollouts::packages(self.status), "No packages.")),
            ("cordons", "Cordons", or_none(&table(self.cluster), "No node is cordoned.")),
        ]
    }

    /// Sources, rules and logs that are missing from the page.
    fn not_read(&self) -> Markup {
        let missing = |source: &Source| Some((*source, self.cluster.missing(*source)?));
        let sources: Vec<(Source, String)> = self.needs.iter().filter_map(missing).collect();
        let (rules, logs) = (self.diagnosis.not_checked(false), self.diagnosis.logs_not_read());
        let mut missing: Vec<String> =
            sources.iter().map(|(source, _)| format!("cannot read {source}")).collect();
        let summary = |text: &Text| text.plain().lines().next().map(str::to_owned);
        missing.extend(rules.as_ref().and_then(summary));
        missing.extend(logs.iter().map(Line::plain));
        html! {
            @if !missing.is_empty() {
                aside.missing aria-label="What could not be read" {
                    details open[!sources.is_empty()] {
                        summary { b { "This page is incomplete: " } (missing.join("; ")) }
                        @for (source, why) in &sources {
                            p { "Cannot read " (source) ": " (sanitize(why)) }
                        }
                        @if let Some(rules) = &rules { (rules.html()) }
                        @if let Some(logs) = &logs { p { (logs.html()) } }
                    }
                }
            }
        }
    }

    fn verdict(&self) -> Markup {
        let verdict = self.diagnosis.verdict();
        html! { p class=(format!("verdict {}", label(&verdict))) { (verdict.html()) } }
    }

    /// All causes in full, with a table of contents if there are many; notes are folded.
    fn diagnosis(&self) -> Markup {
        let groups = self.diagnosis.causes();
        let (causes, notes): (Vec<_>, Vec<_>) = groups
            .iter()
            .enumerate()
            .map(|(at, group)| (at + 1, group))
            .partition(|(_, group)| group.severity > Severity::Info);
        html! {
            @if causes.is_empty() && notes.is_empty() {
                p {
                    @if self.diagnosis.not_checked(false).is_none() { "No findings." }
                    @else { "The rules that could run found nothing." }
                }
            }
            @if causes.len() > FEW {
                ol {
                    @for (number, cause) in &causes {
                        li { a href=(format!("#cause-{number}")) { (cause.title(self.cluster, false).html()) } }
                    }
                }
            }
            @for (number, cause) in &causes { (self.cause(*number, cause)) }
            @if !notes.is_empty() {
                details open[causes.is_empty() && notes.len() <= FEW] {
                    summary { (plural(notes.len(), "note")) }
                    @for (number, note) in &notes { (self.cause(*number, note)) }
                }
            }
            (self.diagnosis.muted().html())
        }
    }

    fn cause(&self, number: usize, cause: &FindingGroup) -> Markup {
        html! {
            article.cause id=(format!("cause-{number}")) {
                h3 { span.dim { (number) ". " } (cause.title(self.cluster, false).html()) }
                (cause.body(&self.diagnosis.grades, false, Detail::Full).html())
            }
        }
    }
}

/// The content security policy: only the page's own style and script are allowed.
fn policy() -> String {
    let hash = |text: &str| {
        let hash = BASE64_STANDARD.encode(digest(&SHA256, text.as_bytes()));
        format!("'sha256-{hash}'")
    };
    format!(
        "default-src 'none'; style-src {}; script-src {}; base-uri 'none'; form-action 'none'",
        hash(STYLE),
        hash(SCRIPT)
    )
}

fn label(line: &Line) -> String {
    let first = line.spans.first().map_or(Label::Plain, |span| span.label);
    format!("{first:?}").to_lowercase()
}

fn or_none(table: &Table, none: &str) -> Markup {
    html! {
        (table.html())
        @if table.is_empty() { p { (none) } }
    }
}

/// Maximum number of node-name ranges in a row.
const RUNS: usize = 20;

/// A table with one row per holder. A node with several holders is in several rows.
pub fn table(cluster: &Cluster) -> Table {
    let mut by_holder: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for node in &cluster.nodes {
        let mark =
            if node.cordoned() == Some(true) { "" } else { " (recorded, but the node is not cordoned)" };
        for holder in cordon_holders(cluster, node) {
            by_holder.entry(holder + mark).or_default().push(&node.name);
        }
    }
    let mut table = Table::new(["held by", "count", "nodes"]);
    for (holder, nodes) in by_holder {
        table.row(cells![holder, count(nodes.len()), NodeSet::of(&nodes).limited(RUNS)]);
    }
    table
}
