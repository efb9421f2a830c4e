//! The row for one custom resource on one node in the node commands.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::row;
use crate::api::Status;
use crate::args::listing::{Labels, RowFilter, Sorting};
use crate::args::nodes::{AnyNodes, OnlySkyhook};
use crate::cluster::cordon::Holder;
use crate::cluster::{
    Certainty, Cluster, Node, NodeFields, NodeRecord, PackageRuns, Phase, Placement, Source,
};
use crate::commands::shared::command::command;
use crate::commands::shared::grouped::Expand;
use crate::commands::shared::scope;
use crate::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::model::Model;
use crate::view::text::{Label, Line, Span, Text};
use crate::view::{Columns, FormatError, View, age, count, document, list, plural, time, to_json};
use crate::wait::drain::Drain;

/// The required sources of rows.
pub const NEEDS: [Source; 3] = [Source::Skyhooks, Source::Nodes, Source::Operator];

/// The state of a custom resource on a node.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeRow {
    /// The node.
    #[serde(rename = "name")]
    pub node: String,
    /// The custom resource.
    pub skyhook: String,
    /// The operator's status of the node; `unknown` if it has not set one yet.
    #[serde(rename = "state")]
    pub status: String,
    /// Number of packages of the spec that are done: at their last stage, or absent if they are to be
    /// uninstalled.
    pub packages_complete: usize,
    /// Number of packages of the spec; for a custom resource that no longer exists, of the recorded packages.
    pub packages_total: usize,
    /// The packages recorded on the node.
    pub packages: Vec<PackageRow>,
    /// The packages whose version in the spec was never installed, and will not be while their uninstall is
    /// requested; absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub never_installed: Vec<String>,
    /// Whether the node is cordoned.
    #[schemars(with = "bool")]
    pub cordoned: Option<bool>,
    /// Whether the node stays cordoned until someone outside the operator releases it.
    pub runtime_required_cordon: bool,
    /// The custom resources whose annotations mark the node as cordoned.
    #[serde(serialize_with = "items")]
    #[schemars(with = "Vec<String>")]
    pub cordoned_by: Arc<[String]>,
    #[serde(flatten)]
    #[schemars(with = "FromTaints")]
    pub of_taints: Option<FromTaints>,
    /// Whether the custom resource is known not to exist any more.
    pub gone: bool,
    /// Whether the custom resource selects the node; null if the custom resource could not be read.
    pub selected: Option<bool>,
    /// Whether the node carries the ignore label.
    pub ignored: bool,
    /// The drain in progress; absent if the node is not being drained.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain: Option<Drain>,
    /// Why the node state cannot be read; absent if it can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub malformed: Option<String>,
    /// The labels of the node, `key=value` as in kubectl; empty without --show-labels.
    #[serde(skip)]
    pub labels: String,
}

/// The fields of a row that require the node's taints; documents always have them.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FromTaints {
    /// People and programs other than the operator that keep the node cordoned.
    pub cordoned_by_others: Vec<Holder>,
    /// Whether the node still carries the runtime-required taint.
    pub runtime_required_taint: bool,
    /// The custom resources that keep the taint on the node.
    #[serde(serialize_with = "items")]
    #[schemars(with = "Vec<String>")]
    pub taint_kept_by: Arc<[String]>,
}

/// A package recorded on the node.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PackageRow {
    /// The package.
    #[serde(rename = "name")]
    pub package: String,
    /// The recorded version.
    pub version: String,
    /// The recorded stage.
    pub stage: String,
    /// The recorded state of the stage.
    pub state: String,
    /// Number of failed attempts of the stage.
    pub restarts: i64,
    /// The start of the running stage; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// The age of `since`: `17h`.
    #[serde(skip)]
    pub runs_for: String,
    /// The recorded image; absent if there is none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub image: String,
    /// Whether the spec contains this package at this version.
    pub in_spec: bool,
}

