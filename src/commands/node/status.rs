use serde_json::Value;

use super::row::{self, NodeRow, PackageRow, Rows};
use crate::api::State;
use crate::args::listing::{Labels, RowFilter, Sorting};
use crate::args::nodes::AnyNodes;
use crate::cluster::{Cluster, NamedNodes, Source};
use crate::commands::shared::command::command;
use crate::commands::shared::grouped::Expand;
use crate::commands::shared::rows::READS;
use crate::commands::shared::{grouped, scope};
use crate::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::outlook::Outlook;
use crate::rules::{self, Scope};
use crate::view::text::Text;
use crate::view::{Columns, ItemsAt, Joined, List, NodeSet, OutputFormat, View, count, node_names, to_json};

/// Show the status of each custom resource on each node
///
/// The status is the operator's status of the node. A package counts as complete once it has reached its last
/// stage. Selected nodes that have not started and states that cannot be read are listed, too. On a terminal,
/// nodes with the same status share a row if the table would have more than 50 rows.
///
/// With -o wide, there are also the stages that are not complete, the owners of the cordon and the custom
/// resources that keep the runtime-required taint. `package status` has one row per package.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook node status
  kubectl skyhook node status gpu-0001 'gpu-01*' --skyhook gpu-tune
  kubectl skyhook node status --failed-only -l pool=gpu
  kubectl skyhook node status -o wide
  kubectl skyhook node status --failed-only -o json | jq -r '.items[].node'
  kubectl skyhook node status -o json | jq -r '.items[] | select(.cordoned) | [.node, .cordonedBy[], .cordonedByOthers[].name] | @tsv'")]
pub struct Args {
    #[command(flatten)]
    on: AnyNodes,

    /// Show only this custom resource
    #[arg(long, value_name = "NAME", alias = "nodewright", value_parser = crate::args::nodes::skyhook)]
    skyhook: Option<String>,
    #[command(flatten)]
    filter: RowFilter,
    #[command(flatten)]
    sorting: Sorting,
    #[command(flatten)]
    labels: Labels,
    #[command(flatten)]
    expand: Expand,
}

/// Maximum number of node-name ranges in a note.
const SHOWN: usize = 6;

command! {
    "node status": Args => run,
    needs: Scope::default().needs(),
    prints: { "NodeStatus": ItemsAt<NodeRow> },
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    let named = scope::named_nodes(args.on.query(), None, None);
    // Only all nodes show whether a custom resource of this name has left state.
    let named = named.filter(|_| args.only_skyhook().is_none());
    let named = named.map(|named| NamedNodes { explained: true, ..named });
    let cluster = ctx.limit_to(named).load(&Scope::default().needs()).await?;
    let mut status = view(&cluster, args)?;
    let folds = args.expand.folds(status.rows.pairs.len(), ctx.on_terminal());
    status.folded = folds && !args.labels.show_labels && args.sorting.sort_by.is_none();
    if status.rows.pairs.is_empty() {
        ctx.note(match (status.nodes, args.filter.is_empty(), args.only_skyhook()) {
            (0, ..) => "No node matches.".to_owned(),
            (_, true, None) => "No custom resource selects these nodes or has state on them.".to_owned(),
            (_, true, Some(name)) => not_on_nodes(name),
            (_, false, _) if !args.filter.failed_only => "No row matches.".to_owned(),
            (_, false, _) => {
                "No row matches. Nodes can be blocked without failing: see `kubectl skyhook diagnose`."
                    .to_owned()
            }
        });
    }
    scope::warn_unreadable(ctx, &cluster, &READS);
    for source in Scope::default().needs().into_iter().filter(|source| !READS.contains(source)) {
        if let Some(why) = cluster.source(source).unread() {
            ctx.warn(format!("cannot read {source}: {why}; reasons may be missing"));
        }
    }
    ctx.show(&status)?;
    let table = ctx.global().output.format == OutputFormat::Table;
    if table && args.on.query().is_empty() && args.only_skyhook().is_none() && args.filter.is_empty() {
        for note in selection_notes(&cluster) {
            ctx.note(note);
        }
    }
    Ok(scope::exit_without(&cluster, &[Source::Nodes]))
}

/// That a custom resource neither selects the nodes nor has state on them.
pub fn not_on_nodes(name: &str) -> String {
    format!(
        "{name} does not select these nodes and has no state on them; `kubectl skyhook diagnose node NODE` shows why."
    )
}

/// The nodes that no custom resource selects, and those that several select.
fn selection_notes(cluster: &Cluster) -> Vec<String> {
    if cluster.skyhooks.ok().is_none() {
        return Vec::new();
    }
    let with = |wanted: fn(usize) -> bool| {
        let nodes = cluster.nodes.iter();
        NodeSet::of(nodes.filter(|node| wanted(cluster.selecting(node).count())).map(|node| &*node.name))
    };
    let sets = [("no custom resource", with(|n| n == 0)), ("several custom resources", with(|n| n > 1))];
    let all = cluster.nodes.items().len();
    sets.iter()
        .filter(|(_, nodes)| !nodes.is_empty() && nodes.len() < all)
        .map(|(by, nodes)| format!("selected by {by}: {} ({})", nodes.limited(SHOWN), count(nodes.len())))
        .collect()
}

