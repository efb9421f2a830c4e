//! One package on one node.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::LazyLock;

use jiff::Timestamp;
use regex::Regex;
use schemars::JsonSchema;
use serde::Serialize;

use crate::api::{ApiFlavor, State, Status};
use crate::args::listing::Sorting;
use crate::args::nodes::NodeArg;
use crate::cluster::{Cluster, Event, Node, NodeRecord, PackageRuns, Phase, Placement, Source};
use crate::view::text::{self, Label, Line};
use crate::view::{Columns, FormatError, NodeSet, Table, age, count, time, to_json};

/// The required sources: pods and Jobs show how long a stage has been running.
pub const READS: [Source; 5] =
    [Source::Skyhooks, Source::Nodes, Source::Operator, Source::Pods, Source::Jobs];

/// The start of a running stage.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct StageStart {
    time: String,
    /// `17h`.
    #[serde(skip)]
    pub age: String,
}

impl StageStart {
    pub fn new(at: Timestamp, cluster: &Cluster) -> StageStart {
        StageStart { time: time(at), age: age(Some(at), cluster.taken_at) }
    }
}

/// A package on a node.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PackageRow<'a> {
    /// The package.
    pub package: &'a str,
    /// The recorded version; without a record, the version in the spec.
    pub version: &'a str,
    /// The recorded image; without a record, the image in the spec.
    pub image: &'a str,
    /// The recorded digest of the image; absent if there is none.
    #[serde(rename = "containerSHA", skip_serializing_if = "str::is_empty")]
    pub container_sha: &'a str,
    /// The recorded stage; absent without a record.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub stage: &'a str,
    /// The recorded state of the stage; absent without a record.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub state: &'a str,
    /// Number of failed attempts of the stage.
    pub restarts: i64,
    /// The start of the running stage; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<StageStart>,
    /// The node.
    pub node: &'a str,
    /// The custom resource.
    pub skyhook: &'a str,
    /// The version in the spec; null if the spec does not contain the package or could not be read.
    pub spec_version: Option<&'a str>,
    /// Whether the spec contains this package at this version; null if it could not be read.
    pub in_spec: Option<bool>,
    /// Whether the package has reached its last stage; null if the spec could not be read.
    pub complete: Option<bool>,
    /// Whether files of this version may be on the host: a stage of it is recorded, and it is not uninstalled.
    pub installed: bool,
    /// The interrupt of the package in the spec, such as `reboot`; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupt: Option<&'a str>,
    /// Whether the node state contains the package.
    pub recorded: bool,
    /// The operator's status of the node; `unknown` if it has not set one yet.
    pub node_status: String,
    /// Whether the custom resource selects the node.
    pub selected: bool,
    /// Whether the node carries the ignore label.
    pub ignored: bool,
    /// Whether the package is to be uninstalled at this version.
    pub uninstalling: bool,
    /// Whether this version was never installed, and will not be while its uninstall is requested; absent if
    /// false.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub never_installed: bool,
    /// Why the node state cannot be read; absent if it can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub malformed: Option<&'a str>,
    /// The progress of the package on the node, such as `NotStarted`.
    pub phase: Phase,
}

