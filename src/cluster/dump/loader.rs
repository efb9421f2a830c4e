//! Documents to the pieces of a cluster. Pure.

use std::collections::{BTreeSet, HashMap, HashSet};

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::DumpError;
use super::body::Body;
use super::collected;
use super::kinds::resource_of;
use super::layout::Namespaces;
use crate::api::ApiFlavor;
use crate::cluster::admission::CONFIGURATIONS;
use crate::cluster::capture::{Index, index};
use crate::cluster::{ActiveApi, Cluster, ClusterBuilder, ConfigMap, Pod, Read, clock, kept_logs};

/// Collects objects, each once, and remembers what was asked for.
#[derive(Debug, Default)]
pub struct ManifestLoader {
    builder: ClusterBuilder,
    seen: HashSet<(String, String, String, String)>,
    newest: Option<Timestamp>,
    /// When the files were written, and what the capture says of its own time.
    written: Option<Timestamp>,
    captured: Option<Timestamp>,
    /// What a capture of `collect` says of itself, and the files that were there.
    index: Option<Index>,
    files: BTreeSet<String>,
    /// The last lines of its logs.
    logs: HashMap<String, Vec<String>>,
    /// Of which namespaces a tree holds something.
    pub namespaces: Namespaces,
}

impl ManifestLoader {
    /// Takes a document: an object, a `List`, a list of one kind such as `PodList`, or several of them in an array, as
    /// `jq -s` makes one.
    ///
    /// # Errors
    ///
    /// It is not an object with a kind.
    pub fn add(&mut self, path: &str, stem: &str, document: Value) -> Result<(), DumpError> {
        let not_an_object = |what: &str| DumpError::not_an_object(path, what);
        let mut object = match document {
            Value::Object(object) => object,
            Value::Array(documents) if documents.iter().all(Value::is_object) => {
                let mut documents = documents.into_iter();
                return documents.try_for_each(|document| self.add(path, stem, document));
            }
            _ => return Err(not_an_object("a value without a kind")),
        };
        let word = |key: &str| object.get(key).and_then(Value::as_str).map(str::to_owned);
        let (Some(kind), Some(api_version)) = (word("kind"), word("apiVersion")) else {
            return Err(not_an_object("a value without kind and apiVersion"));
        };
        let Some(of) = kind
            .strip_suffix("List")
            .filter(|_| object.contains_key("items"))
        else {
            return self.document(
                path,
                stem,
                &api_version,
                &kind,
                Body::of(Value::Object(object)),
            );
        };
        let items = match object.remove("items") {
            Some(Value::Array(items)) => items,
            Some(Value::Null) | None => Vec::new(),
            Some(_) => return Err(not_an_object("a List whose items field is not an array")),
        };
        self.list(stem, &api_version, of, items.is_empty());
        for item in items {
            self.item(path, Some((of, &api_version)), Body::of(item))?;
        }
        Ok(())
    }

    /// Takes an object that stands by itself; it may be the index of a capture.
    ///
    /// # Errors
    ///
    /// It is an index that does not decode.
    pub fn document(
        &mut self,
        path: &str,
        stem: &str,
        api_version: &str,
        kind: &str,
        body: Body<'_>,
    ) -> Result<(), DumpError> {
        self.file(stem);
        if kind == index::KIND && api_version == index::API_VERSION {
            self.index = Some(body.decode().map_err(|why| DumpError::Index {
                path: path.to_owned(),
                why,
            })?);
            return Ok(());
        }
        self.object(path, api_version, kind, body);
        Ok(())
    }

    /// Notes that a file was there and held something.
    pub fn file(&mut self, stem: &str) {
        self.files.insert(stem.to_owned());
    }

    /// Takes a log, by its path in the capture.
    pub fn log(&mut self, file: String, text: &[u8]) {
        self.logs.insert(file, kept_logs::last_lines(text));
    }

    /// Takes note of a list of this kind; of a `List` where it is empty.
    pub fn list(&mut self, stem: &str, api_version: &str, of: &str, empty: bool) {
        self.file(stem);
        // A list of one kind says that the kind was asked for, even when it is empty. So does an
        // empty List in a file named after a resource.
        if !of.is_empty() {
            self.asked(api_version, of);
        } else if empty && let Some((api_version, kind)) = resource_of(stem) {
            self.asked(&api_version, kind);
        }
    }