impl Args {
    fn only_skyhook(&self) -> Option<&str> {
        self.skyhook.as_deref().filter(|name| !name.is_empty())
    }
}

fn view<'a>(cluster: &'a Cluster, args: &Args) -> Result<NodeStatus<'a>> {
    scope::readable(cluster, Source::Nodes)?;
    let only = args.only_skyhook();
    if let Some(name) = only {
        scope::known_skyhook(cluster, name)?;
    }
    let labels = args.labels.show_labels;
    let nodes = scope::selected(cluster, args.on.query())?;
    let mut rows = Rows::of(cluster, &nodes, only, labels);
    rows.filter(&args.filter);
    rows.explain(&Outlook::new(cluster, rules::diagnose(cluster, &Scope::default()).findings));
    rows.sort(&args.sorting, to_json)?;
    Ok(NodeStatus { rows, labels, nodes: nodes.len(), folded: false })
}

struct NodeStatus<'a> {
    rows: Rows<'a>,
    labels: bool,
    /// Number of nodes that the arguments name or select.
    nodes: usize,
    /// Whether nodes with equal cells share a row.
    folded: bool,
}

impl View for NodeStatus<'_> {
    fn blocks(&self, wide: bool) -> Text {
        let columns = Columns::new()
            .with_if(!self.folded, "node", |row: &NodeRow| row.node.as_str().into())
            .with("skyhook", |row| row.skyhook.as_str().into())
            .with("status", row::status_text)
            .with("packages", |row| row::package_count(row).into())
            .with_if(wide, "stages", |row| stages(row).into())
            .with_if(wide, "restarts", |row| count(row.restarts()).into())
            .with("cordoned", |row| if wide { cordon(row).into() } else { row::cordoned(row).into() })
            .with_if(wide, "runtime-required", |row| taint(row).into())
            .with_if(!self.folded, "note", |row| row.message.as_str().into())
            .with_if(self.labels, "labels", |row| row.labels.as_str().into());
        if self.folded {
            let rows: Vec<NodeRow> = self.rows.iter().collect();
            let title = |row: &NodeRow| format!("{} {}", row.skyhook, row.status);
            return grouped::with_notes(&columns, &rows, |row| &row.node, title, |row| &row.message);
        }
        let table = columns.table(self.rows.iter());
        match (wide, self.labels) {
            (true, false) => table.wrap_last().into(),
            (false, false) => table.truncate_last().into(),
            (_, true) => table.into(),
        }
    }

    fn names(&self) -> Vec<String> {
        node_names(self.rows.pairs.iter().map(|(node, _)| node.name.as_str()))
    }

    fn document(&self) -> Value {
        self.nodes().document()
    }

    fn list(&self) -> Option<List<'_>> {
        Some(self.nodes())
    }
}

impl NodeStatus<'_> {
    fn nodes(&self) -> List<'_> {
        List::new("NodeStatus", self.rows.iter()).at(self.rows.cluster.taken_at)
    }
}

/// The recorded packages whose stage is not complete, with the time since the stage began.
fn stages(row: &NodeRow) -> String {
    let open = row.packages.iter().filter(|package| package.state != State::Complete.as_str());
    let stage = |of: &PackageRow| {
        let begun = of.since.as_ref().map(|since| format!(" ({})", since.age)).unwrap_or_default();
        format!("{} {} {} {}{begun}", of.package, of.version, of.stage, of.state)
    };
    open.map(stage).joined(", ")
}

/// Whether the node is cordoned, and the holders of the cordon.
fn cordon(row: &NodeRow) -> String {
    let lasting = row.runtime_required_cordon.then_some("runtime-required");
    let ours = row.cordoned_by.iter().map(String::as_str).chain(lasting);
    let others =
        row.of_taints.iter().flat_map(|of| &of.cordoned_by_others).map(|holder| holder.name.as_str());
    let holders = ours.chain(others).joined(", ");
    match (row.cordoned, holders.as_str()) {
        (_, "") | (None, _) => row::cordoned(row).to_owned(),
        (Some(true), holders) => format!("for {holders}"),
        // Cordon annotations may remain on a node that is not cordoned.
        (Some(false), holders) => format!("no, but still recorded for {holders}"),
    }
}

/// Whether the node has the runtime-required taint, and the custom resources that keep it.
fn taint(row: &NodeRow) -> String {
    let Some(taints) = &row.of_taints else {
        return row::UNREAD.to_owned();
    };
    match taints.taint_kept_by.join(",").as_str() {
        _ if !taints.runtime_required_taint => "no".to_owned(),
        "" => "yes".to_owned(),
        keep => format!("for {keep}"),
    }
}