impl<'a> PackageRow<'a> {
    fn of(cluster: &'a Cluster, package_runs: &PackageRuns<'a>, placement: &Placement<'a>) -> PackageRow<'a> {
        let on = cluster.on_node(placement.node, placement.skyhook);
        let entry = placement.entry;
        let spec = cluster.skyhook(placement.skyhook).and_then(|s| s.package(placement.package));
        let complete = placement.phase == Phase::Complete;
        PackageRow {
            package: placement.package,
            version: placement.version,
            image: match entry {
                Some(entry) => &entry.image,
                None => spec.map_or("", |p| &p.image),
            },
            container_sha: entry.map_or("", |e| &e.container_sha),
            stage: entry.map_or("", |e| e.stage.as_str()),
            state: entry.map_or("", |e| e.state.as_str()),
            restarts: entry.map_or(0, |e| e.restarts),
            since: package_runs.since(placement).map(|at| StageStart::new(at, cluster)),
            node: &placement.node.name,
            skyhook: placement.skyhook,
            spec_version: spec.map(|package| package.version.as_str()),
            in_spec: placement.in_spec(),
            complete: placement.in_spec().map(|_| complete),
            installed: placement.is_installed(cluster),
            interrupt: cluster.interrupt_of(placement),
            recorded: entry.is_some(),
            node_status: on.map_or(Status::Unknown, NodeRecord::operator_status).to_string(),
            selected: placement.selected,
            ignored: placement.ignored,
            uninstalling: placement.is_uninstall_wanted(),
            never_installed: placement.phase == Phase::NeverInstalled,
            malformed: placement.malformed,
            phase: placement.phase,
        }
    }

    /// Whether the spec does not contain the package at the recorded version, or its version is never
    /// installed.
    pub fn has_drifted(&self) -> bool {
        self.recorded && self.in_spec == Some(false) || self.never_installed
    }

    /// The recorded state; before the first stage, the status of the node.
    pub fn status(&self) -> &str {
        match self.state {
            "" => &self.node_status,
            state => state,
        }
    }

    /// Whether the package has failed, or its state cannot be read.
    pub fn has_failed(&self) -> bool {
        let failed = matches!(self.phase, Phase::Failing | Phase::UninstallFailing | Phase::Malformed);
        // For a version that is not in the spec, only the state shows a failure.
        failed || self.state == State::Erroring.as_str()
    }
}

/// The text for a package's phase.
pub fn phase_label(phase: Phase) -> &'static str {
    match phase {
        Phase::Malformed => "malformed",
        Phase::NotStarted => "not started",
        Phase::Absent => "absent",
        Phase::NeverInstalled => "never installed",
        Phase::Running | Phase::Uninstalling => "in progress",
        Phase::Failing | Phase::UninstallFailing => "erroring",
        Phase::Complete => "complete",
        Phase::Uninstalled => "uninstalled, record kept",
        Phase::NotInSpec => "not in the spec",
    }
}

/// How the recorded version of a package differs from the spec, which has the package at the version `in_spec` or not
/// at all.
pub fn drift(in_spec: Option<&str>) -> String {
    in_spec.map_or_else(|| "not in the spec".to_owned(), |version| format!("the spec has {version}"))
}

/// The packages of custom resources on nodes that they select or left state on, sorted by custom resource,
/// node, name and version. Rows are created one at a time: there may be a hundred thousand.
pub struct PackageRows<'a> {
    pub cluster: &'a Cluster,
    package_runs: PackageRuns<'a>,
    placements: Vec<Placement<'a>>,
}

