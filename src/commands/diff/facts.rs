//! A cluster as comparable facts. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::api::{Skyhook, Status};
use crate::cluster::applied::changeable;
use crate::cluster::{Cluster, Node, NodeRecord, Read, Source};
use crate::commands::shared::package_row::PackageRows;
use crate::redact::placeholder::BEGIN as MASKED;
use crate::view::list;

/// The subject of a fact.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FactKey {
    /// The custom resource; `None` for facts of a node or of the operator.
    pub skyhook: Option<String>,
    /// `package driver`, `spec.packages.driver.version`, `cordon`.
    pub field: String,
    pub node: Option<String>,
}

pub type Facts = BTreeMap<FactKey, String>;

/// A fact that changed, with all nodes on which it changed in the same way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    pub skyhook: Option<String>,
    pub field: String,
    pub before: Option<String>,
    pub after: Option<String>,
    pub nodes: Vec<String>,
}

const COMPARED: [Source; 3] = [Source::Skyhooks, Source::Nodes, Source::Operator];

/// The sources that could not be read completely on either side, with reasons.
pub fn not_compared(old: &Cluster, new: &Cluster) -> Vec<(Source, String)> {
    let unread = |cluster: &Cluster, source| match cluster.source(source) {
        Read::Ok(_) => None,
        Read::NotRequested => Some("not in the input".to_owned()),
        Read::Incomplete(_, why) | Read::Unreadable(why) => Some(why.to_string()),
    };
    let missing = |source| {
        let sides = [("old", unread(old, source)), ("new", unread(new, source))];
        let reasons: Vec<String> =
            sides.into_iter().filter_map(|(side, why)| Some(format!("{side}: {}", why?))).collect();
        (!reasons.is_empty()).then(|| (source, list(&reasons)))
    };
    COMPARED.into_iter().filter_map(missing).collect()
}

/// The facts of a cluster, except those of the excluded sources.
pub fn facts(cluster: &Cluster, without: &BTreeSet<Source>) -> Facts {
    let mut facts = Collector(Facts::new());
    if !without.contains(&Source::Operator) {
        for deployment in cluster.acting_operators() {
            let version = deployment.operator_version();
            let version = version.map_or("unknown".to_owned(), |v| v.to_string());
            let field = format!("operator in namespace {}", deployment.namespace());
            facts.add(None, &field, None, version);
        }
    }
    if !without.contains(&Source::Skyhooks) {
        let skyhooks = cluster.skyhooks.items().iter();
        skyhooks.for_each(|skyhook| facts.skyhook(skyhook));
    }
    if !without.contains(&Source::Nodes) {
        cluster.nodes.items().iter().for_each(|node| facts.node(cluster, node));
        facts.packages(cluster);
    }
    facts.0
}

struct Collector(Facts);

impl Collector {
    fn add(&mut self, skyhook: Option<&str>, field: &str, node: Option<&str>, value: String) {
        let key = FactKey {
            skyhook: skyhook.map(str::to_owned),
            field: field.to_owned(),
            node: node.map(str::to_owned),
        };
        self.0.insert(key, value);
    }

    fn skyhook(&mut self, skyhook: &Skyhook) {
        let name = Some(skyhook.name());
        self.add(name, "custom resource", None, "exists".to_owned());
        let status = skyhook.status.status.as_ref();
        let status = status.unwrap_or(&Status::Unknown);
        self.add(name, "status", None, status.to_string());
        if skyhook.deleting() {
            self.add(name, "deletion", None, "requested".to_owned());
        }
        self.fields(skyhook.name(), "", &changeable(&skyhook.whole));
    }

    /// Adds the leaves of a JSON value as facts, by path.
    fn fields(&mut self, skyhook: &str, path: &str, value: &Value) {
        let children: Vec<(String, &Value)> = match value {
            Value::Object(members) if !members.is_empty() => {
                members.iter().map(|(key, value)| (format!("{path}.{key}"), value)).collect()
            }
            Value::Array(items) if !items.is_empty() => {
                items.iter().enumerate().map(|(at, value)| (format!("{path}[{at}]"), value)).collect()
            }
            _ => {
                let value = match value {
                    Value::String(text) => text.clone(),
                    value => value.to_string(),
                };
                let path = path.trim_start_matches('.');
                return self.add(Some(skyhook), path, None, value);
            }
        };
        for (path, value) in children {
            self.fields(skyhook, &path, value);
        }
    }