fn items<S: Serializer>(names: &Arc<[String]>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(names.iter())
}

/// Names of the custom resources that hold the cordon or the taint of a node, shared by all its rows. A
/// search per row would be quadratic in the custom resources of the node.
#[derive(Clone)]
struct NodeNames {
    cordoned_by: Arc<[String]>,
    taint_kept_by: Arc<[String]>,
}

impl NodeNames {
    fn new<'a>(cluster: &'a Cluster, model: &OnceCell<Model<'a>>, node: &Node) -> NodeNames {
        let keys = node.keys(cluster.flavor()).skyhooks.iter();
        let cordons = keys.filter(|(_, on)| on.cordon);
        let taint = cluster.runtime_required_taint(node);
        let keepers = taint.map(|_| model.get_or_init(|| Model::new(cluster)).taint_kept_by(node));
        NodeNames {
            cordoned_by: cordons.map(|(name, _)| name.clone()).collect(),
            taint_kept_by: keepers.iter().flatten().map(|s| s.name().to_owned()).collect(),
        }
    }
}

impl NodeRow {
    fn new<'a>(
        cluster: &'a Cluster,
        package_runs: &PackageRuns<'a>,
        model: &OnceCell<Model<'a>>,
        names: NodeNames,
        node: &'a Node,
        name: &'a str,
    ) -> NodeRow {
        let keys = node.keys(cluster.flavor());
        let skyhook = cluster.skyhook(name);
        let on = cluster.on_node(node, name);
        let gone = skyhook.is_none() && cluster.skyhooks_absence() == Certainty::Proven;
        let (packages_complete, packages_total) = progress(cluster, node, name);
        let placements = cluster.placements_on(name, node);
        let malformed = placements.iter().find_map(|p| p.malformed);
        NodeRow {
            node: node.name.to_string(),
            skyhook: name.to_owned(),
            status: on.map_or(Status::Unknown, NodeRecord::operator_status).to_string(),
            packages_complete,
            packages_total,
            packages: placements.iter().filter_map(|p| package(cluster, package_runs, p)).collect(),
            never_installed: placements
                .iter()
                .filter(|p| p.phase == Phase::NeverInstalled)
                .map(|p| p.package.to_owned())
                .collect(),
            cordoned: node.cordoned(),
            runtime_required_cordon: keys.runtime_required_cordon,
            cordoned_by: names.cordoned_by,
            of_taints: node.body().map(|body| FromTaints {
                cordoned_by_others: body.cordon_holders.to_vec(),
                runtime_required_taint: cluster.runtime_required_taint(node).is_some(),
                taint_kept_by: names.taint_kept_by,
            }),
            gone,
            selected: match skyhook {
                Some(skyhook) => Some(skyhook.selects(node)),
                None => gone.then_some(false),
            },
            ignored: node.ignored(cluster.flavor()),
            drain: on
                .filter(|on| on.may_drain())
                .and_then(|_| model.get_or_init(|| Model::new(cluster)).drain_progress(name, node))
                .map(|drain| Drain::new(cluster, &drain)),
            malformed: malformed.map(str::to_owned),
            labels: String::new(),
        }
    }

    /// Number of failed attempts of all packages.
    pub fn restarts(&self) -> i64 {
        self.packages.iter().map(|p| p.restarts).sum()
    }

    /// Short notes about unusual properties of the row.
    pub fn note(&self) -> String {
        let mut notes = Vec::new();
        if self.gone {
            notes.push("its custom resource is gone");
        } else {
            match self.selected {
                Some(true) => {}
                Some(false) => notes.push("not selected"),
                None => notes.push("custom resource not read"),
            }
        }
        if self.ignored {
            notes.push("ignored");
        }
        if self.cordoned == Some(true) && self.cordoned_by.is_empty() && !self.runtime_required_cordon {
            notes.push("cordoned by someone else");
        }
        let never_installed = format!("never installs {}", list(&self.never_installed));
        if !self.never_installed.is_empty() {
            notes.push(&never_installed);
        }
        notes.extend(self.drain.as_ref().map(|drain| drain.summary.as_str()));
        notes.join(", ")
    }

    /// The complete packages out of all packages, `1/2`; or `malformed`.
    pub fn progress(&self) -> String {
        match self.malformed {
            Some(_) => "malformed".to_owned(),
            None => format!("{}/{}", self.packages_complete, self.packages_total),
        }
    }
}

