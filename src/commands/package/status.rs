use std::collections::{BTreeMap, BTreeSet, HashSet};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::args::listing::{RowFilter, Sorting};
use crate::args::nodes::OnNodes;
use crate::cluster::{Cluster, NodeFields, Phase, Source};
use crate::commands::shared::command::command;
use crate::commands::shared::grouped::{Expand, grouped};
use crate::commands::shared::rows::{PackageRow, PackageRows, READS, drift, phase_label};
use crate::commands::shared::scope;
use crate::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::view::text::{Label, Line, Text};
use crate::view::{Columns, ItemsAt, List, Table, View, count, node_names, plural, text};

/// Show the state of packages on each node
///
/// Lists what the operator has recorded on the nodes, and the packages of the spec that have not started
/// there. A package is complete once it has reached its last stage, not before. Without a PACKAGE, all
/// packages are listed; without --skyhook, those of all custom resources. States that cannot be read are
/// listed too. On a terminal, nodes with the same version and state share a row if the table would have
/// more than 50 rows.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook package status
  kubectl skyhook package status --versions
  kubectl skyhook package status --drift
  kubectl skyhook package status driver --skyhook gpu-tune -o wide
  kubectl skyhook package status driver --skyhook gpu-tune -l pool=gpu
  kubectl skyhook package status -o json | jq -r '.items[] | select(.state==\"erroring\") | .package'
  kubectl skyhook package status -o json | jq -r '.items[] | select(.inSpec) | \"\\(.node) \\(.package) \\(.version)\"'")]
pub struct Args {
    /// Show only this package
    package: Option<String>,

    /// Show only this custom resource; default: all
    #[arg(long, value_name = "NAME", alias = "nodewright", value_parser = crate::args::nodes::skyhook)]
    skyhook: Option<String>,
    #[command(flatten)]
    on: OnNodes,

    /// Show only nodes whose recorded version differs from the spec, or that never get the version in the spec
    #[arg(long)]
    drift: bool,

    /// Show the versions in use of each package, and the version in the spec
    ///
    /// One row per package, custom resource, recorded version and state, with its nodes. -o json and other data
    /// formats print the same rows as without this flag.
    #[arg(long)]
    versions: bool,
    #[command(flatten)]
    filter: RowFilter,
    #[command(flatten)]
    sorting: Sorting,
    #[command(flatten)]
    expand: Expand,
}

command! {
    "package status": Args => run,
    needs: READS,
    node_fields: NodeFields::Cordons,
    prints: { "PackageStatus": ItemsAt<PackageRow<'static>>, "PackageVersions": ItemsAt<VersionRow<'static>> },
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    let skyhook = args.skyhook.as_deref();
    let named = scope::named_nodes(args.on.query(), skyhook, args.package.as_deref());
    if !args.filter.cordoned {
        ctx.node_fields(NodeFields::Metadata);
    }
    let cluster = ctx.limit_to(named).load(&READS).await?;
    let mut status = view(&cluster, args)?;
    let placements = status.rows.placements();
    let folds = args.expand.folds(placements.len(), ctx.on_terminal());
    match (placements, &args.skyhook) {
        ([], _) if args.drift => {
            ctx.note("No selected record differs from the spec.");
        }
        ([], _) if !args.filter.is_empty() => ctx.note("No row matches."),
        ([], Some(skyhook)) => {
            ctx.note(format!("{skyhook} does not select these nodes and has no state on them."))
        }
        ([], None) => ctx.note("No custom resource selects these nodes or has state on them."),
        _ => ctx.note(status.summary()),
    }
    status.folded = folds && args.sorting.sort_by.is_none();
    scope::warn_unreadable(ctx, &cluster, &READS);
    ctx.show(&status)?;
    Ok(scope::exit_without(&cluster, &[Source::Nodes]))
}

