//! Documents to the pieces of a cluster. Pure.

use std::collections::{BTreeSet, HashSet};

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::collected;
use super::kinds::resource_of;
use super::layout::Namespaces;
use crate::api::Generation;
use crate::cluster::admission::CONFIGURATIONS;
use crate::cluster::capture::{Index, index};
use crate::cluster::nulls::drop_nulls;
use crate::cluster::{Cluster, Parts, Pod, Read, Ruling, clock, config_map};

/// Collects objects, each once, and remembers what was asked for.
#[derive(Debug, Default)]
pub struct Gatherer {
    parts: Parts,
    seen: HashSet<(String, String, String, String)>,
    newest: Option<Timestamp>,
    /// When the files were written, and what the capture says of its own time.
    written: Option<Timestamp>,
    captured: Option<Timestamp>,
    /// What a capture of `collect` says of itself, and the files that were there.
    index: Option<Index>,
    files: BTreeSet<String>,
    /// Of which namespaces a tree holds something.
    pub namespaces: Namespaces,
}

impl Gatherer {
    /// Takes a document: an object, a `List`, or a list of one kind such as `PodList`.
    ///
    /// # Errors
    ///
    /// What the document is, if it is not an object with a kind.
    pub fn add(&mut self, path: &str, stem: &str, document: Value) -> Result<(), String> {
        let Value::Object(mut object) = document else {
            return Err("a value without a kind".to_owned());
        };
        let word = |key: &str| object.get(key).and_then(Value::as_str).map(str::to_owned);
        let (Some(kind), Some(api_version)) = (word("kind"), word("apiVersion")) else {
            return Err("a value without kind and apiVersion".to_owned());
        };
        self.files.insert(stem.to_owned());
        if kind == index::KIND && api_version == index::API_VERSION {
            let index = serde_json::from_value(Value::Object(object));
            self.index = Some(index.map_err(|e| format!("an index that makes no sense: {e}"))?);
            return Ok(());
        }
        let Some(of) = kind
            .strip_suffix("List")
            .filter(|_| object.contains_key("items"))
        else {
            self.object(path, &api_version, &kind, Value::Object(object));
            return Ok(());
        };
        let items = match object.remove("items") {
            Some(Value::Array(items)) => items,
            Some(Value::Null) | None => Vec::new(),
            Some(_) => return Err("a List whose items are no list".to_owned()),
        };
        // A list of one kind says that the kind was asked for, even when it is empty. So does an
        // empty List in a file named after a resource.
        if !of.is_empty() {
            self.asked(&api_version, of);
        } else if items.is_empty()
            && let Some((api_version, kind)) = resource_of(stem)
        {
            self.asked(&api_version, kind);
        }
        for mut item in items {
            let word = |key: &str| item.get(key).and_then(Value::as_str).map(str::to_owned);
            // Lists of one kind leave kind and apiVersion out of their items.
            let item_kind = word("kind").unwrap_or_else(|| of.to_owned());
            let item_version = word("apiVersion").unwrap_or_else(|| api_version.clone());
            if item_kind.is_empty() {
                return Err("an item without kind".to_owned());
            }
            if item.is_object() && item["kind"].is_null() {
                item["kind"] = item_kind.clone().into();
                item["apiVersion"] = item_version.clone().into();
            }
            self.object(path, &item_version, &item_kind, item);
        }
        Ok(())
    }

    /// Notes when a file was written.
    pub fn written(&mut self, at: Option<Timestamp>) {
        self.written = self.written.max(at);
    }

    /// Notes what the capture says of its own time.
    pub fn captured(&mut self, at: Option<Timestamp>) {
        self.captured = self.captured.max(at);
    }

    /// The cluster; `None` if nothing in the files could be about the operator.
    pub fn finish(mut self, asked_for: Option<Generation>) -> Option<Cluster> {
        self.parts.from_files = true;
        self.parts.asked_for = asked_for;
        if let Some(index) = self.index {
            return Some(collected::finish(self.parts, &index, &self.files));
        }
        let newest = self.newest.unwrap_or_default();
        let (taken_at, clock) = clock::of_files(newest, self.captured, self.written);
        self.parts.taken_at = taken_at;
        self.parts.clock = clock;
        self.parts.served = self.traces();
        if !self.namespaces.restrict(&mut self.parts) {
            self.parts.note_only_namespace();
        }
        let known = self.parts.nodes.was_asked() || !self.parts.served.is_empty();
        if !known {
            return None;
        }
        let ruling = self.parts.ruling().unwrap_or_else(|| Ruling {
            generation: Generation::NodeWright,
            because: vec!["nothing in the files says which".to_owned()],
            served: Vec::new(),
            operator_version: None,
        });
        Some(self.parts.assemble(ruling))
    }

    /// The generations of which the files hold objects or keys.
    fn traces(&self) -> Vec<Generation> {
        let of = |g: &Generation| {
            let labelled = |m: &crate::api::Meta| m.labels.contains_key(&g.key("name"));
            self.parts.skyhooks[*g as usize].was_asked()
                || self
                    .parts
                    .nodes
                    .items()
                    .iter()
                    .any(|n| !n.keys(*g).skyhooks.is_empty())
                || self
                    .parts
                    .pods
                    .items()
                    .iter()
                    .any(|p| labelled(&p.metadata))
                || self
                    .parts
                    .jobs
                    .items()
                    .iter()
                    .any(|j| labelled(&j.metadata))
        };
        Generation::ALL.into_iter().filter(of).collect()
    }

