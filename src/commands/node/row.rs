//! The row for one custom resource on one node in the node commands.

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::api::Status;
use crate::args::listing::{RowFilter, Sorting};
use crate::cluster::cordon::Holder;
use crate::cluster::{Certainty, Cluster, Node, NodeRecord, PackageRuns, Phase, Placement, Source};
use crate::commands::shared::progress::Progress;
use crate::commands::shared::rows::StageStart;
use crate::model::{Model, ProgressState};
use crate::outlook::Outlook;
use crate::view::text::{Label, Line, Span};
use crate::view::{FormatError, Joined, list};
use crate::wait::drain::Drain;

/// The required sources of rows.
pub const NEEDS: [Source; 3] = [Source::Skyhooks, Source::Nodes, Source::Operator];

/// The state of a custom resource on a node.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeRow {
    /// The node.
    pub node: String,
    /// The custom resource.
    pub skyhook: String,
    /// The operator's status of the node; `unknown` if it has not set one yet.
    pub status: String,
    /// Why the custom resource is not complete on the node, and unusual properties of the row; absent if there is
    /// nothing to note.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// State, cause and next action of the custom resource on the node; absent if it does not select the node.
    #[serde(flatten)]
    pub progress: Option<Progress>,
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
    pub since: Option<StageStart>,
    /// The recorded image; absent if there is none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub image: String,
    /// Whether the spec contains this package at this version.
    pub in_spec: bool,
    /// Whether files of this version may be on the host: a stage of it is recorded, and it is not uninstalled.
    pub installed: bool,
    /// The interrupt of the package in the spec, such as `reboot`; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupt: Option<String>,
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
        let taint = cluster.runtime_required().on(node);
        let keepers = taint.map(|_| model.get_or_init(|| Model::new(cluster)).taint_kept_by(node));
        NodeNames {
            cordoned_by: cluster.own_cordons(node).map(|(_, name)| name.to_owned()).collect(),
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
        why: Option<&str>,
    ) -> NodeRow {
        let keys = node.keys(cluster.flavor());
        let skyhook = cluster.skyhook(name);
        let on = cluster.on_node(node, name);
        let gone = skyhook.is_none() && cluster.skyhooks_absence() == Certainty::Proven;
        let (packages_complete, packages_total) = progress(cluster, node, name);
        let placements = cluster.placements_on(name, node);
        let malformed = placements.iter().find_map(|p| p.malformed);
        let mut row = NodeRow {
            node: node.name.to_string(),
            skyhook: name.to_owned(),
            status: on.map_or(Status::Unknown, NodeRecord::operator_status).to_string(),
            message: String::new(),
            progress: None,
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
                runtime_required_taint: cluster.runtime_required().on(node).is_some(),
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
        };
        row.message = row.note(why);
        row
    }

    /// Number of failed attempts of all packages.
    pub fn restarts(&self) -> i64 {
        self.packages.iter().map(|p| p.restarts).sum()
    }

    /// Short notes about unusual properties of the row, and why the custom resource is not complete on the node.
    pub fn note(&self, why: Option<&str>) -> String {
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
        let others = self.of_taints.iter().flat_map(|of| &of.cordoned_by_others);
        let others: Vec<&str> = others.map(|holder| holder.name.as_str()).collect();
        let others = if others.is_empty() { "someone else".to_owned() } else { list(&others) };
        let by_others = format!("cordoned by {others}");
        if self.cordoned == Some(true) && self.cordoned_by.is_empty() && !self.runtime_required_cordon {
            notes.push(&by_others);
        }
        let never_installed = format!("the operator never installs {}", list(&self.never_installed));
        if !self.never_installed.is_empty() && why.is_none() {
            notes.push(&never_installed);
        }
        // The drain, or the ignore label, is the reason where there is one.
        let drain = self.drain.as_ref().map(|drain| drain.summary.as_str());
        notes.extend(drain.or(why.filter(|_| !self.ignored)));
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
    node.labels.iter().map(|(key, value)| format!("{key}={value}")).joined(",")
}

