use std::collections::BTreeMap;

use serde_json::Value;

use crate::args::listing::Sorting;
use crate::args::nodes::OnNodes;
use crate::args::selection::OfSkyhook;
use crate::cluster::{Cluster, Phase, Source};
use crate::commands::shared::command::command;
use crate::commands::shared::package_row::{PackageRow, READS, rows, words};
use crate::commands::shared::{nodes, scope, selection};
use crate::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::view::text::{self, Label, Line, Text};
use crate::view::{Table, View, cells, count, node_names, plural, to_json};

/// Show the state of packages on each node
///
/// Lists what the operator has recorded on the nodes, and the packages of the spec that have not started there. A
/// package is complete once it has reached its last stage, not before. Without a PACKAGE, all packages are listed.
/// States that cannot be read are listed too.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook package status --skyhook gpu-tune
  kubectl skyhook package status driver --skyhook gpu-tune -o wide
  kubectl skyhook package status driver --skyhook gpu-tune -l pool=gpu -o json")]
pub struct Args {
    /// Show only this package
    package: Option<String>,
    #[command(flatten)]
    of: OfSkyhook,
    #[command(flatten)]
    on: OnNodes,
    #[command(flatten)]
    sorting: Sorting,
}

command! {
    "package status": Args => run,
    needs: READS,
    prints: { "PackageStatus": Vec<PackageRow> },
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    let skyhook = Some(args.of.skyhook.as_str());
    let only = nodes::only(args.on.query(), skyhook, args.package.as_deref());
    let cluster = ctx.only(only).load(&READS).await?;
    let status = view(&cluster, args)?;
    match status.rows.as_slice() {
        [] => ctx.note(format!(
            "{} does not select these nodes and has no state on them.",
            args.of.skyhook
        )),
        _ => ctx.note(status.summary()),
    }
    scope::say_what_is_missing(ctx, &cluster, &READS);
    ctx.show(&status)?;
    Ok(selection::exit_without(&cluster, &[Source::Nodes]))
}

fn view(cluster: &Cluster, args: &Args) -> Result<PackageStatus> {
    let skyhook = args.of.skyhook.as_str();
    selection::readable(cluster, Source::Nodes)?;
    selection::known_skyhook(cluster, skyhook)?;
    if let Some(package) = &args.package {
        scope::known_package(cluster, skyhook, package)?;
    }
    let nodes = nodes::selected(cluster, args.on.query())?;
    let mut rows = rows(cluster, &nodes, skyhook, args.package.as_deref());
    args.sorting.sort(&mut rows, to_json)?;
    Ok(PackageStatus { rows })
}

struct PackageStatus {
    rows: Vec<PackageRow>,
}

impl PackageStatus {
    /// `2 packages on 3 nodes: 4 complete, 1 erroring, 1 not started`
    fn summary(&self) -> String {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for row in &self.rows {
            *counts.entry(words(row.phase)).or_default() += 1;
        }
        let counts: Vec<String> = counts
            .iter()
            .map(|(what, n)| format!("{} {what}", count(*n)))
            .collect();
        let different = |name: fn(&PackageRow) -> &str| {
            let mut names: Vec<&str> = self
                .rows
                .iter()
                .map(name)
                .filter(|n| !n.is_empty())
                .collect();
            names.sort_unstable();
            names.dedup();
            names.len()
        };
        format!(
            "{} on {}: {}",
            plural(different(|r| &r.name), "package"),
            plural(different(|r| &r.node_name), "node"),
            counts.join(", ")
        )
    }
}

impl View for PackageStatus {
    fn blocks(&self, wide: bool) -> Text {
        let narrow = ["node", "package", "version", "stage", "state"];
        let more = ["restarts", "image", "complete", "in-spec", "node-status"];
        let mut table = Table::new(narrow.iter().chain(more.iter().filter(|_| wide)));
        for row in &self.rows {
            let start = cells![
                row.node_name.as_str(),
                row.name.as_str(),
                row.version.as_str(),
                row.stage.as_str(),
                state(row),
            ];
            let end = cells![
                row.restarts,
                row.image.as_str(),
                yes(row.complete),
                yes(row.in_spec),
                node_status(row),
            ];
            table.row(start.into_iter().chain(end.into_iter().filter(|_| wide)));
        }
        table.into()
    }

    fn names(&self) -> Vec<String> {
        node_names(self.rows.iter().map(|row| row.node_name.as_str()))
    }

    fn document(&self) -> Value {
        to_json(&self.rows)
    }

    fn items(&self) -> Option<Box<dyn Iterator<Item = Value> + '_>> {
        Some(Box::new(self.rows.iter().map(to_json)))
    }
}

/// The recorded state, or why there is none.
fn state(row: &PackageRow) -> Line {
    match row.phase {
        Phase::Malformed | Phase::NeverInstalled => text::error(words(row.phase)).into(),
        Phase::NotStarted | Phase::Absent => text::dim(words(row.phase)).into(),
        Phase::Complete => text::good(&row.state).into(),
        Phase::Failing | Phase::UninstallFailing => text::error(&row.state).into(),
        Phase::NotInSpec => {
            Label::Plain.on(&row.state) + text::dim(format!(" ({})", words(row.phase)))
        }
        Phase::Running | Phase::Uninstalling | Phase::Uninstalled => {
            let since = match row.runs_for.as_str() {
                "" => String::new(),
                time => format!(" ({time})"),
            };
            Label::Plain.on(&row.state) + text::dim(since)
        }
    }
}

fn node_status(row: &PackageRow) -> String {
    match (row.ignored, row.selected) {
        (true, _) => format!("{} (ignored)", row.node_status),
        (false, false) => format!("{} (not selected)", row.node_status),
        (false, true) => row.node_status.clone(),
    }
}

fn yes(yes: Option<bool>) -> Line {
    yes.map(|yes| if yes { "yes" } else { "no" }).into()
}