impl<'a> PackageRows<'a> {
    /// The packages, or only `package`, of these custom resources on these nodes. Node states that cannot be
    /// read are always included.
    pub fn of(
        cluster: &'a Cluster,
        nodes: &[&Node],
        skyhooks: impl IntoIterator<Item = &'a str>,
        package: Option<&str>,
    ) -> PackageRows<'a> {
        let some = nodes.len() < cluster.nodes.items().len();
        let names = some.then(|| nodes.iter().map(|node| &*node.name).collect());
        let names: Option<HashSet<&str>> = names;
        let placements = skyhooks.into_iter().flat_map(|name| {
            let wanted = |node: &&Node| names.as_ref().is_none_or(|n| n.contains(&*node.name));
            cluster.nodes_of(name).filter(wanted).flat_map(|node| cluster.placements_on(name, node))
        });
        let wanted = |p: &Placement<'_>| {
            p.phase == Phase::Malformed || package.is_none_or(|package| p.package == package)
        };
        PackageRows {
            cluster,
            package_runs: cluster.package_runs(),
            placements: placements.filter(wanted).collect(),
        }
    }

    pub fn placements(&self) -> &[Placement<'a>] {
        &self.placements
    }

    pub fn iter(&self) -> impl Iterator<Item = PackageRow<'a>> {
        self.placements.iter().map(|placement| self.row(placement))
    }

    fn row(&self, placement: &Placement<'a>) -> PackageRow<'a> {
        PackageRow::of(self.cluster, &self.package_runs, placement)
    }

    /// Keeps the rows for which `keep` returns `true`.
    pub fn retain(&mut self, keep: impl Fn(&PackageRow<'_>) -> bool) {
        let mut placements = std::mem::take(&mut self.placements);
        placements.retain(|placement| keep(&self.row(placement)));
        self.placements = placements;
    }

    /// Sorts the rows by their JSON items.
    ///
    /// # Errors
    ///
    /// See [`Sorting::sort`].
    pub fn sort(&mut self, sorting: &Sorting) -> Result<(), FormatError> {
        let mut placements = std::mem::take(&mut self.placements);
        let sorted = sorting.sort(&mut placements, |placement| to_json(&self.row(placement)));
        self.placements = placements;
        sorted
    }
}

/// Maximum number of node-name ranges in a message.
const RUNS: usize = 3;
/// The placeholder for node names in a message.
const NODES: &str = "\0";

/// Events with the same reason and message.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventRow {
    /// `Normal` or `Warning`.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The reason of the events.
    reason: String,
    /// The message; with several nodes, it names all of them.
    message: String,
    /// The message with a few of the nodes.
    #[serde(skip)]
    brief: String,
    /// The message with a placeholder for the nodes.
    #[serde(skip)]
    key: String,
    /// The objects of the events, as `kind/name`.
    objects: Vec<String>,
    /// Number of occurrences.
    pub count: i64,
    /// The time of the first occurrence; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<String>,
    /// The time of the last occurrence; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<String>,
    #[serde(skip)]
    pub at: Option<Timestamp>,
    /// The custom resources concerned.
    skyhooks: Vec<String>,
}

/// Events that share a row.
#[derive(Default)]
struct EventGroup<'a> {
    first: Option<Timestamp>,
    last: Option<Timestamp>,
    count: i64,
    warning: bool,
    objects: BTreeSet<(&'a str, &'a str)>,
    /// The nodes named by the messages.
    nodes: BTreeSet<&'a str>,
    skyhooks: BTreeSet<&'a str>,
}

impl<'a> EventGroup<'a> {
    /// Whether the events are about custom resources: only the operator writes these.
    fn is_of_operator(&self) -> bool {
        self.objects.iter().all(|(kind, _)| ApiFlavor::ALL.iter().any(|flavor| *kind == flavor.kind()))
    }

    fn add(&mut self, event: &'a Event) {
        self.first = self.first.into_iter().chain(event.first).min();
        self.last = self.last.max(event.last);
        self.count += event.count;
        self.warning |= event.warning;
        self.objects.insert((&event.kind, &event.name));
    }
}

