//! One package on one node.

use schemars::JsonSchema;
use serde::Serialize;

use super::scope::identity;
use crate::api::{Entry, Skyhook, Stage, State, Status};
use crate::cluster::{Absence, Cluster, Node, OnNode};

/// A package on a node. The names of the first eight fields are those of upstream's CLI, which
/// leaves out what is empty or zero.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    pub name: String,
    pub version: String,
    pub image: String,
    #[serde(rename = "containerSHA", skip_serializing_if = "String::is_empty")]
    pub container_sha: String,
    /// Empty if nothing is recorded.
    pub stage: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub state: String,
    /// Failed attempts of the present stage.
    #[serde(skip_serializing_if = "is_zero")]
    pub restarts: i64,
    pub node_name: String,
    /// Whether the spec asks for this package at this version; null if it could not be read.
    pub in_spec: Option<bool>,
    /// Whether the package has reached its last stage; null if the spec could not be read.
    pub complete: Option<bool>,
    /// Whether the node's state holds the package.
    pub recorded: bool,
    /// What the operator says of the node; `unknown` where it has said nothing yet.
    pub node_status: String,
    /// Whether the custom resource selects the node.
    pub selected: bool,
    /// Whether the user asks the operator to leave the node alone.
    pub ignored: bool,
    /// Whether the package is to be uninstalled.
    pub uninstalling: bool,
    /// Why the node's state cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub malformed: Option<String>,
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

impl Row {
    /// `complete`, `erroring`, `under way`, `finished, still recorded`, `not in the spec`, `not begun`, `absent` or `malformed`.
    pub fn summary(&self) -> &'static str {
        match (&self.malformed, self.recorded) {
            (Some(_), _) => "malformed",
            (None, false) if self.uninstalling => "absent",
            (None, false) => "not begun",
            (None, true) if self.complete == Some(true) => "complete",
            (None, true) if self.state == State::Erroring.as_str() => "erroring",
            (None, true) if self.in_spec == Some(false) && !self.uninstalling => "not in the spec",
            // Without the spec, whether an interrupt was still to come is not known.
            (None, true) if self.complete.is_none() && self.finished() => {
                match self.stage.starts_with("uninstall") {
                    true => "finished, still recorded",
                    false => "complete",
                }
            }
            (None, true) => "under way",
        }
    }
}

impl Row {
    fn finished(&self) -> bool {
        let last = [
            Stage::Config,
            Stage::PostInterrupt,
            Stage::Uninstall,
            Stage::UninstallInterrupt,
        ];
        self.state == State::Complete.as_str() && last.iter().any(|s| self.stage == s.as_str())
    }
}

/// The packages of a custom resource on the nodes that it selects or left state on, by node, name
/// and version; of one package, if it is named.
pub fn rows(cluster: &Cluster, nodes: &[&Node], skyhook: &str, package: Option<&str>) -> Vec<Row> {
    let spec = cluster.skyhook(skyhook);
    let mut rows = Vec::new();
    for node in nodes {
        let place = Place {
            cluster,
            node,
            spec,
            on: cluster.on_node(node, skyhook),
        };
        let mut here = place.rows();
        here.retain(|row| {
            row.malformed.is_some() || package.is_none_or(|package| row.name == package)
        });
        here.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
        rows.extend(here);
    }
    rows
}

/// A custom resource on a node.
struct Place<'a> {
    cluster: &'a Cluster,
    node: &'a Node,
    spec: Option<&'a Skyhook>,
    on: Option<&'a OnNode>,
}

impl Place<'_> {
    fn rows(&self) -> Vec<Row> {
        let entries = self.on.map_or(&[][..], |on| on.entries());
        let malformed = self.on.and_then(|on| on.state.as_ref());
        let malformed = malformed.map_or(&[][..], |state| state.malformed());
        let mut rows: Vec<Row> = entries.iter().map(|e| self.recorded(e)).collect();
        rows.extend(malformed.iter().map(|m| Row {
            malformed: Some(m.error.clone()),
            ..self.empty()
        }));
        // What a damaged state does not show may still be in it.
        if malformed.is_empty() && self.selected() {
            let packages = self.spec.into_iter().flat_map(|s| s.packages());
            rows.extend(
                packages
                    .filter(|(name, package)| {
                        let key = package.entry_key(name);
                        entries.iter().all(|e| e.key != key)
                    })
                    .map(|(name, package)| Row {
                        name: name.to_owned(),
                        version: package.version.clone(),
                        image: package.image.clone(),
                        in_spec: Some(true),
                        complete: Some(false),
                        uninstalling: self.uninstalling(name),
                        ..self.empty()
                    }),
            );
        }
        rows
    }

    fn recorded(&self, entry: &Entry) -> Row {
        let (name, version) = identity(entry);
        let wanted = |s: &Skyhook| s.package(name).is_some_and(|p| p.version == version);
        let done = |s: &Skyhook| wanted(s) && s.is_package_complete(name, entry);
        let known = self.spec.is_some() || self.cluster.skyhooks.absence() == Absence::Proven;
        Row {
            name: name.to_owned(),
            version: version.to_owned(),
            image: entry.image.clone(),
            container_sha: entry.container_sha.clone(),
            stage: entry.stage.to_string(),
            state: entry.state.to_string(),
            restarts: entry.restarts,
            in_spec: known.then(|| self.spec.is_some_and(wanted)),
            complete: known.then(|| self.spec.is_some_and(done)),
            recorded: true,
            uninstalling: self.uninstalling(name),
            ..self.empty()
        }
    }

    fn empty(&self) -> Row {
        let status = self.on.map_or(Status::Unknown, OnNode::operator_status);
        Row {
            node_name: self.node.name.clone(),
            node_status: status.to_string(),
            selected: self.selected(),
            ignored: self.node.ignored(self.cluster.generation()),
            ..Row::default()
        }
    }

    fn selected(&self) -> bool {
        self.spec
            .is_some_and(|s| s.spec.node_selectors.matches(&self.node.labels))
    }

    fn uninstalling(&self, package: &str) -> bool {
        self.spec.is_some_and(|skyhook| {
            let declared = skyhook.package(package).map(|p| p.uninstall());
            declared.is_some_and(|u| u.enabled && (u.apply || skyhook.deleting()))
        })
    }
}