fn labels(node: &Node) -> String {
    let labels = node.labels.iter().map(|(key, value)| format!("{key}={value}"));
    labels.collect::<Vec<_>>().join(",")
}

/// The pairs of node and custom resource to show: the custom resource selects the node, or left keys on it.
pub struct Rows<'a> {
    cluster: &'a Cluster,
    package_runs: PackageRuns<'a>,
    model: OnceCell<Model<'a>>,
    pub pairs: Vec<(&'a Node, &'a str)>,
    by_node: HashMap<&'a str, NodeNames>,
    labels: bool,
}

impl<'a> Rows<'a> {
    /// The rows of these nodes; `labels` includes the node labels.
    pub fn of(cluster: &'a Cluster, nodes: &[&'a Node], only: Option<&str>, labels: bool) -> Rows<'a> {
        let mut selecting: HashMap<&str, Vec<&str>> = HashMap::new();
        for skyhook in cluster.skyhooks.items() {
            let nodes = cluster.nodes_of(skyhook.name());
            for node in nodes.filter(|node| skyhook.selects(node)) {
                selecting.entry(&node.name).or_default().push(skyhook.name());
            }
        }
        let model = OnceCell::new();
        let mut pairs = Vec::new();
        let mut by_node = HashMap::new();
        for node in nodes {
            let keys = node.keys(cluster.flavor()).skyhooks.iter();
            let mut names: Vec<&str> =
                keys.filter(|(_, on)| on.has_keys()).map(|(n, _)| n.as_str()).collect();
            let selecting = selecting.get(node.name.as_str());
            names.extend(selecting.into_iter().flatten());
            names.sort_unstable();
            names.dedup();
            names.retain(|name| only.is_none_or(|only| only == *name));
            if !names.is_empty() {
                by_node.insert(node.name.as_str(), NodeNames::new(cluster, &model, node));
            }
            pairs.extend(names.into_iter().map(|name| (*node, name)));
        }
        let package_runs = cluster.package_runs();
        Rows { cluster, package_runs, model, pairs, by_node, labels }
    }

    /// Keeps the rows that a filter shows.
    pub fn filter(&mut self, filter: &RowFilter) {
        let cluster = self.cluster;
        self.pairs.retain(|(node, name)| {
            let on = cluster.on_node(node, name);
            let status = on.map_or(Status::Unknown, NodeRecord::operator_status);
            filter.has_status(status.as_str())
                && (!filter.failed_only || on.is_some_and(NodeRecord::fails))
                && (!filter.cordoned || node.cordoned() == Some(true))
        });
    }

    /// The rows, created one at a time because there may be thousands.
    pub fn iter(&self) -> impl Iterator<Item = NodeRow> + '_ {
        self.pairs.iter().map(|pair| self.row(pair))
    }

    fn row(&self, (node, name): &(&'a Node, &'a str)) -> NodeRow {
        let names = self.by_node[node.name.as_str()].clone();
        let mut row = NodeRow::new(self.cluster, &self.package_runs, &self.model, names, node, name);
        if self.labels {
            row.labels = labels(node);
        }
        row
    }

    /// Sorts the rows by their JSON items.
    pub fn sort(
        &mut self,
        sorting: &Sorting,
        document: impl Fn(&NodeRow) -> Value,
    ) -> Result<(), FormatError> {
        let mut pairs = std::mem::take(&mut self.pairs);
        let sorted = sorting.sort(&mut pairs, |pair| document(&self.row(pair)));
        self.pairs = pairs;
        sorted
    }
}

