//! The summary of one custom resource.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::uninstalls::UninstallRow;
use super::{Findings, uninstalls};
use crate::api::skyhook::{CompartmentStatus, compartment_title};
use crate::api::{Skyhook, Status};
use crate::cluster::{Cluster, Node, NodeRecord, PackageRuns, Phase, Placement};
use crate::commands::shared::deletion::{self, Deletion};
use crate::commands::shared::progress::{Next, ResourceProgress};
use crate::commands::shared::rows::{StageStart, drift, phase_label};
use crate::model::{AtOnce, Model, PackageDocument, ProgressState, RolloutDocument};
use crate::outlook::{NodeStates, Outlook, Summary};
use crate::view::time;
use crate::wait::drain::Drain;

/// A custom resource and its progress.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SkyhookProgress {
    /// `Skyhook` or `NodeWright`.
    pub kind: String,
    /// The name of the custom resource.
    pub name: String,
    /// Whether the custom resource exists; if not, nodes may still have its annotations or labels.
    pub exists: bool,
    /// The operator's status of the custom resource; `unknown` if it has not set one yet.
    pub status: String,
    /// The priority; the lowest runs first.
    pub priority: i64,
    /// The generation of the spec: each change adds one.
    pub generation: i64,
    /// The manager that last wrote the spec; absent without managedFields, which kubectl leaves out of files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec_writer: Option<SpecWriter>,
    /// Whether the custom resource is paused.
    pub paused: bool,
    /// Whether the custom resource is disabled.
    pub disabled: bool,
    /// The reason noted for pausing or disabling; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// Who paused or disabled the custom resource; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<String>,
    /// The time at which the custom resource was paused or disabled; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped_since: Option<String>,
    /// Whether the deletion of the custom resource was requested.
    pub deleting: bool,
    /// The time of the deletion request; absent if the deletion was not requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deleting_since: Option<String>,
    /// The nodes of the custom resource; absent if they could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Nodes>,
    /// The package versions on its nodes.
    pub packages: Vec<Package>,
    /// The deployment policy; absent if there is none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub deployment_policy: String,
    /// The compartments of the rollout.
    pub compartments: Vec<Compartment>,
    /// The work until the custom resource is complete; only if it was named, and its rollout goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_come: Option<ToCome>,
    /// The progress by node, with the operator's next actions; only if the custom resource was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<ResourceProgress>,
    /// The deletion; only if it was requested and the custom resource was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion: Option<deletion::Document>,
    /// Uninstalls that are requested or in progress, by package and node; only if the custom resource was named.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub uninstalls: Vec<UninstallRow>,
    #[serde(flatten)]
    pub summary: Summary,
    /// Number of causes that `diagnose stuck` reports about the custom resource.
    #[serde(rename = "counts")]
    pub findings: Findings,
}

/// Number of nodes of a custom resource.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Nodes {
    /// Number of nodes that the custom resource selects.
    #[serde(rename = "total")]
    pub selected: usize,
    #[serde(flatten)]
    states: NodeStates,
    /// Number of selected nodes with the ignore label.
    pub ignored: usize,
    /// Number of selected nodes whose state cannot be read.
    pub malformed: usize,
    /// Number of nodes that are not selected but have annotations or labels of the custom resource.
    pub left_behind: usize,
    /// Number of selected nodes by the operator's status.
    pub by_status: BTreeMap<String, usize>,
    /// Selected nodes that are being drained.
    pub draining: Vec<DrainingNode>,
    #[serde(skip)]
    pub names: BTreeMap<String, Vec<String>>,
}

/// The work until a custom resource is complete, once what holds it up is fixed.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ToCome {
    /// The stages that run, by package.
    pub effects: Vec<PackageDocument>,
    /// Cordons, drains and batches.
    pub rollout: RolloutDocument,
}

