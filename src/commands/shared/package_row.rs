//! One package on one node.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::Serialize;

use crate::api::{State, Status};
use crate::args::listing::Sorting;
use crate::cluster::{Cluster, Node, NodeRecord, PackageRuns, Phase, Placement, Source};
use crate::view::{FormatError, age, time, to_json};

/// The required sources: pods and Jobs show how long a stage has been running.
pub const READS: [Source; 5] =
    [Source::Skyhooks, Source::Nodes, Source::Operator, Source::Pods, Source::Jobs];

/// A package on a node.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PackageRow<'a> {
    /// The package.
    #[serde(rename = "name")]
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
    pub since: Option<String>,
    /// The age of `since`: `17h`.
    #[serde(skip)]
    pub runs_for: String,
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
    #[serde(skip)]
    pub phase: Phase,
}

impl<'a> PackageRow<'a> {
    fn of(cluster: &'a Cluster, package_runs: &PackageRuns<'a>, placement: &Placement<'a>) -> PackageRow<'a> {
        let since = package_runs.since(placement);
        let on = cluster.on_node(placement.node, placement.skyhook);
        let entry = placement.entry;
        let spec = cluster.skyhook(placement.skyhook);
        let spec = spec.and_then(|s| s.package(placement.package));
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
            since: since.map(time),
            runs_for: since.map_or_else(String::new, |at| age(Some(at), cluster.taken_at)),
            node: &placement.node.name,
            skyhook: placement.skyhook,
            spec_version: spec.map(|package| package.version.as_str()),
            in_spec: placement.in_spec(),
            complete: placement.in_spec().map(|_| complete),
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

/// The packages of custom resources on nodes that they select or left state on, sorted by custom resource,
/// node, name and version. Rows are created one at a time: there may be a hundred thousand.
pub struct PackageRows<'a> {
    cluster: &'a Cluster,
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
            let nodes = cluster.nodes_of(name).filter(wanted);
            nodes.flat_map(|node| cluster.placements_on(name, node))
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
