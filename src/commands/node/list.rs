use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::row::{self, NEEDS, NodeRow, Rows};
use crate::args::listing::{Labels, RowFilter, Sorting};
use crate::args::nodes::AnyNodes;
use crate::args::selection::OfSkyhook;
use crate::cluster::{Cluster, NodeFields, Source};
use crate::commands::shared::command::command;
use crate::commands::shared::folded::{self, Expand};
use crate::commands::shared::{nodes, scope, selection};
use crate::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::view::text::Text;
use crate::view::{Table, View, cells, count, document, plural, to_json};

/// List the nodes of a custom resource
///
/// Lists all nodes that the custom resource selects, started or not, and all that still have its annotations or labels.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook node list --skyhook gpu-tune
  kubectl skyhook node list --skyhook gpu-tune --sort-by .status
  kubectl skyhook node list --skyhook gpu-tune -o json")]
pub struct Args {
    #[command(flatten)]
    on: AnyNodes,

    #[command(flatten)]
    of: OfSkyhook,
    #[command(flatten)]
    filter: RowFilter,
    #[command(flatten)]
    sorting: Sorting,
    #[command(flatten)]
    labels: Labels,
    #[command(flatten)]
    expand: Expand,
}

command! {
    "node list": Args => run,
    needs: NEEDS,
    node_fields: NodeFields::Cordons,
    prints: { "NodeList": Document<'static> },
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    let named = nodes::named_nodes(args.on.query(), Some(&args.of.skyhook), None);
    // Documents do not contain cordons, so metadata suffices.
    if ctx.global().output.format.is_data() && !args.filter.cordoned {
        ctx.node_fields(NodeFields::Metadata);
    }
    let cluster = ctx.limit_to(named).load(&NEEDS).await?;
    let mut list = view(&cluster, args)?;
    let folds = args.expand.folds(list.rows.len(), ctx.on_terminal());
    list.folded = folds && !args.labels.show_labels && args.sorting.sort_by.is_none();
    match list.rows.as_slice() {
        [] if !args.on.query().is_empty() || !args.filter.is_empty() => ctx.note("No row matches."),
        [] => ctx.note(format!("{} selects no nodes and has no state on any node.", args.of.skyhook)),
        _ => ctx.note(list.summary()),
    }
    scope::say_what_is_missing(ctx, &cluster, &NEEDS);
    ctx.show(&list)?;
    Ok(selection::exit_without(&cluster, &[Source::Nodes]))
}

fn view(cluster: &Cluster, args: &Args) -> Result<NodeList> {
    selection::readable(cluster, Source::Nodes)?;
    selection::known_skyhook(cluster, &args.of.skyhook)?;
    let nodes = nodes::selected(cluster, args.on.query())?;
    let labels = args.labels.show_labels;
    let mut rows = Rows::of(cluster, &nodes, Some(&args.of.skyhook), labels);
    rows.filter(&args.filter);
    rows.sort(&args.sorting, |row| to_json(&ListedNode::of(row)))?;
    Ok(NodeList { skyhook: args.of.skyhook.clone(), rows: rows.iter().collect(), labels, folded: false })
}

struct NodeList {
    skyhook: String,
    rows: Vec<NodeRow>,
    labels: bool,
    /// Whether nodes with equal cells share a row.
    folded: bool,
}

/// The nodes of a custom resource.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Document<'a> {
    skyhook: &'a str,
    items: Vec<ListedNode<'a>>,
}

/// The record of a custom resource on a node.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ListedNode<'a> {
    node: &'a str,
    /// The operator's status of the node; `unknown` if there is none yet.
    status: &'a str,
    /// Packages of the spec that are done: at their last stage, or absent if they are to be uninstalled.
    packages_complete: usize,
    packages_total: usize,
    /// Failed attempts of all packages.
    restarts: i64,
    /// Whether the custom resource selects the node; null where it could not be read.
    selected: Option<bool>,
    /// Whether the node carries the ignore label.
    ignored: bool,
    /// Why the node state cannot be read; null where it can.
    malformed: Option<&'a str>,
}

impl ListedNode<'_> {
    fn of(row: &NodeRow) -> ListedNode<'_> {
        ListedNode {
            node: &row.node,
            status: &row.status,
            packages_complete: row.packages_complete,
            packages_total: row.packages_total,
            restarts: row.restarts(),
            selected: row.selected,
            ignored: row.ignored,
            malformed: row.malformed.as_deref(),
        }
    }
}

impl NodeList {
    /// `3 nodes: 1 complete, 1 erroring, 1 waiting`
    fn summary(&self) -> String {
        let mut counts = std::collections::BTreeMap::new();
        for row in &self.rows {
            let status = if row.malformed.is_some() { "malformed" } else { &row.status };
            *counts.entry(status).or_insert(0) += 1;
        }
        let counts: Vec<String> =
            counts.iter().map(|(status, n)| format!("{} {status}", count(*n))).collect();
        format!("{}: {}", plural(self.rows.len(), "node"), counts.join(", "))
    }
}

impl View for NodeList {
    fn blocks(&self, wide: bool) -> Text {
        if self.folded && !wide {
            let rows = self.rows.iter().map(|row| {
                let cells =
                    cells![row::status_text(row), row::package_count(row), row::cordoned(row), row.note(),];
                (Vec::from(cells), row.node.as_str())
            });
            return folded::table(["status", "packages", "cordoned", "note"], rows).into();
        }
        let mut columns = vec!["node", "status", "packages"];
        columns.extend(wide.then_some("restarts"));
        columns.push("note");
        columns.extend(self.labels.then_some("labels"));
        let mut table = if self.labels { Table::new(columns) } else { Table::new(columns).wrap_last() };
        for row in &self.rows {
            let mut cells =
                cells![row.node.as_str(), row::status_text(row), row::package_count(row)].to_vec();
            cells.extend(wide.then(|| row.restarts().into()));
            cells.push(row.note().into());
            cells.extend(self.labels.then(|| row.labels.as_str().into()));
            table.row(cells);
        }
        table.into()
    }

    fn names(&self) -> Vec<String> {
        self.rows.iter().map(|r| format!("node/{}", r.node)).collect()
    }

    fn document(&self) -> Value {
        let items = self.rows.iter().map(ListedNode::of).collect();
        document("NodeList", &Document { skyhook: &self.skyhook, items })
    }
}