impl ToCome {
    /// `None` if nothing runs, or the rollout does not complete; also if an interrupt fails, which the model counts as running
    /// although it starts again.
    fn of(cluster: &Cluster, name: &str) -> Option<ToCome> {
        let package_runs = cluster.package_runs_for(name);
        if package_runs.all().iter().any(|run| run.interrupt && run.trouble().is_some()) {
            return None;
        }
        let effects = crate::model::effects(cluster, cluster, &[name]).pop()?;
        let runs = effects.packages.iter().any(|package| !package.nodes.is_empty());
        (runs && (effects.stuck.is_none() || effects.drain_refused))
            .then_some(ToCome { effects: effects.packages, rollout: effects.rollout })
    }
}

/// A manager of fields, as in managedFields.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpecWriter {
    /// The manager, such as `kubectl-client-side-apply` or `argocd-controller`.
    pub manager: String,
    /// The time of its last write; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

/// A selected node that is being drained.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DrainingNode {
    /// The node.
    pub node: String,
    #[serde(flatten)]
    pub drain: Drain,
}

/// A package version on the selected nodes; for a deleted custom resource, on the nodes that still record it.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Package {
    /// The package.
    pub name: String,
    /// The version.
    pub version: String,
    /// Whether the spec contains the package at this version.
    pub in_spec: bool,
    /// Whether the package is to be uninstalled.
    pub uninstalling: bool,
    /// Number of nodes on which the package has reached its last stage; 0 if the spec does not contain it or
    /// could not be read.
    pub complete: usize,
    /// Number of nodes without the package; if it is to be uninstalled, these are done.
    pub absent: usize,
    /// Number of nodes on which the package is recorded, or is to be installed.
    pub nodes: usize,
    /// Number of nodes by stage and state.
    pub stages: Vec<StageCount>,
}

/// The nodes with a package at one stage and state.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StageCount {
    /// The recorded stage; absent without a record.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stage: String,
    /// The recorded state of the stage; absent without a record.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub state: String,
    /// The phase of the package.
    pub phase: Phase,
    /// Number of nodes.
    pub nodes: usize,
    /// The earliest start of the running stage on these nodes; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<StageStart>,
}

impl SkyhookProgress {
    /// How the version of a package differs from the spec; `None` if the spec has it.
    pub fn drift(&self, package: &Package) -> Option<String> {
        let in_spec = self.packages.iter().find(|other| other.in_spec && other.name == package.name);
        (!package.in_spec).then(|| drift(in_spec.map(|other| other.version.as_str())))
    }
}

impl StageCount {
    /// Stage and state, separated by this text, or the phase without a record.
    pub fn place(&self, separator: &str) -> String {
        match self.stage.as_str() {
            "" => phase_label(self.phase).to_owned(),
            stage => format!("{stage}{separator}{}", self.state),
        }
    }
}

/// A compartment of a rollout: its nodes, and its batch as the operator's status reports it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Compartment {
    /// The name of the compartment.
    pub name: String,
    /// The state of the compartment; if its nodes are unknown, of the custom resource.
    #[serde(rename = "state")]
    pub assessment: ProgressState,
    /// Number of nodes in the compartment.
    pub nodes: i64,
    /// Number of complete nodes.
    pub completed: i64,
    /// Number of nodes in progress.
    pub in_progress: i64,
    /// Maximum number of nodes that the budget allows at once. If the compartment has a batch strategy,
    /// `atOnce` applies instead.
    pub ceiling: i64,
    /// Maximum number of nodes in progress at once; absent if the strategy changes it from batch to batch, or
    /// it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_once: Option<i64>,
    /// The limit on nodes in progress at once.
    #[serde(skip)]
    pub bound: AtOnce,
    /// The number of the current batch.
    pub batch: i64,
    /// Number of failed nodes that the batch state records.
    pub failed: i64,
    /// Whether failures have stopped the compartment.
    pub stopped: bool,
    /// The nodes that the operator takes next.
    pub next_nodes: Next,
}