/// The numbers of complete and of all packages of a custom resource on a node. If the custom resource is
/// deleted or not read, the number of recorded packages that may be installed, and of all recorded packages.
fn progress(cluster: &Cluster, node: &Node, name: &str) -> (usize, usize) {
    if let Some(skyhook) = cluster.skyhook(name) {
        return cluster.progress(skyhook, node);
    }
    let left = cluster.on_node(node, name).map_or(&[][..], NodeRecord::entries);
    let installed = left.iter().filter(|e| e.may_be_installed());
    (installed.count(), left.len())
}

fn package<'a>(
    cluster: &'a Cluster,
    package_runs: &PackageRuns<'a>,
    placement: &Placement<'a>,
) -> Option<PackageRow> {
    let entry = placement.entry?;
    let since = package_runs.since(placement);
    Some(PackageRow {
        package: placement.package.to_owned(),
        version: placement.version.to_owned(),
        stage: entry.stage.to_string(),
        state: entry.state.to_string(),
        restarts: entry.restarts,
        since: since.map(time),
        runs_for: since.map_or_else(String::new, |at| age(Some(at), cluster.taken_at)),
        image: entry.image.to_string(),
        in_spec: placement.in_spec() == Some(true),
    })
}

/// The row's status, with the label of its severity.
pub fn status_text(row: &NodeRow) -> Line {
    Label::of_status(&row.status).span(&row.status).into()
}

/// The number of complete packages.
pub fn package_count(row: &NodeRow) -> Span {
    let label = if row.malformed.is_some() { Label::Error } else { Label::Plain };
    label.span(row.progress())
}

pub fn cordoned(row: &NodeRow) -> &'static str {
    match row.cordoned {
        Some(true) => "yes",
        Some(false) => "no",
        None => UNREAD,
    }
}

pub const UNREAD: &str = "not read";

/// List the nodes of a custom resource
///
/// Lists all nodes that the custom resource selects, started or not, and all that still have its annotations
/// or labels.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook node list --skyhook gpu-tune
  kubectl skyhook node list --skyhook gpu-tune --sort-by .state
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
    let named =
        crate::commands::shared::scope::named_nodes(args.on.query(), args.of.skyhook.as_deref(), None);
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
        [] => ctx.note(format!("{} selects no nodes and has no state on any node.", list.skyhook)),
        _ => ctx.note(list.summary()),
    }
    scope::warn_unreadable(ctx, &cluster, &NEEDS);
    ctx.show(&list)?;
    Ok(crate::commands::shared::scope::exit_without(&cluster, &[Source::Nodes]))
}

fn view(cluster: &Cluster, args: &Args) -> Result<NodeList> {
    crate::commands::shared::scope::readable(cluster, Source::Nodes)?;
    let skyhook = match &args.of.skyhook {
        Some(name) => name.clone(),
        None => crate::commands::shared::scope::only_skyhook(cluster, |_| true)?,
    };
    crate::commands::shared::scope::known_skyhook(cluster, &skyhook)?;
    let nodes = crate::commands::shared::scope::selected(cluster, args.on.query())?;
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
    #[serde(rename = "name")]
    node: &'a str,
    /// The operator's status of the node; `unknown` if it has not set one yet.
    #[serde(rename = "state")]
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
        let counts: Vec<String> =
            counts.iter().map(|(status, n)| format!("{} {status}", count(*n))).collect();
        format!("{}: {}", plural(self.rows.len(), "node"), counts.join(", "))
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
            .with("note", |row| row.note().into())
            .with_if(self.labels, "labels", |row| row.labels.as_str().into());
        if folded {
            let rows: Vec<&NodeRow> = self.rows.iter().collect();
            return crate::commands::shared::grouped::table(&columns, &rows, |row| &row.node).into();
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