    fn node(&mut self, cluster: &Cluster, node: &Node) {
        let name = Some(node.name.as_str());
        let keys = node.keys(cluster.flavor());
        self.add(None, "node", name, "exists".to_owned());
        for (field, value) in
            [("ready", node.ready()), ("schedulable", node.cordoned().map(|cordoned| !cordoned))]
        {
            if let Some(value) = value {
                self.add(None, field, name, value.to_string());
            }
        }
        for taint in node.taints() {
            // Taints of the node controller repeat other facts.
            if !taint.key.starts_with("node.kubernetes.io/") {
                let field = format!("taint {}:{}", taint.key, taint.effect);
                self.add(None, &field, name, taint.value.clone());
            }
        }
        if let Some(ignore) = &keys.ignore {
            self.add(None, "ignore label", name, ignore.clone());
        }
        for (skyhook, record) in &keys.skyhooks {
            if record.status.is_some() {
                let status: Status = NodeRecord::operator_status(record);
                self.add(Some(skyhook), "node status", name, status.to_string());
            }
            if record.cordon {
                self.add(Some(skyhook), "cordon", name, "held".to_owned());
            }
        }
    }

    fn packages(&mut self, cluster: &Cluster) {
        let nodes: Vec<&Node> = cluster.nodes.items().iter().collect();
        for skyhook in cluster.names_on_nodes() {
            for row in PackageRows::of(cluster, &nodes, [skyhook], None).iter() {
                let node = Some(row.node);
                if let Some(why) = row.malformed {
                    self.add(Some(skyhook), "node state", node, format!("unreadable: {why}"));
                } else if row.recorded {
                    let field = format!("package {} {}", row.package, row.version);
                    let value = format!("{}/{}", row.stage, row.state);
                    self.add(Some(skyhook), &field, node, value);
                }
            }
        }
    }
}

/// The facts that differ, and the differing fields that a capture masks.
pub fn differences(old: &Facts, new: &Facts) -> (Vec<Difference>, Vec<String>) {
    let keys: BTreeSet<&FactKey> = old.keys().chain(new.keys()).collect();
    let mut found: BTreeMap<_, Vec<String>> = BTreeMap::new();
    let mut masked = BTreeSet::new();
    for key in keys {
        let (before, after) = (old.get(key), new.get(key));
        if before == after {
            continue;
        }
        let hidden = |value: Option<&String>| value.is_some_and(|value| value.contains(MASKED));
        if before.is_some() && after.is_some() && (hidden(before) || hidden(after)) {
            let skyhook = key.skyhook.as_deref().unwrap_or_default();
            masked.insert(format!("{skyhook} {}", key.field));
            continue;
        }
        // A created or deleted object is one difference, without its fields.
        if created_or_deleted(old, new, key) {
            continue;
        }
        let group = (key.skyhook.clone(), key.field.clone(), before, after);
        found.entry(group).or_default().extend(key.node.clone());
    }
    let found = found.into_iter().map(|((skyhook, field, before, after), nodes)| Difference {
        skyhook,
        field,
        before: before.cloned(),
        after: after.cloned(),
        nodes,
    });
    (found.collect(), masked.into_iter().collect())
}

/// Whether the fact is a field of a node or custom resource that exists on one side only.
fn created_or_deleted(old: &Facts, new: &Facts, key: &FactKey) -> bool {
    let (field, skyhook) = match (&key.skyhook, &key.node) {
        (Some(name), None) => ("custom resource", Some(name.clone())),
        (None, Some(_)) => ("node", None),
        _ => return false,
    };
    let object = FactKey { skyhook, field: field.to_owned(), node: key.node.clone() };
    key.field != field && old.contains_key(&object) != new.contains_key(&object)
}