/// The progress of a custom resource, also of a deleted one with keys on nodes. `named` adds its nodes.
pub fn progress<'a>(
    outlook: &Outlook<'a>,
    package_runs: &PackageRuns<'a>,
    name: &'a str,
    named: bool,
) -> SkyhookProgress {
    let cluster = outlook.cluster;
    let skyhook = cluster.skyhook(name);
    let has_keys = |node: &Node| cluster.on_node(node, name).is_some_and(NodeRecord::has_keys);
    let nodes: Vec<&Node> =
        cluster.nodes_of(name).filter(|node| selects(skyhook, node) || has_keys(node)).collect();
    let status = skyhook.and_then(|s| s.status.status.clone());
    let stop = skyhook.and_then(Skyhook::stop);
    let summary = outlook.resource(name);
    SkyhookProgress {
        kind: cluster.flavor().kind().to_owned(),
        name: name.to_owned(),
        exists: skyhook.is_some(),
        status: status.unwrap_or(Status::Unknown).to_string(),
        priority: skyhook.map_or(0, |s| s.order().0),
        generation: skyhook.map_or(0, |s| s.metadata.generation),
        spec_writer: skyhook
            .and_then(Skyhook::last_spec_writer)
            .map(|writer| SpecWriter { manager: writer.manager.clone(), at: writer.time.map(time) }),
        paused: skyhook.is_some_and(Skyhook::paused),
        disabled: skyhook.is_some_and(Skyhook::disabled),
        stop_reason: stop.as_ref().and_then(|stop| stop.reason).map(str::to_owned),
        stopped_by: stop.as_ref().and_then(|stop| stop.by.as_deref()).map(str::to_owned),
        stopped_since: stop.and_then(|stop| stop.since).map(time),
        deleting: skyhook.is_some_and(Skyhook::deleting),
        deleting_since: skyhook.and_then(|s| s.metadata.deletion_timestamp).map(time),
        packages: packages(cluster, package_runs, name),
        nodes: cluster
            .nodes
            .ok()
            .map(|_| Nodes::new(cluster, &outlook.model, &nodes, name, summary.node_states)),
        deployment_policy: skyhook.map_or_else(String::new, |s| s.spec.deployment_policy.clone()),
        compartments: skyhook.map_or_else(Vec::new, |skyhook| compartments(outlook, skyhook, &summary)),
        to_come: named.then(|| ToCome::of(cluster, name)).flatten(),
        progress: named.then(|| ResourceProgress::of(outlook, name)).flatten(),
        deletion: skyhook
            .filter(|_| named)
            .and_then(|skyhook| Deletion::of(outlook, skyhook))
            .map(|deletion| deletion::Document::of(&deletion)),
        uninstalls: if named && cluster.nodes.ok().is_some() {
            uninstalls::rows(outlook, package_runs, name)
        } else {
            Vec::new()
        },
        summary,
        findings: Findings::about(name, &outlook.impact),
    }
}

fn compartments(outlook: &Outlook<'_>, skyhook: &Skyhook, summary: &Summary) -> Vec<Compartment> {
    let model = &outlook.model;
    let mut next = model.next_nodes(skyhook.name());
    let statuses = skyhook.status.compartment_statuses.iter();
    let compartment = |(name, status): (&String, &CompartmentStatus)| {
        let own = next.iter().position(|(compartment, _)| compartment == name);
        let next = own.map(|own| next.swap_remove(own).1);
        let number = |n| i64::try_from(n).unwrap_or(i64::MAX);
        // The operator's status may be older than the counts of the outlook.
        let counted = summary.compartments.iter().find(|(compartment, ..)| compartment == name);
        let (assessment, nodes, completed) = match counted {
            Some((_, state, nodes)) => (*state, number(nodes.all()), number(nodes.complete)),
            None => (summary.assessment, status.matched, status.completed),
        };
        let batch = status.batch_state.clone().unwrap_or_default();
        let bound = model.nodes_at_once(skyhook.name(), name);
        Compartment {
            name: name.clone(),
            assessment,
            nodes,
            completed,
            in_progress: status.in_progress,
            ceiling: status.ceiling,
            at_once: bound.limit(),
            bound,
            batch: batch.current_batch,
            failed: batch.failed_nodes,
            stopped: batch.should_stop,
            next_nodes: next.as_ref().map(Next::from).unwrap_or_default(),
        }
    };
    statuses.map(compartment).collect()
}

fn selects(skyhook: Option<&Skyhook>, node: &Node) -> bool {
    skyhook.is_some_and(|s| s.selects(node))
}

