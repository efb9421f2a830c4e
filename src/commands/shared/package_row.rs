//! One package on one node.

use schemars::JsonSchema;
use serde::Serialize;

use crate::api::{State, Status};
use crate::cluster::{Cluster, Node, NodeRecord, PackageRuns, Phase, Placement, Source};
use crate::view::age;

/// The required sources: pods and Jobs show since when a stage runs.
pub const READS: [Source; 5] = [
    Source::Skyhooks,
    Source::Nodes,
    Source::Operator,
    Source::Pods,
    Source::Jobs,
];

/// A package on a node. The names of the first eight fields are those of upstream's CLI, which omits empty and zero
/// values.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PackageRow {
    pub name: String,
    pub version: String,
    pub image: String,
    #[serde(rename = "containerSHA", skip_serializing_if = "String::is_empty")]
    pub container_sha: String,
    /// Empty without a record.
    pub stage: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub state: String,
    /// Failed attempts of the current stage.
    #[serde(skip_serializing_if = "is_zero")]
    pub restarts: i64,
    /// When the running stage was started, if that was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// How long that is: `17h`.
    #[serde(skip)]
    pub runs_for: String,
    pub node_name: String,
    pub skyhook_name: String,
    /// The version in the spec; null if the spec does not contain the package, or could not be read.
    pub spec_version: Option<String>,
    /// Whether the spec contains this package at this version; null if it could not be read.
    pub in_spec: Option<bool>,
    /// Whether the package has reached its last stage; null if the spec could not be read.
    pub complete: Option<bool>,
    /// Whether the node state contains the package.
    pub recorded: bool,
    /// The operator's status of the node; `unknown` if there is none yet.
    pub node_status: String,
    /// Whether the custom resource selects the node.
    pub selected: bool,
    /// Whether the node carries the ignore label.
    pub ignored: bool,
    /// Whether the package is to be uninstalled at this version.
    pub uninstalling: bool,
    /// Whether this version was never installed, and will not be as long as its uninstall is requested.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub never_installed: bool,
    /// Why the node's state cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub malformed: Option<String>,
    #[serde(skip)]
    pub phase: Phase,
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

impl PackageRow {
    fn of<'a>(
        cluster: &'a Cluster,
        package_runs: &PackageRuns<'a>,
        placement: &Placement<'a>,
    ) -> PackageRow {
        let since = package_runs.since(placement);
        let on = cluster.on_node(placement.node, placement.skyhook);
        let entry = placement.entry;
        let spec = cluster.skyhook(placement.skyhook);
        let spec = spec.and_then(|s| s.package(placement.package));
        let complete = placement.phase == Phase::Complete;
        PackageRow {
            name: placement.package.to_owned(),
            version: placement.version.to_owned(),
            image: match entry {
                Some(entry) => entry.image.to_string(),
                None => spec.map_or_else(String::new, |p| p.image.clone()),
            },
            container_sha: entry.map_or_else(String::new, |e| e.container_sha.to_string()),
            stage: entry.map_or_else(String::new, |e| e.stage.to_string()),
            state: entry.map_or_else(String::new, |e| e.state.to_string()),
            restarts: entry.map_or(0, |e| e.restarts),
            since: since.map(|at| at.to_string()),
            runs_for: since.map_or_else(String::new, |at| age(Some(at), cluster.taken_at)),
            node_name: placement.node.name.to_string(),
            skyhook_name: placement.skyhook.to_owned(),
            spec_version: spec.map(|package| package.version.clone()),
            in_spec: placement.in_spec(),
            complete: placement.in_spec().map(|_| complete),
            recorded: entry.is_some(),
            node_status: on
                .map_or(Status::Unknown, NodeRecord::operator_status)
                .to_string(),
            selected: placement.selected,
            ignored: placement.ignored,
            uninstalling: placement.leaves(),
            never_installed: placement.phase == Phase::NeverInstalled,
            malformed: placement.malformed.map(str::to_owned),
            phase: placement.phase,
        }
    }
}

impl PackageRow {
    /// Whether the node has a version that is not that of the spec.
    pub fn drifts(&self) -> bool {
        self.recorded && self.in_spec == Some(false)
    }

    /// The recorded state; before the first stage, the status of the node.
    pub fn status(&self) -> &str {
        match self.state.as_str() {
            "" => &self.node_status,
            state => state,
        }
    }

    /// Whether the package fails, or its state cannot be read.
    pub fn fails(&self) -> bool {
        let fails = matches!(
            self.phase,
            Phase::Failing | Phase::UninstallFailing | Phase::Malformed
        );
        // Of a version that is not in the spec, only the state says so.
        fails || self.state == State::Erroring.as_str()
    }
}

/// The phase of a package in words.
pub fn words(phase: Phase) -> &'static str {
    match phase {
        Phase::Malformed => "malformed",
        Phase::NotStarted => "not started",
        Phase::Absent => "absent",
        Phase::NeverInstalled => "never installed",
        Phase::Running | Phase::Uninstalling => "in progress",
        Phase::Failing | Phase::UninstallFailing => "erroring",
        Phase::Complete => "complete",
        Phase::Uninstalled => "finished, still recorded",
        Phase::NotInSpec => "not in the spec",
    }
}

/// The packages of a custom resource on the nodes that it selects or left state on, by node, name
/// and version; of one package, if it is named.
pub fn rows(
    cluster: &Cluster,
    nodes: &[&Node],
    skyhook: &str,
    package: Option<&str>,
) -> Vec<PackageRow> {
    let placements = nodes.iter().flat_map(|n| cluster.placements_on(skyhook, n));
    let wanted = placements.filter(|p| {
        p.phase == Phase::Malformed || package.is_none_or(|package| p.package == package)
    });
    let package_runs = cluster.package_runs();
    wanted
        .map(|p| PackageRow::of(cluster, &package_runs, &p))
        .collect()
}