/// The rows of events about these custom resources, their pods, jobs and nodes, oldest first; `on`: only those about
/// these nodes, about pods and jobs on them, and those that name one of them.
pub fn rows(cluster: &Cluster, names: &[&str], on: Option<&NodeArg>) -> Vec<EventRow> {
    let package_runs = on.map(|_| cluster.package_runs());
    let runs = package_runs.iter().flat_map(PackageRuns::all);
    let node_by_object: HashMap<&str, &str> = runs
        .flat_map(|run| {
            let job = run.job.map(|job| job.metadata.name.as_str());
            let names = job.into_iter().chain(run.pods.iter().map(|pod| pod.name()));
            names.map(|name| (name, run.node)).collect::<Vec<_>>()
        })
        .collect();
    let is_on = |event: &&Event| {
        let Some(on) = on else {
            return true;
        };
        let name = event.name.as_str();
        let of_object = if event.kind == "Node" { Some(&name) } else { node_by_object.get(name) };
        // The names of deleted Jobs and pods contain the node, unless it is long.
        let contains = |node: &&Node| name.contains(&format!("-{}-", node.name));
        let meant = || cluster.nodes.iter().filter(contains).max_by_key(|node| node.name.len());
        let nodes = cluster.nodes.iter().filter(|node| on.matches(&node.name));
        let deleted = of_object.is_none()
            && matches!(&*event.kind, "Job" | "Pod")
            && nodes.clone().any(|node| contains(&node));
        let named =
            common(event).1.into_iter().chain(deleted.then(meant).flatten().map(|node| node.name.as_str()));
        of_object.copied().into_iter().chain(named).any(|node| on.matches(node))
    };
    let mut groups: BTreeMap<(&str, String), EventGroup<'_>> = BTreeMap::new();
    // Count an event once, even if it mentions several custom resources.
    let mut counted: BTreeSet<*const Event> = BTreeSet::new();
    for name in names {
        let nodes = cluster.skyhook(name).into_iter().flat_map(|skyhook| cluster.selected(skyhook));
        let of_nodes = nodes.flat_map(|node| cluster.events_about("Node", &node.name));
        let is_other = |tag: &str| tag != *name && cluster.skyhook(tag).is_some();
        let of_nodes = of_nodes.filter(|event| !event.tag().is_some_and(is_other));
        for event in cluster.events_mentioning(name).chain(of_nodes).filter(is_on) {
            let (message, node) = common(event);
            let group = groups.entry((&event.reason, message)).or_default();
            group.skyhooks.insert(name);
            group.nodes.extend(node);
            if counted.insert(std::ptr::from_ref(event)) {
                group.add(event);
            }
        }
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by(|(a_key, a), (b_key, b)| (a.last, a.warning, a_key).cmp(&(b.last, b.warning, b_key)));
    let several = names.len() > 1;
    let row = |((reason, message), group): ((&str, String), EventGroup<'_>)| EventRow {
        kind: if group.warning { "Warning" } else { "Normal" },
        reason: reason.to_owned(),
        message: message.replace(NODES, &NodeSet::of(&group.nodes).to_string()),
        brief: brief(&message, several, group.is_of_operator())
            .replace(NODES, &NodeSet::of(&group.nodes).limited(RUNS)),
        key: message,
        objects: group.objects.iter().map(|(kind, name)| format!("{}/{name}", kind.to_lowercase())).collect(),
        count: group.count,
        first: group.first.map(time),
        last: group.last.map(time),
        at: group.last,
        skyhooks: group.skyhooks.iter().map(ToString::to_string).collect(),
    };
    groups.into_iter().map(row).collect()
}

/// The operator's message without brackets, and with `several` custom resources only with their names:
/// `Applying package [tuning:1.2.0] from [skyhook:gpu] stage [config]` is `Applying package tuning:1.2.0 stage config`.
fn brief(message: &str, several: bool, of_operator: bool) -> String {
    static TAG: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r" (?:from|on) \[(?:skyhook|nodewright):([^\]]+)\]").expect("a pattern"));
    if !of_operator && !TAG.is_match(message) {
        return message.to_owned();
    }
    TAG.replace(message, if several { " of $1" } else { "" }).replace(['[', ']'], "")
}

/// The message with a placeholder for the node, and that node. The operator writes `to node [NAME]`; the
/// kubelet ends with `in pod NAME_NAMESPACE(UID)`, which is removed.
fn common(event: &Event) -> (String, Option<&str>) {
    let message = event.message.as_str();
    let pod = format!(" in pod {}_", event.name);
    let of_pod = message.split_once(&pod);
    let ends = |(_, rest): &(&str, &str)| {
        event.kind == "Pod" && rest.split_once(')').is_some_and(|(_, after)| after.is_empty())
    };
    if let Some((message, _)) = of_pod.filter(ends) {
        return (message.to_owned(), None);
    }
    let node = message.split_once("node [").and_then(|(start, rest)| {
        let (name, end) = rest.split_once(']')?;
        Some((format!("{start}node [{NODES}]{end}"), name))
    });
    match node {
        Some((message, name)) => (message, Some(name)),
        None if event.kind == "Node" && message.contains(&event.name) => {
            (message.replacen(&event.name, NODES, 1), Some(&event.name))
        }
        None => (message.to_owned(), None),
    }
}