impl Nodes {
    fn new(cluster: &Cluster, model: &Model<'_>, nodes: &[&Node], name: &str, states: NodeStates) -> Nodes {
        let skyhook = cluster.skyhook(name);
        let by_status = Status::KNOWN.iter().map(|status| ((*status).to_owned(), 0)).collect();
        let mut counts = Nodes { by_status, states, ..Nodes::default() };
        for node in nodes {
            if !selects(skyhook, node) {
                counts.left_behind += 1;
                continue;
            }
            counts.selected += 1;
            counts.ignored += usize::from(node.ignored(cluster.flavor()));
            let on = cluster.on_node(node, name);
            counts.malformed += usize::from(on.is_some_and(NodeRecord::is_malformed));
            if on.is_some_and(NodeRecord::may_drain)
                && let Some(drain) = model.drain_progress(name, node)
            {
                counts
                    .draining
                    .push(DrainingNode { node: node.name.to_string(), drain: Drain::new(cluster, &drain) });
            }
            let status = on.map_or(Status::Unknown, NodeRecord::operator_status).to_string();
            *counts.by_status.entry(status.clone()).or_default() += 1;
            counts.names.entry(status).or_default().push(node.name.to_string());
        }
        counts
    }

    /// The statuses with their counts: finished first, then statuses that need attention.
    pub fn histogram(&self) -> Vec<(&str, usize)> {
        let place = |status: &str| {
            let order = ["complete", "in_progress", "erroring", "blocked", "waiting"];
            order.iter().position(|s| *s == status).unwrap_or(order.len())
        };
        let mut counts: Vec<(&str, usize)> =
            self.by_status.iter().map(|(status, n)| (status.as_str(), *n)).filter(|(_, n)| *n > 0).collect();
        counts.sort_by_key(|(status, _)| place(status));
        counts
    }
}

/// Package counts by name and version, versions of the spec first.
fn packages<'a>(cluster: &'a Cluster, package_runs: &PackageRuns<'a>, name: &'a str) -> Vec<Package> {
    let mut packages: BTreeMap<(bool, &str, &str), Package> = BTreeMap::new();
    let readable = (cluster.placements(name)).filter(|p| p.phase != Phase::Malformed);
    // A deleted custom resource has only leftovers.
    let gone = cluster.skyhook(name).is_none();
    for placement in readable.filter(|p| p.selected || gone) {
        let in_spec = placement.in_spec() == Some(true);
        let key = (!in_spec, placement.package, placement.version);
        let package = packages.entry(key).or_insert_with(|| Package {
            name: placement.package.to_owned(),
            version: placement.version.to_owned(),
            in_spec,
            uninstalling: placement.is_uninstall_wanted(),
            ..Package::default()
        });
        let since = package_runs.since(&placement).map(|at| StageStart::new(at, cluster));
        package.count(&placement, since);
    }
    let mut packages: Vec<Package> = packages.into_values().collect();
    for package in &mut packages {
        package.stages.sort_by(|a, b| (&a.stage, &a.state).cmp(&(&b.stage, &b.state)));
    }
    packages
}

impl Package {
    fn count(&mut self, placement: &Placement<'_>, since: Option<StageStart>) {
        self.nodes += 1;
        // Without the spec, the last stage is unknown.
        let complete = self.in_spec && placement.phase == Phase::Complete;
        self.complete += usize::from(complete);
        self.absent += usize::from(placement.phase == Phase::Absent);
        let (stage, state) = match placement.entry {
            Some(entry) => (entry.stage.as_str(), entry.state.as_str()),
            None => ("", ""),
        };
        let phase = placement.phase;
        let same = |s: &&mut StageCount| s.stage == stage && s.state == state && s.phase == phase;
        match self.stages.iter_mut().find(same) {
            Some(stage) => {
                stage.nodes += 1;
                // Timestamps are in UTC and have one format, so the smallest text is the earliest time.
                stage.since = stage.since.take().into_iter().chain(since).min();
            }
            None => self.stages.push(StageCount {
                stage: stage.to_owned(),
                state: state.to_owned(),
                phase,
                nodes: 1,
                since,
            }),
        }
    }
}

impl Compartment {
    pub fn title(&self) -> &str {
        compartment_title(&self.name)
    }
}