fn view<'a>(cluster: &'a Cluster, args: &'a Args) -> Result<PackageStatus<'a>> {
    scope::readable(cluster, Source::Nodes)?;
    let package = args.package.as_deref();
    let mut nodes = scope::selected(cluster, args.on.query())?;
    nodes.retain(|node| !args.filter.cordoned || node.cordoned() == Some(true));
    let mut rows = match args.skyhook.as_deref() {
        Some(skyhook) => {
            scope::known_skyhook(cluster, skyhook)?;
            if let Some(package) = package {
                scope::known_package(cluster, skyhook, package)?;
            }
            PackageRows::of(cluster, &nodes, [skyhook], package)
        }
        None => {
            let rows = PackageRows::of(cluster, &nodes, names(cluster), package);
            if let Some(package) = package.filter(|_| rows.placements().is_empty()) {
                scope::known_anywhere(cluster, package)?;
            }
            rows
        }
    };
    if args.drift {
        rows.retain(|row| row.has_drifted() || row.malformed.is_some());
    }
    if !args.filter.is_empty() {
        rows.retain(|row| {
            args.filter.has_status(row.status()) && (!args.filter.failed_only || row.has_failed())
        });
    }
    rows.sort(&args.sorting)?;
    Ok(PackageStatus {
        rows,
        of_all: args.skyhook.is_none(),
        drift: args.drift,
        versions: args.versions,
        folded: false,
    })
}

/// The custom resources, including deleted ones with keys on nodes.
fn names(cluster: &Cluster) -> BTreeSet<&str> {
    cluster.skyhooks.iter().map(|s| s.name()).chain(cluster.names_on_nodes()).collect()
}

struct PackageStatus<'a> {
    rows: PackageRows<'a>,
    /// Whether rows have a column for the custom resource.
    of_all: bool,
    /// Whether rows have a column for the spec's version.
    drift: bool,
    /// Whether rows are versions instead of nodes.
    versions: bool,
    /// Whether nodes with equal cells share a row.
    folded: bool,
}

impl PackageStatus<'_> {
    /// The summary line: `2 packages on 3 nodes: 4 complete, 1 erroring, 1 not started`; older versions are counted apart.
    fn summary(&self) -> String {
        let placements = self.rows.placements();
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for placement in placements {
            *counts.entry(phase_label(placement.phase)).or_default() += 1;
        }
        let others = counts.remove(phase_label(Phase::NotInSpec));
        let counts: Vec<String> = counts.iter().map(|(what, n)| format!("{} {what}", count(*n))).collect();
        let others = others.map(|n| plural(n, "record") + " of versions that are not in the spec");
        let counts = (!counts.is_empty()).then(|| counts.join(", "));
        let packages: HashSet<&str> =
            placements.iter().map(|p| p.package).filter(|name| !name.is_empty()).collect();
        let nodes: HashSet<&str> = placements.iter().map(|p| &*p.node.name).collect();
        format!(
            "{} on {}: {}",
            plural(packages.len(), "package"),
            plural(nodes.len(), "node"),
            Vec::from_iter(counts.into_iter().chain(others)).join("; ")
        )
    }
}

impl View for PackageStatus<'_> {
    fn blocks(&self, wide: bool) -> Text {
        if self.versions {
            return self.by_version(wide).into();
        }
        let folded = self.folded && !wide;
        let columns = Columns::new()
            .with_if(!folded, "node", |row: &PackageRow<'_>| row.node.into())
            .with_if(self.of_all, "skyhook", |row| row.skyhook.into())
            .with("package", |row| row.package.into())
            .with("version", |row| row.version.into())
            .with_if(self.drift, "spec", |row| row.spec_version.into())
            .with("stage", |row| row.stage.into())
            .with("state", |row| state(row, !folded))
            .with_if(wide, "restarts", |row| row.restarts.into())
            .with_if(wide, "image", |row| row.image.into())
            .with_if(wide, "complete", |row| yes(row.complete))
            .with_if(wide, "in-spec", |row| yes(row.in_spec))
            .with_if(wide, "node-status", |row| node_status(row).into());
        if folded {
            let rows: Vec<PackageRow<'_>> = self.rows.iter().collect();
            return crate::commands::shared::grouped::table(&columns, &rows, |row| row.node).into();
        }
        columns.table(self.rows.iter()).into()
    }

    fn names(&self) -> Vec<String> {
        node_names(self.rows.placements().iter().map(|placement| placement.node.name.as_str()))
    }

    fn document(&self) -> Value {
        self.packages().document()
    }

    fn list(&self) -> Option<List<'_>> {
        Some(self.packages())
    }
}

