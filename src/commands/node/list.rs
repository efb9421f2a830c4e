use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::row::{self, NEEDS, NodeRow, Rows};
use crate::args::listing::{Labels, RowFilter, Sorting};
use crate::args::nodes::{AnyNodes, OnlySkyhook};
use crate::cluster::{Cluster, NodeFields, Source};
use crate::commands::shared::command::command;
use crate::commands::shared::grouped::Expand;
use crate::commands::shared::{grouped, scope};
use crate::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::view::text::Text;
use crate::view::{Columns, Joined, View, count, document, plural, to_json};

/// List the nodes of a custom resource
///
/// Lists all nodes that the custom resource selects, started or not, and all that still have its annotations
/// or labels.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook node list --skyhook gpu-tune
  kubectl skyhook node list --skyhook gpu-tune --sort-by .status
  kubectl skyhook node list --skyhook gpu-tune -o json")]
pub struct Args {
    #[command(flatten)]
    on: AnyNodes,

    #[command(flatten)]
    of: OnlySkyhook,
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
    let named = scope::named_nodes(args.on.query(), args.of.skyhook.as_deref(), None);
    // Documents do not contain cordons, so metadata suffices.
    if ctx.global().output.format.is_data() && !args.filter.cordoned {
        ctx.node_fields(NodeFields::Metadata);
    }
    let cluster = ctx.limit_to(named).load(&NEEDS).await?;
    let mut list = view(&cluster, args)?;
    let folds = args.expand.folds(list.rows.len(), ctx.on_terminal());
    list.folded = folds && !args.labels.show_labels && args.sorting.sort_by.is_none();
    match list.rows.as_slice() {
        [] if !args.filter.is_empty() => ctx.note("No row matches."),
        [] if !args.on.query().is_empty() => ctx.note(super::status::not_on_nodes(&list.skyhook)),
        [] => ctx.note(format!("{} selects no nodes and has no state on any node.", list.skyhook)),
        _ => ctx.note(list.summary()),
    }
    scope::warn_unreadable(ctx, &cluster, &NEEDS);
    ctx.show(&list)?;
    Ok(scope::exit_without(&cluster, &[Source::Nodes]))
}

fn view(cluster: &Cluster, args: &Args) -> Result<NodeList> {
    scope::readable(cluster, Source::Nodes)?;
    let skyhook = match &args.of.skyhook {
        Some(name) => name.clone(),
        None => scope::only_skyhook(cluster, |_| true)?,
    };
    scope::known_skyhook(cluster, &skyhook)?;
    let nodes = scope::selected(cluster, args.on.query())?;
    let labels = args.labels.show_labels;
    let mut rows = Rows::of(cluster, &nodes, Some(&skyhook), labels);
    rows.filter(&args.filter);
    rows.sort(&args.sorting, |row| to_json(&ListedNode::of(row)))?;
    Ok(NodeList { skyhook, rows: rows.iter().collect(), labels, folded: false })
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
    /// The custom resource.
    skyhook: &'a str,
    /// The nodes that the custom resource selects, or that still have its annotations or labels.
    items: Vec<ListedNode<'a>>,
}

/// The state of a custom resource on a node.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ListedNode<'a> {
    /// The node.
    node: &'a str,
    /// The operator's status of the node; `unknown` if it has not set one yet.
    status: &'a str,
    /// Number of packages of the spec that are done: at their last stage, or absent if they are to be
    /// uninstalled.
    packages_complete: usize,
    /// Number of packages of the spec; for a custom resource that no longer exists, of the recorded packages.
    packages_total: usize,
    /// Number of failed attempts of all packages.
    restarts: i64,
    /// Whether the custom resource selects the node; null if the custom resource could not be read.
    selected: Option<bool>,
    /// Whether the node carries the ignore label.
    ignored: bool,
    /// Why the node state cannot be read; null if it can.
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
    /// The summary line: `3 nodes: 1 complete, 1 erroring, 1 waiting`.
    fn summary(&self) -> String {
        let mut counts = std::collections::BTreeMap::new();
        for row in &self.rows {
            let status = if row.malformed.is_some() { "malformed" } else { &row.status };
            *counts.entry(status).or_insert(0) += 1;
        }
        let counts = counts.iter().map(|(status, n)| format!("{} {status}", count(*n))).joined(", ");
        format!("{}: {counts}", plural(self.rows.len(), "node"))
    }
}

impl View for NodeList {
    fn blocks(&self, wide: bool) -> Text {
        let folded = self.folded && !wide;
        let columns = Columns::new()
            .with_if(!folded, "node", |row: &&NodeRow| row.node.as_str().into())
            .with("status", |row| row::status_text(row))
            .with("packages", |row| row::package_count(row).into())
            .with_if(wide, "restarts", |row| row.restarts().into())
            .with_if(folded, "cordoned", |row| row::cordoned(row).into())
            .with_if(!folded, "note", |row| row.message.as_str().into())
            .with_if(self.labels, "labels", |row| row.labels.as_str().into());
        if folded {
            let rows: Vec<&NodeRow> = self.rows.iter().collect();
            let title = |row: &&NodeRow| row.status.clone();
            return grouped::with_notes(&columns, &rows, |row| &row.node, title, |row| &row.message);
        }
        let table = columns.table(&self.rows);
        if self.labels { table.into() } else { table.wrap_last().into() }
    }

    fn names(&self) -> Vec<String> {
        self.rows.iter().map(|r| format!("node/{}", r.node)).collect()
    }

    fn document(&self) -> Value {
        let items = self.rows.iter().map(ListedNode::of).collect();
        document("NodeList", &Document { skyhook: &self.skyhook, items })
    }
}