/// A table of the rows, with their ages at `now`.
pub fn table(rows: &[EventRow], now: Timestamp) -> Table {
    let columns = Columns::new()
        .with("last", |row: &&EventRow| age(row.at, now).into())
        .with("count", |row| count(row.count).into())
        .with("reason", |row| row.label().span(&row.reason).into())
        .with("event", |row| format!("{}{}", row.subject(), row.brief).into());
    columns.table(rows).truncate_last()
}

impl EventRow {
    /// The common reason and message of the events.
    pub fn key(&self) -> (String, String) {
        (self.reason.clone(), self.key.clone())
    }

    /// The row as a line: `10:00:05 3 Failed node/gpu-1: …`.
    pub fn line(&self) -> Line {
        let time = self.at.map_or_else(String::new, |at| at.strftime("%H:%M:%S").to_string());
        let start = text::dim(format!("{time} ")) + count(self.count) + " ";
        start + self.label().span(&self.reason) + " " + self.subject() + self.brief.as_str()
    }

    fn label(&self) -> Label {
        match self.kind {
            "Warning" => Label::Warning,
            _ => Label::Plain,
        }
    }

    /// The objects, each as `kind/name`.
    pub fn objects(&self) -> impl Iterator<Item = &str> {
        self.objects.iter().map(String::as_str)
    }

    /// The objects as a prefix of the message: `node/gpu-[1-3]: ` or `pod/apply-1 and 2 more: `; empty if the
    /// message names the object.
    fn subject(&self) -> String {
        let Some((first, name)) = self.objects.first().and_then(|first| first.split_once('/')) else {
            return String::new();
        };
        if self.objects.len() == 1 && self.message.contains(name) {
            return String::new();
        }
        let names = self.objects().map(|object| {
            let (kind, name) = object.split_once('/')?;
            (kind == first).then_some(name)
        });
        match names.collect::<Option<Vec<_>>>() {
            Some(names) => format!("{first}/{}: ", NodeSet::of(names).limited(1)),
            None => format!("{first}/{name} and {} more: ", count(self.objects.len() - 1)),
        }
    }
}

/// The custom resources, people and programs that hold the cordon of a node, or have left their mark on it; empty without
/// any.
pub fn cordon_holders(cluster: &Cluster, node: &Node) -> Vec<String> {
    let active = cluster.flavor();
    let holder = |(flavor, name): (ApiFlavor, &str)| match cluster.skyhook(name).filter(|_| flavor == active)
    {
        Some(skyhook) if skyhook.selects(node) => skyhook.to_string(),
        Some(skyhook) => format!("{skyhook} (does not select the node)"),
        None if flavor == active => format!("{name} (custom resource not found)"),
        None => format!("{}/{name}", flavor.resource()),
    };
    let mut holders: Vec<String> = cluster.own_cordons(node).map(holder).collect();
    if node.keys(active).runtime_required_cordon {
        holders.push("runtimeRequiredCordonAfter, until someone releases the cordon".to_owned());
    }
    holders.extend(node.cordon_holders().iter().map(ToString::to_string));
    if node.cordoned() == Some(true) && holders.is_empty() {
        holders.push("someone outside the operator".to_owned());
    }
    holders
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pod_reference_at_the_end_of_a_message_is_removed() {
        for (message, common_message) in [
            ("Back-off restarting apply in pod driver-1_skyhook(0a1b)", "Back-off restarting apply"),
            ("Back-off in pod driver-1_skyhook(0a1b) again", "Back-off in pod driver-1_skyhook(0a1b) again"),
            ("Back-off in pod driver-1_", "Back-off in pod driver-1_"),
        ] {
            let pod = json!({"kind": "Pod", "name": "driver-1"});
            let event = json!({"metadata": {}, "involvedObject": pod, "message": message});
            let event: Event = serde_json::from_value(event).expect("an event");
            assert_eq!(common(&event), (common_message.to_owned(), None));
        }
    }
}