    fn object(&mut self, path: &str, api_version: &str, kind: &str, value: Value) {
        let meta = |key: &str| {
            value["metadata"][key]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        let identity = (
            kind.to_owned(),
            group(api_version).to_owned(),
            meta("namespace"),
            meta("name"),
        );
        if !self.seen.insert(identity) {
            return;
        }
        let newest = newest_time(&value);
        // Other objects may tell of the future: a certificate says when it is to be renewed.
        if self.sort_in(api_version, kind, Some(Item { path, kind, value })) {
            self.newest = self.newest.max(newest);
        }
    }

    /// Notes that a kind was asked for, though none may be there.
    fn asked(&mut self, api_version: &str, kind: &str) {
        self.sort_in(api_version, kind, None);
    }

    /// Puts an item where its kind belongs, or just notes that the kind was asked for.
    ///
    /// Returns whether the kind is one that we know.
    fn sort_in(&mut self, api_version: &str, kind: &str, item: Option<Item<'_>>) -> bool {
        let parts = &mut self.parts;
        match (group(api_version), kind) {
            ("", "Node") => take(&mut parts.nodes, item),
            ("", "Pod") => {
                // Pods are asked for as one kind: the other sort may just not be there.
                take::<Pod>(&mut parts.pods, None);
                take::<Pod>(&mut parts.workloads, None);
                let of_a_package = item.as_ref().is_some_and(Item::is_of_a_package);
                take(
                    if of_a_package {
                        &mut parts.pods
                    } else {
                        &mut parts.workloads
                    },
                    item,
                );
            }
            ("" | "events.k8s.io", "Event") => take(&mut parts.events, item),
            ("batch", "Job") => take(&mut parts.jobs, item),
            ("policy", "PodDisruptionBudget") => take(&mut parts.disruption_budgets, item),
            ("apps", "Deployment") => take(&mut parts.deployments, item),
            ("", "ConfigMap") => match item {
                Some(item) if !item.is_ours() => return false,
                item => take(&mut parts.config_maps, item),
            },
            ("", "Namespace") => {
                let name = item
                    .as_ref()
                    .and_then(|item| item.value["metadata"]["name"].as_str());
                self.namespaces.exists(name);
                return false;
            }
            ("", "Service") => take(&mut parts.admission.services, item),
            ("discovery.k8s.io", "EndpointSlice") => take(&mut parts.admission.endpoints, item),
            ("admissionregistration.k8s.io", kind)
                if CONFIGURATIONS.iter().any(|(known, _)| *known == kind) =>
            {
                take(&mut parts.admission.webhooks, item);
            }
            (group, kind) => match Generation::of_group(group) {
                Some(generation) if kind == generation.kind() => {
                    take(&mut parts.skyhooks[generation as usize], item);
                }
                Some(generation) if kind == "DeploymentPolicy" => {
                    take(&mut parts.policies[generation as usize], item);
                }
                _ => return false,
            },
        }
        true
    }
}

/// An object on its way to its source.
struct Item<'a> {
    path: &'a str,
    kind: &'a str,
    value: Value,
}

impl Item<'_> {
    /// A ConfigMap that the operator made.
    fn is_ours(&self) -> bool {
        let labels = &self.value["metadata"]["labels"];
        let keys = Generation::ALL.map(config_map::labels);
        keys.iter().flatten().any(|key| labels.get(key).is_some())
    }

    fn is_of_a_package(&self) -> bool {
        let labels = &self.value["metadata"]["labels"];
        Generation::ALL
            .iter()
            .any(|g| labels.get(g.key("name")).is_some())
    }
}

fn group(api_version: &str) -> &str {
    api_version.rsplit_once('/').map_or("", |(group, _)| group)
}

/// Adds an item to its source; one that does not decode makes the source unreadable.
fn take<T: DeserializeOwned>(read: &mut Read<Vec<T>>, item: Option<Item<'_>>) {
    if !read.was_asked() {
        *read = Read::Ok(Vec::new());
    }
    let Some(Item { path, kind, value }) = item else {
        return;
    };
    let name = value["metadata"]["name"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    match (decode(value), read) {
        (Ok(item), Read::Ok(items)) => items.push(item),
        (Err(why), read) => {
            *read = Read::Unreadable(format!("{path}: {kind} {name}: {why}").into())
        }
        (Ok(_), _) => {}
    }
}

/// Decodes an object, taking `null` for an absent field where the plain way fails.
pub fn decode<T: DeserializeOwned>(mut value: Value) -> Result<T, String> {
    T::deserialize(&value)
        .or_else(|_| {
            drop_nulls(&mut value);
            T::deserialize(&value)
        })
        .map_err(|e| e.to_string())
}

/// The newest time at which something happened, as the object itself says.
///
/// Captures carry no clock of their own, and ages must not depend on when they are looked at.
fn newest_time(value: &Value) -> Option<Timestamp> {
    match value {
        Value::Object(object) => object
            .iter()
            .filter(|(key, _)| !matches!(key.as_str(), "annotations" | "labels" | "spec"))
            .filter_map(|(key, value)| match value {
                Value::String(text) if tells_time(key) => text.parse().ok(),
                Value::Object(joined) if key == "nodePriority" => {
                    let joined = joined.values().filter_map(Value::as_str);
                    joined.filter_map(|at| at.parse().ok()).max()
                }
                other => newest_time(other),
            })
            .max(),
        Value::Array(items) => items.iter().filter_map(newest_time).max(),
        _ => None,
    }
}

/// Whether a field says when something happened; a deletion timestamp lies in the future.
fn tells_time(key: &str) -> bool {
    ["Timestamp", "Time", "At"]
        .iter()
        .any(|end| key.ends_with(end))
        && key != "deletionTimestamp"
}