impl PackageStatus<'_> {
    fn packages(&self) -> List<'_> {
        let list = if self.versions {
            List::new("PackageVersions", self.version_rows().into_iter())
        } else {
            List::new("PackageStatus", self.rows.iter())
        };
        list.at(self.rows.cluster.taken_at)
    }

    /// The rows of recorded versions, by package and custom resource.
    fn of_versions(&self) -> Vec<PackageRow<'_>> {
        let mut rows: Vec<PackageRow<'_>> =
            self.rows.iter().filter(|row| row.phase != Phase::Absent).collect();
        rows.sort_by_key(|row| (row.package, row.skyhook, row.version, !row.recorded));
        rows
    }

    fn version_rows(&self) -> Vec<VersionRow<'_>> {
        let rows = self.of_versions().into_iter().map(|row| {
            let version = Some(row.version).filter(|_| row.recorded);
            ((row.package, row.skyhook, version, row.spec_version, row.phase), row.node)
        });
        grouped(rows)
            .into_iter()
            .map(|((package, skyhook, version, spec_version, phase), nodes)| VersionRow {
                package,
                skyhook,
                version,
                spec_version,
                phase,
                nodes,
            })
            .collect()
    }

    /// The recorded versions with their nodes.
    fn by_version(&self, wide: bool) -> Table {
        let rows = self.of_versions();
        let columns = Columns::new()
            .with("package", |row: &PackageRow<'_>| row.package.into())
            .with("skyhook", |row| row.skyhook.into())
            .with("version", |row| match row.phase {
                Phase::Malformed => state(row, false),
                _ if !row.recorded => text::dim("none").into(),
                _ => row.version.into(),
            })
            .with("spec", |row| row.spec_version.into())
            .with("state", |row| phase_label(row.phase).into());
        crate::commands::shared::grouped::in_order(&columns, &rows, |row| row.node, wide)
    }
}

/// A version of a package, with the nodes that record it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct VersionRow<'a> {
    /// The package.
    package: &'a str,
    /// The custom resource.
    skyhook: &'a str,
    /// The recorded version; null without a record.
    version: Option<&'a str>,
    /// The version in the spec; null if the spec does not contain the package or could not be read.
    spec_version: Option<&'a str>,
    /// The phase of the package.
    phase: Phase,
    /// The nodes.
    nodes: Vec<&'a str>,
}

/// The recorded state, or why there is none.
fn state(row: &PackageRow<'_>, times: bool) -> Line {
    match row.phase {
        Phase::Malformed | Phase::NeverInstalled => text::error(phase_label(row.phase)).into(),
        Phase::NotStarted | Phase::Absent => text::dim(phase_label(row.phase)).into(),
        Phase::Complete => text::good(row.state).into(),
        Phase::Failing | Phase::UninstallFailing => text::error(row.state).into(),
        Phase::NotInSpec => {
            Label::Plain.span(row.state) + text::dim(format!(" ({})", drift(row.spec_version)))
        }
        Phase::Running | Phase::Uninstalling | Phase::Uninstalled => {
            let since = row.since.as_ref().filter(|_| times).map(|since| format!(" ({})", since.age));
            Label::Plain.span(row.state) + text::dim(since.unwrap_or_default())
        }
    }
}

fn node_status(row: &PackageRow<'_>) -> String {
    match (row.ignored, row.selected) {
        (true, _) => format!("{} (ignored)", row.node_status),
        (false, false) => format!("{} (not selected)", row.node_status),
        (false, true) => row.node_status.clone(),
    }
}

fn yes(yes: Option<bool>) -> Line {
    yes.map(|yes| if yes { "yes" } else { "no" }).into()
}
