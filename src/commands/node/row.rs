//! One custom resource on one node, as the node commands show it.

use schemars::JsonSchema;
use serde::Serialize;

use crate::api::{Entry, Package, Skyhook, Status};
use crate::cluster::rollout::Progress;
use crate::cluster::{Absence, Cluster, Node, OnNode};

/// What a custom resource did on a node. The names of the first seven fields are those of
/// upstream's CLI.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    pub node_name: String,
    pub skyhook_name: String,
    /// What the operator says of the node; `unknown` where it has said nothing yet.
    pub status: String,
    /// Packages of the spec that have reached their last stage; of a deletion, also those that it uninstalled.
    pub packages_complete: usize,
    /// Packages of the spec; of a custom resource that is gone, the packages recorded.
    pub packages_total: usize,
    pub packages: Vec<PackageRow>,
    /// Whether the node is cordoned.
    pub cordoned: bool,
    /// Whether the node stays cordoned until someone outside the operator releases it.
    pub runtime_required_cordon: bool,
    /// The custom resources that hold the cordon.
    pub cordoned_by: Vec<String>,
    /// Whether the node still carries the runtime-required taint.
    pub runtime_required_taint: bool,
    /// The custom resources that keep the taint there.
    pub taint_kept_by: Vec<String>,
    /// Whether the custom resource is known to be gone.
    pub gone: bool,
    /// Whether the custom resource selects the node; `null` where it could not be read.
    pub selected: Option<bool>,
    /// Whether the user asks the operator to leave the node alone.
    pub ignored: bool,
    /// Why the node state cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub malformed: Option<String>,
    /// `key=value`, as kubectl shows them.
    #[serde(skip)]
    pub labels: String,
}

/// One package recorded on a node.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PackageRow {
    pub name: String,
    pub version: String,
    pub stage: String,
    pub state: String,
    /// Failed attempts of the present stage.
    pub restarts: i64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub image: String,
    /// Whether the spec asks for this package at this version.
    pub in_spec: bool,
}

impl Row {
    pub fn new(cluster: &Cluster, node: &Node, name: &str) -> Row {
        let keys = node.keys(cluster.generation());
        let skyhook = cluster.skyhook(name);
        let on = keys.skyhooks.get(name);
        let gone = skyhook.is_none() && cluster.skyhooks.absence() == Absence::Proven;
        let progress = progress(skyhook, on);
        let malformed = on
            .and_then(|on| on.state.as_ref())
            .and_then(|s| s.malformed().first());
        Row {
            node_name: node.name.clone(),
            skyhook_name: name.to_owned(),
            status: on
                .map_or(Status::Unknown, OnNode::operator_status)
                .to_string(),
            packages_complete: progress.complete,
            packages_total: progress.total,
            packages: packages(skyhook, on),
            cordoned: node.unschedulable,
            runtime_required_cordon: keys.runtime_required_cordon,
            cordoned_by: keys
                .skyhooks
                .iter()
                .filter(|(_, on)| on.cordon)
                .map(|(n, _)| n.clone())
                .collect(),
            runtime_required_taint: cluster.runtime_required_taint(node).is_some(),
            taint_kept_by: cluster
                .taint_kept_by(node)
                .iter()
                .map(|s| s.name().to_owned())
                .collect(),
            gone,
            selected: match skyhook {
                Some(skyhook) => Some(skyhook.spec.node_selectors.matches(&node.labels)),
                None => gone.then_some(false),
            },
            ignored: node.ignored(cluster.generation()),
            malformed: malformed.map(|m| m.error.clone()),
            labels: labels(node),
        }
    }

    /// Failed attempts of all packages.
    pub fn restarts(&self) -> i64 {
        self.packages.iter().map(|p| p.restarts).sum()
    }

    /// What else there is to know, in a few words.
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
        if self.cordoned && self.cordoned_by.is_empty() && !self.runtime_required_cordon {
            notes.push("not cordoned by the operator");
        }
        notes.join(", ")
    }

    /// `1/2`, or that the state cannot be read.
    pub fn progress(&self) -> String {
        match self.malformed {
            Some(_) => "malformed".to_owned(),
            None => format!("{}/{}", self.packages_complete, self.packages_total),
        }
    }
}

fn labels(node: &Node) -> String {
    let labels = node
        .labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"));
    labels.collect::<Vec<_>>().join(",")
}

/// The pairs of node and custom resource to show: where it selects the node, or left keys there.
pub fn rows(cluster: &Cluster, nodes: &[&Node], only: Option<&str>) -> Vec<Row> {
    let mut rows = Vec::new();
    for node in nodes {
        let keys = node.keys(cluster.generation()).skyhooks.iter();
        let mut names: Vec<&str> = keys
            .filter(|(_, on)| on.has_keys())
            .map(|(n, _)| n.as_str())
            .collect();
        let selecting = cluster.skyhooks.items().iter();
        names.extend(
            selecting
                .filter(|s| s.spec.node_selectors.matches(&node.labels))
                .map(Skyhook::name),
        );
        names.sort_unstable();
        names.dedup();
        names.retain(|name| only.is_none_or(|only| only == *name));
        rows.extend(names.into_iter().map(|name| Row::new(cluster, node, name)));
    }
    rows
}

/// How far a custom resource has got; of one that is gone, the entries say so themselves.
fn progress(skyhook: Option<&Skyhook>, on: Option<&OnNode>) -> Progress {
    match (skyhook, on) {
        (Some(skyhook), on) if on.is_some_and(OnNode::is_malformed) => Progress {
            complete: 0,
            total: skyhook.spec.packages.len(),
        },
        (Some(skyhook), on) if skyhook.deleting() => deletion(skyhook, on),
        (Some(skyhook), on) => skyhook.progress(on),
        (None, Some(on)) => {
            let complete = on
                .entries()
                .iter()
                .filter(|e| e.state == crate::api::State::Complete);
            Progress {
                complete: complete.count(),
                total: on.entries().len(),
            }
        }
        (None, None) => Progress::default(),
    }
}

/// How far a deletion has got: what it uninstalls is done where it is absent, and only there.
fn deletion(skyhook: &Skyhook, on: Option<&OnNode>) -> Progress {
    let done = |(name, package): &(&str, &Package)| {
        let entry = on.and_then(|on| on.entry(&package.entry_key(name)));
        match skyhook.uninstalls(package) {
            true => entry.is_none(),
            false => entry.is_some_and(|e| skyhook.is_package_complete(name, e)),
        }
    };
    Progress {
        complete: skyhook.packages().filter(done).count(),
        total: skyhook.spec.packages.len(),
    }
}

fn packages(skyhook: Option<&Skyhook>, on: Option<&OnNode>) -> Vec<PackageRow> {
    let mut entries: Vec<&Entry> = on.map_or(&[][..], |on| on.entries()).iter().collect();
    entries.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    entries
        .into_iter()
        .map(|entry| PackageRow {
            name: entry.name.clone(),
            version: entry.version.clone(),
            stage: entry.stage.to_string(),
            state: entry.state.to_string(),
            restarts: entry.restarts,
            image: entry.image.clone(),
            in_spec: skyhook
                .and_then(|s| s.package(&entry.name))
                .is_some_and(|p| p.version == entry.version),
        })
        .collect()
}