/// Why a custom resource is not complete on a node, as a sentence and as an object.
type Explained = (Option<String>, Option<Progress>);

/// The pairs of node and custom resource to show: the custom resource selects the node, or left keys on it.
pub struct Rows<'a> {
    pub cluster: &'a Cluster,
    package_runs: PackageRuns<'a>,
    model: OnceCell<Model<'a>>,
    pub pairs: Vec<(&'a Node, &'a str)>,
    by_node: HashMap<&'a str, NodeNames>,
    /// Why a custom resource is not complete on a node, and its progress there, by the pair; empty until
    /// [`Rows::explain`].
    reasons: HashMap<(&'a str, &'a str), Explained>,
    labels: bool,
}

impl<'a> Rows<'a> {
    /// The rows of these nodes; `labels` includes the node labels.
    pub fn of(cluster: &'a Cluster, nodes: &[&'a Node], only: Option<&str>, labels: bool) -> Rows<'a> {
        let mut selecting: HashMap<&str, Vec<&str>> = HashMap::new();
        for skyhook in &cluster.skyhooks {
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
            names.extend(selecting.get(node.name.as_str()).into_iter().flatten());
            names.sort_unstable();
            names.dedup();
            names.retain(|name| only.is_none_or(|only| only == *name));
            if !names.is_empty() {
                by_node.insert(node.name.as_str(), NodeNames::new(cluster, &model, node));
            }
            pairs.extend(names.into_iter().map(|name| (*node, name)));
        }
        let package_runs = cluster.package_runs();
        Rows { cluster, package_runs, model, pairs, by_node, reasons: HashMap::new(), labels }
    }

    /// Adds the reasons why custom resources are not complete on the nodes.
    pub fn explain(&mut self, outlook: &Outlook<'a>) {
        let names: BTreeSet<&str> = self.pairs.iter().map(|(_, name)| *name).collect();
        for name in names {
            let on_nodes = outlook.on_nodes(name);
            self.reasons.extend(on_nodes.map(|(node, on)| {
                ((node.name.as_str(), name), (on.message(node), Some(Progress::from(&on))))
            }));
        }
        for (node, name) in &self.pairs {
            if let Some(skyhook) = self.cluster.skyhook(name).filter(|skyhook| !skyhook.selects(node))
                && let (_, Some(error)) = outlook.on_deselected(skyhook, node)
            {
                self.reasons.insert((node.name.as_str(), *name), (Some(error.message.clone()), None));
            }
        }
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
        let (why, progress) = match self.reasons.get(&(node.name.as_str(), *name)) {
            Some((why, progress)) => (why.as_deref(), progress.clone()),
            None => (None, None),
        };
        let mut row = NodeRow::new(self.cluster, &self.package_runs, &self.model, names, node, name, why);
        row.progress = progress;
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
    Some(PackageRow {
        package: placement.package.to_owned(),
        version: placement.version.to_owned(),
        stage: entry.stage.to_string(),
        state: entry.state.to_string(),
        restarts: entry.restarts,
        since: package_runs.since(placement).map(|at| StageStart::new(at, cluster)),
        image: entry.image.to_string(),
        in_spec: placement.in_spec() == Some(true),
        installed: placement.is_installed(cluster),
        interrupt: cluster.interrupt_of(placement).map(str::to_owned),
    })
}

/// The operator's status; if it is `complete` but the custom resource is not complete on the node, also its state.
pub fn status_text(row: &NodeRow) -> Line {
    let state = row.progress.as_ref().map(|progress| progress.state);
    match state.filter(|state| *state != ProgressState::Complete) {
        Some(state) if row.status == Status::Complete.as_str() => {
            Label::Warning.span(format!("{} ({})", row.status, state.word())).into()
        }
        _ => Label::of_status(&row.status).span(&row.status).into(),
    }
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