    /// Takes an item of a list, of which kind and version are known or still to come.
    ///
    /// # Errors
    ///
    /// It has no kind, and neither has the list.
    pub fn item(
        &mut self,
        path: &str,
        list: Option<(&str, &str)>,
        mut body: Body<'_>,
    ) -> Result<(), DumpError> {
        let (of, version) = list.unwrap_or_default();
        // Lists of one kind leave kind and apiVersion out of their items.
        let summary = &body.summary;
        let version = summary
            .api_version
            .clone()
            .unwrap_or_else(|| version.to_owned());
        let kind = match &summary.kind {
            Some(kind) => kind.clone(),
            None => {
                body.lacks = Some((of.to_owned(), version.clone()));
                of.to_owned()
            }
        };
        if kind.is_empty() {
            return Err(DumpError::not_an_object(path, "an item without a kind"));
        }
        if kind.ends_with("List") && body.summary.has_items {
            let list = body.decode();
            let list = list.map_err(|what| DumpError::not_an_object(path, what))?;
            return self.add(path, "", list);
        }
        self.object(path, &version, &kind, body);
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
    pub fn finish(mut self, asked_for: Option<ApiFlavor>) -> Option<Cluster> {
        self.builder.from_files = true;
        self.builder.asked_for = asked_for;
        self.builder.find_operator_pods();
        self.builder.find_node_metadata();
        if let Some(index) = self.index {
            return Some(collected::finish(
                self.builder,
                &index,
                &self.files,
                self.logs,
            ));
        }
        let newest = self.newest.unwrap_or_default();
        let (taken_at, clock) = clock::of_files(newest, self.captured, self.written);
        self.builder.taken_at = taken_at;
        self.builder.clock = clock;
        self.builder.served = self.traces();
        if !self.namespaces.restrict(&mut self.builder) {
            self.builder.note_only_namespace();
        }
        let known = self.builder.nodes.was_asked() || !self.builder.served.is_empty();
        if !known {
            return None;
        }
        let active_api = self.builder.active_api().unwrap_or_else(|| ActiveApi {
            flavor: ApiFlavor::NodeWright,
            reasons: vec!["the files do not show which API is active".to_owned()],
            served: Vec::new(),
            operator_version: None,
        });
        Some(self.builder.assemble(active_api))
    }

    /// The APIs of which the files hold objects or keys.
    fn traces(&self) -> Vec<ApiFlavor> {
        let of = |g: &ApiFlavor| {
            let labelled = |m: &crate::api::Meta| m.labels.contains_key(&g.key("name"));
            self.builder.skyhooks[*g as usize].was_asked()
                || self
                    .builder
                    .nodes
                    .items()
                    .iter()
                    .any(|n| !n.keys(*g).skyhooks.is_empty())
                || self
                    .builder
                    .pods
                    .items()
                    .iter()
                    .any(|p| labelled(&p.metadata))
                || self
                    .builder
                    .jobs
                    .items()
                    .iter()
                    .any(|j| labelled(&j.metadata))
        };
        ApiFlavor::ALL.into_iter().filter(of).collect()
    }

    fn object(&mut self, path: &str, api_version: &str, kind: &str, body: Body<'_>) {
        let identity = (
            kind.to_owned(),
            group(api_version).to_owned(),
            body.summary.namespace.clone(),
            body.summary.name.clone(),
        );
        if !self.seen.insert(identity) {
            return;
        }
        let newest = body.summary.newest();
        // Other objects may tell of the future: a certificate says when it is to be renewed.
        if self.sort_in(api_version, kind, Some(LoadedObject { path, kind, body })) {
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
    fn sort_in(&mut self, api_version: &str, kind: &str, item: Option<LoadedObject<'_>>) -> bool {
        let builder = &mut self.builder;
        match (group(api_version), kind) {
            ("", "Node") => take(&mut builder.nodes, item),
            ("", "Pod") => {
                // Pods are asked for as one kind: the other sort may just not be there.
                take::<Pod>(&mut builder.pods, None);
                take::<Pod>(&mut builder.workloads, None);
                let of_a_package = item
                    .as_ref()
                    .is_some_and(|item| item.body.summary.of_a_package);
                take(
                    if of_a_package {
                        &mut builder.pods
                    } else {
                        &mut builder.workloads
                    },
                    item,
                );
            }
            ("" | "events.k8s.io", "Event") => take(&mut builder.events, item),
            ("batch", "Job") => take(&mut builder.jobs, item),
            ("policy", "PodDisruptionBudget") => take(&mut builder.disruption_budgets, item),
            ("apps", "Deployment") => take(&mut builder.deployments, item),
            ("", "ConfigMap") => match item {
                Some(item) if !item.body.summary.of_config_maps => return false,
                item => {
                    // They are asked for as one kind, and told apart once they are decoded.
                    take::<ConfigMap>(&mut builder.node_metadata, None);
                    take(&mut builder.config_maps, item);
                }
            },
            ("", "Namespace") => {
                let name = item.as_ref().map(|item| item.body.summary.name.as_str());
                self.namespaces.exists(name.filter(|name| !name.is_empty()));
                return false;
            }
            ("", "Service") => take(&mut builder.admission.services, item),
            ("discovery.k8s.io", "EndpointSlice") => take(&mut builder.admission.endpoints, item),
            ("admissionregistration.k8s.io", kind)
                if CONFIGURATIONS.iter().any(|(known, _)| *known == kind) =>
            {
                take(&mut builder.admission.webhooks, item);
            }
            (group, kind) => match ApiFlavor::of_group(group) {
                Some(flavor) if kind == flavor.kind() => {
                    take(&mut builder.skyhooks[flavor as usize], item);
                }
                Some(flavor) if kind == "DeploymentPolicy" => {
                    take(&mut builder.policies[flavor as usize], item);
                }
                _ => return false,
            },
        }
        true
    }
}

/// An object on its way to its source.
struct LoadedObject<'a> {
    path: &'a str,
    kind: &'a str,
    body: Body<'a>,
}

fn group(api_version: &str) -> &str {
    api_version.rsplit_once('/').map_or("", |(group, _)| group)
}

/// Adds an item to its source; one that does not decode makes the source unreadable.
fn take<T: DeserializeOwned + 'static>(read: &mut Read<Vec<T>>, item: Option<LoadedObject<'_>>) {
    if !read.was_asked() {
        *read = Read::Ok(Vec::new());
    }
    let Some(LoadedObject { path, kind, body }) = item else {
        return;
    };
    let name = body.summary.name.clone();
    match (body.decode(), read) {
        (Ok(item), Read::Ok(items)) => items.push(item),
        (Err(why), read) => {
            *read = Read::Unreadable(format!("{path}: {kind} {name}: {why}").into())
        }
        (Ok(_), _) => {}
    }
}
