//! Assembles a cluster from the documents of files and from directory trees of other tools.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::mem;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::de::DeserializeOwned;

use super::DumpError;
use super::body::Body;
use crate::api::name::is_word;
use crate::api::{ApiFlavor, Meta, Object};
use crate::cluster::admission::{CONFIGURATIONS, WebhookConfiguration};
use crate::cluster::capture::{self, Index, LOG, LOGS};
use crate::cluster::clock::{self, NewestTime};
use crate::cluster::installation::Lease;
use crate::cluster::{Clock, Cluster, ClusterBuilder, Deployment, KeptLogs, Pod, Read, attempts, lenient};
use crate::model::waiting_for_drain;
use crate::text::Joined;

/// Collects objects without duplicates, and the kinds that were requested.
#[derive(Debug, Default)]
pub struct ManifestLoader {
    builder: ClusterBuilder,
    seen: HashSet<(String, String, String, String)>,
    newest: NewestTime,
    newest_in_file: Option<Timestamp>,
    /// Whether the current file has the operator's Lease.
    has_lease: bool,
    /// The modification time of the files, and the time recorded in the capture.
    written: Option<Timestamp>,
    captured: Option<Timestamp>,
    /// Index of the capture, and the files found.
    index: Option<Index>,
    files: BTreeSet<String>,
    /// Kinds without objects in the files because kubectl failed to read them, with the reasons.
    unread: Vec<((String, &'static str), String)>,
    /// The error for the first file without objects.
    empty: Option<DumpError>,
    /// apiVersion and kind of the items in the current `List`.
    kinds_in_list: BTreeSet<(String, String)>,
    /// Last lines of the capture's logs, by path.
    logs: HashMap<String, Vec<String>>,
    /// The namespaces with objects in the tree.
    pub namespaces: Namespaces,
}

impl ManifestLoader {
    /// Adds a single object, or the index of a capture.
    ///
    /// # Errors
    ///
    /// Fails if the index of a capture cannot be decoded.
    pub fn document(
        &mut self,
        path: &str,
        stem: &str,
        api_version: &str,
        kind: &str,
        body: Body<'_>,
    ) -> Result<(), DumpError> {
        self.file(stem);
        if kind == capture::KIND && api_version == capture::API_VERSION {
            let index = body
                .into_value()
                .and_then(|value| serde_json::from_value(value).map_err(|why| lenient::without_place(&why)));
            self.index = Some(index.map_err(|why| DumpError::Index { path: path.to_owned(), why })?);
            return Ok(());
        }
        if let Some(of) = kind.strip_suffix("List") {
            let why = format!("{path}: the {kind} lacks the items field");
            if self.sort_in(api_version, of, Sorted::Lack(why)) {
                return Ok(());
            }
        }
        // A must-gather has one file for each object of a list.
        if path.contains("cluster-scoped-resources") {
            self.mark_listed(api_version, kind);
        }
        self.object(path, api_version, kind, body);
        Ok(())
    }

    /// Records that the files contain all objects of this kind, if it is a custom resource.
    fn mark_listed(&mut self, api_version: &str, kind: &str) {
        if let Some(flavor) = ApiFlavor::of_group(group(api_version)).filter(|flavor| kind == flavor.kind()) {
            self.builder.listed[flavor as usize] = true;
        }
    }

    /// Records that a file exists and has content.
    pub fn file(&mut self, stem: &str) {
        self.files.insert(stem.to_owned());
    }

    /// Skips a file without objects, as a failed kubectl leaves it. `message`: its message in the file.
    pub fn skip_empty(&mut self, path: &str, stem: &str, message: Option<&str>) {
        let why = format!("{path}: empty, skipped");
        self.unread.extend(resource_of(stem).map(|kind| (kind, why.clone())));
        self.builder.notes.push(why);
        let path = path.to_owned();
        self.empty.get_or_insert(match message {
            Some(message) => DumpError::OnlyMessage { path, text: super::quoted(message) },
            None => DumpError::Empty { path },
        });
    }

    /// Skips a message of kubectl among objects.
    pub fn skip_message(&mut self, path: &str, message: &str) {
        let resource = message.split_once("resource \"").and_then(|(_, rest)| rest.split('"').next());
        let why = format!("{path}: skipped a message from kubectl: {}", super::quoted(message));
        self.unread.extend(resource.and_then(resource_of).map(|kind| (kind, why.clone())));
        self.builder.notes.push(why);
    }

    /// The error of a file without objects, if no other file has any.
    pub fn only_empty(&mut self) -> Option<DumpError> {
        self.empty.take_if(|_| self.files.is_empty())
    }

    /// Adds a log, by its path in the capture.
    pub fn log(&mut self, file: String, text: &[u8]) {
        self.logs.insert(file, attempts::last_lines(text));
    }

    /// Registers a list of items of kind `of`, which is empty for a `List`.
    pub fn list(&mut self, stem: &str, api_version: &str, of: &str, empty: bool) {
        self.file(stem);
        // A list of one kind shows that the kind was requested, even if the list is empty. An empty `List` in
        // a file named after a resource shows the same.
        if !of.is_empty() {
            self.asked(api_version, of);
        } else if empty && let Some((api_version, kind)) = resource_of(stem) {
            self.asked(&api_version, kind);
        }
    }

    /// Adds an item of a list. `list` has the kind and apiVersion of the items, if known.
    ///
    /// # Errors
    ///
    /// Fails if neither the item nor the list has a kind.
    pub fn item(
        &mut self,
        path: &str,
        list: Option<(&str, &str)>,
        mut body: Body<'_>,
    ) -> Result<(), DumpError> {
        let (of, version) = list.unwrap_or_default();
        // Lists of one kind omit kind and apiVersion in their items.
        let summary = &body.summary;
        let version = summary.api_version.clone().unwrap_or_else(|| version.to_owned());
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
        if kind.ends_with("List") {
            let list = body.into_value().map_err(|what| DumpError::not_an_object(path, what))?;
            return super::read_list(path, &list, self);
        }
        if of.is_empty() {
            self.kinds_in_list.insert((version.clone(), kind.clone()));
        }
        self.object(path, &version, &kind, body);
        Ok(())
    }

    /// Ends a list. If all items of a `List` have one kind, the files count as complete for this kind. A
    /// `List` of several kinds may be the output of `kubectl get nodes,skyhook/a`.
    pub fn end_list(&mut self) {
        let kinds = mem::take(&mut self.kinds_in_list);
        if let [(version, kind)] = &*Vec::from_iter(kinds) {
            self.mark_listed(version, kind);
        }
    }

    /// Records a file's modification time.
    pub fn record_modified(&mut self, at: Option<Timestamp>) {
        self.end_file();
        self.written = self.written.max(at);
        self.newest.written = at;
    }

    /// Records that the objects of a stream follow, which was written at this time or earlier.
    pub fn record_stream(&mut self, at: Option<Timestamp>) {
        self.end_file();
        self.newest.written = at;
    }

    /// Records the time of a must-gather.
    pub fn record_capture_time(&mut self, at: Option<Timestamp>) {
        self.captured = self.captured.max(at);
    }

    /// Builds the cluster; `None` if the files contain nothing that could be about the operator.
    pub fn finish(mut self, asked_for: Option<ApiFlavor>) -> Option<Cluster> {
        self.end_file();
        self.builder.from_files = true;
        self.builder.asked_for = asked_for;
        self.builder.operator_pods = self.builder.workloads.filtered(Pod::runs_a_manager);
        self.builder.find_node_metadata();
        self.builder.assume_no_pods();
        if let Some(index) = self.index {
            return Some(finish(self.builder, &index, &self.files, self.logs));
        }
        let (taken_at, clock) = clock::of_files(self.newest.time(), self.captured, self.written);
        self.builder.taken_at = taken_at;
        self.builder.clock = clock;
        self.builder.served = self.traces();
        for ((api_version, kind), why) in mem::take(&mut self.unread) {
            self.sort_in(&api_version, kind, Sorted::Lack(why));
        }
        if !self.namespaces.restrict(&mut self.builder) {
            self.builder.note_only_namespace();
        }
        let builder = self.builder;
        let operated = !builder.served.is_empty() || builder.operators().next().is_some();
        let active_api = builder.active_api().filter(|_| builder.nodes.was_asked() || operated)?;
        Some(builder.assemble(active_api))
    }

    /// APIs with objects or keys in the files.
    fn traces(&self) -> Vec<ApiFlavor> {
        let of = |flavor: &ApiFlavor| {
            let labelled = |m: &Meta| m.labels.contains_key(&flavor.key("name"));
            self.builder.skyhooks[*flavor as usize].was_asked()
                || self.builder.nodes.iter().any(|n| !n.keys(*flavor).skyhooks.is_empty())
                || self.builder.pods.iter().any(|p| labelled(&p.metadata))
                || self.builder.jobs.iter().any(|j| labelled(&j.metadata))
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
        // Use the times of known kinds only: other objects may contain future times, such as the renewal of a
        // certificate.
        if self.sort_in(api_version, kind, Sorted::Object { path, kind, body }) {
            self.newest.note(newest);
            self.newest_in_file = self.newest_in_file.max(newest);
        }
    }

    /// Dates the operator's Lease at the end of its file: files may be of different times.
    fn end_file(&mut self) {
        let newest = mem::take(&mut self.newest_in_file);
        if mem::take(&mut self.has_lease) {
            self.builder.installation.leases_at = newest;
        }
    }

    /// Marks a kind as requested, even without items.
    fn asked(&mut self, api_version: &str, kind: &str) {
        self.mark_listed(api_version, kind);
        self.sort_in(api_version, kind, Sorted::Asked);
    }

    /// Adds an item to its source, or marks its kind as requested or as incomplete.
    ///
    /// Returns whether the kind is known.
    fn sort_in(&mut self, api_version: &str, kind: &str, item: Sorted<'_>) -> bool {
        let builder = &mut self.builder;
        match (group(api_version), kind) {
            ("", "Node") => take(&mut builder.nodes, item),
            ("", "Pod") => {
                // Pods are requested as one kind: either source may be empty.
                let sources = &mut builder.sources;
                let (ours, others) = (&mut sources.pods, &mut sources.workloads);
                take::<Pod>(ours, Sorted::Asked);
                take::<Pod>(others, Sorted::Asked);
                match &item {
                    Sorted::Object { body, .. } if body.summary.of_a_package => take(ours, item),
                    Sorted::Object { .. } | Sorted::Asked => take(others, item),
                    Sorted::Lack(why) => {
                        take::<Pod>(ours, Sorted::Lack(why.clone()));
                        take(others, item);
                    }
                }
            }
            ("" | "events.k8s.io", "Event") => take(&mut builder.events, item),
            ("batch", "Job") => take(&mut builder.jobs, item),
            ("policy", "PodDisruptionBudget") => take(&mut builder.disruption_budgets, item),
            ("apps", "Deployment") => take(&mut builder.deployments, item),
            ("", "ConfigMap") => match &item {
                Sorted::Object { body, .. } if !body.summary.of_config_maps => {
                    take(&mut builder.installation.key_maps, item);
                    return false;
                }
                // ConfigMaps are requested as one kind, and separated after decoding.
                _ => take(&mut builder.config_maps, item),
            },
            ("", "Secret") => {
                if let Sorted::Object { .. } = &item {
                    take(&mut builder.installation.key_maps, item);
                }
                return false;
            }
            ("", "Namespace") => {
                if let Sorted::Object { body, .. } = &item {
                    self.namespaces
                        .all
                        .extend(Some(body.summary.name.clone()).filter(|name| !name.is_empty()));
                }
                take(&mut builder.installation.namespaces, item);
                return false;
            }
            ("coordination.k8s.io", "Lease") => {
                if let Sorted::Object { body, .. } = &item {
                    self.has_lease |= body.summary.name == Lease::NAME;
                }
                take(&mut builder.installation.leases, item);
            }
            ("rbac.authorization.k8s.io", "ClusterRole" | "ClusterRoleBinding" | "Role" | "RoleBinding") => {
                take(&mut builder.installation.roles, item);
            }
            ("", "LimitRange") => take(&mut builder.installation.limit_ranges, item),
            ("", "ResourceQuota") => take(&mut builder.installation.quotas, item),
            ("apiextensions.k8s.io", "CustomResourceDefinition") => {
                take(&mut builder.installation.definitions, item);
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

fn group(api_version: &str) -> &str {
    api_version.rsplit_once('/').map_or("", |(group, _)| group)
}

/// Builds the cluster as it would have been read from the server at the time of the capture.
fn finish(
    mut builder: ClusterBuilder,
    index: &Index,
    files: &BTreeSet<String>,
    logs: HashMap<String, Vec<String>>,
) -> Cluster {
    let lost = |file: &&String| !files.contains(*file);
    let lost: Vec<String> = index.files.iter().filter(lost).cloned().collect();
    builder.take_over(&index.sources, &lost);
    builder.collected = true;
    builder.kept_logs = Some(KeptLogs { entries: index.logs.clone(), texts: logs });
    builder.clock = Clock::Capture;
    builder.taken_at = index.taken_at;
    builder.installation.leases_at = Some(index.taken_at);
    if let Some(server) = &index.versions.server {
        builder.installation.server = Read::Ok(server.clone());
    }
    builder.served = ApiFlavor::ALL
        .into_iter()
        .filter(|flavor| index.served.iter().any(|group| group == flavor.group()))
        .collect();
    // Drop other webhooks: the capture contains them only for human readers.
    let webhooks = mem::take(&mut builder.admission.webhooks);
    builder.admission.webhooks = webhooks.selected(WebhookConfiguration::is_relevant);
    let Some(active_api) = builder.active_api() else {
        return builder.of_leftovers();
    };
    let mut cluster = builder.assemble(active_api);
    cluster.holders.clone_from(&index.holders);
    let waiting: HashSet<String> = waiting_for_drain(&cluster).into_iter().map(str::to_owned).collect();
    if let Some(pods) = cluster.workloads.available_mut() {
        // Keep only the pods on nodes that wait for a drain: the file also contains the operator's own pods,
        // on any node.
        pods.retain(|pod: &Pod| waiting.contains(&pod.spec.node_name));
    }
    cluster
}

/// An item to add to a source.
#[expect(clippy::large_enum_variant, reason = "most are objects, and none is kept")]
enum Sorted<'a> {
    /// The kind was requested, without an item.
    Asked,
    /// Items are missing, for this reason.
    Lack(String),
    Object {
        path: &'a str,
        kind: &'a str,
        body: Body<'a>,
    },
}

/// Adds an item to its source. An item whose identity cannot be read makes the source incomplete.
fn take<T: Object + DeserializeOwned + 'static>(read: &mut Read<Vec<T>>, item: Sorted<'_>) {
    if !read.was_asked() {
        *read = Read::Ok(Vec::new());
    }
    match item {
        Sorted::Asked => {}
        Sorted::Lack(why) => read.lacks(why),
        Sorted::Object { path, kind, body } => {
            let name = body.summary.name.clone();
            let decoded = match body.decode() {
                Ok(_) if !is_word(&name) => Err("the name is invalid".to_owned()),
                decoded => decoded.map_err(|why| why.to_string()),
            };
            match (decoded, read.available_mut()) {
                (Ok(item), Some(items)) => items.push(item),
                (Err(why), _) => read.lacks(format!("{path}: {kind} {name}: {why}")),
                (Ok(_), None) => {}
            }
        }
    }
}

/// Namespaces that every cluster has, and that users hardly select individually: a tree with both of them
/// counts as complete.
const EVERYWHERE: [&str; 2] = ["kube-public", "kube-node-lease"];
/// Names of the files that `kubectl cluster-info dump` writes for a namespace.
const DUMPED: [&str; 7] =
    ["events", "replication-controllers", "services", "daemonsets", "deployments", "replicasets", "pods"];

/// Directories of a must-gather whose files are not objects.
const OF_OTHERS: [&str; 6] =
    ["etcd_info", "insights-data", "monitoring", "host_service_logs", "network_logs", "audit_logs"];

/// The path of a log in the index of its capture; `None` for other files.
pub fn log_of_capture(path: &Path) -> Option<String> {
    let parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
    let [.., logs, namespace, pod, file] = parts.as_slice() else {
        return None;
    };
    let of_capture = *logs == LOGS && file.ends_with(LOG);
    of_capture.then(|| format!("{LOGS}/{namespace}/{pod}/{file}"))
}

/// The namespaces with objects in a directory tree.
#[derive(Debug, Default)]
pub struct Namespaces {
    held: BTreeSet<String>,
    /// Directories that may be namespaces, as parent directory and name.
    perhaps: Vec<(PathBuf, String)>,
    /// Directories with a list of nodes.
    roots: HashSet<PathBuf>,
    /// All namespaces of the cluster, if the tree lists them.
    all: BTreeSet<String>,
}

impl Namespaces {
    /// Whether a file may contain objects that we read, judged by its path in the tree.
    pub fn admits(&mut self, path: &Path) -> bool {
        let parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
        let at = |name: &str| parts.iter().position(|part| *part == name);
        if OF_OTHERS.iter().any(|directory| at(directory).is_some()) {
            return false;
        }
        if let Some(at) = at("cluster-scoped-resources") {
            return match parts.get(at + 2..) {
                // A list of namespaces contains all of them. Files of single namespaces contain only the
                // selected ones.
                Some([file]) if stem(file) == "namespaces" => true,
                Some([plural, ..]) => is_read(stem(plural)),
                _ => false,
            };
        }
        if let Some(at) = at("namespaces").filter(|at| parts.len() > at + 2) {
            let of_pod = |pod: &str, file: &str| stem(file) == pod;
            let read = match &parts[at + 2..] {
                ["pods", pod, file] => of_pod(pod, file),
                ["pods", ..] => false,
                [_group, plural, ..] => is_read(stem(plural)),
                _ => false,
            };
            if read {
                self.held.insert(parts[at + 1].to_owned());
            }
            return read;
        }
        let directory = path.parent().map(Path::to_owned).unwrap_or_default();
        match parts.as_slice() {
            [.., file] if stem(file) == "nodes" => {
                self.roots.insert(directory);
            }
            [.., namespace, file] if DUMPED.contains(&stem(file)) => {
                let root = directory.parent().map(Path::to_owned).unwrap_or_default();
                self.perhaps.push((root, (*namespace).to_owned()));
            }
            _ => {}
        }
        true
    }

    /// Marks sources as not requested if their namespaces are missing from the tree. Returns whether the tree
    /// is organized by namespace.
    pub fn restrict(&self, parts: &mut ClusterBuilder) -> bool {
        let dumped =
            self.perhaps.iter().filter(|(root, _)| self.roots.contains(root)).map(|(_, namespace)| namespace);
        let held: BTreeSet<&str> = self.held.iter().chain(dumped).map(String::as_str).collect();
        if held.is_empty() {
            return false;
        }
        let complete = !self.all.is_empty() && self.all.iter().all(|name| held.contains(name.as_str()));
        if complete || EVERYWHERE.iter().all(|name| held.contains(name)) {
            return true;
        }
        let operators = parts.deployments.iter();
        let mut ours: BTreeSet<String> =
            operators.filter(|d: &&Deployment| d.runs_operator()).map(|d| d.namespace().to_owned()).collect();
        ours.extend(parts.pods.iter().filter_map(|pod| pod.metadata.namespace.clone()));
        if ours.is_empty() {
            ours.extend(ApiFlavor::ALL.map(|flavor| flavor.default_namespace().to_owned()));
        }
        if !ours.iter().any(|name| held.contains(name.as_str())) {
            parts.pods = Read::NotRequested;
            parts.jobs = Read::NotRequested;
            parts.config_maps = Read::NotRequested;
            parts.node_metadata = Read::NotRequested;
            parts.deployments = Read::NotRequested;
            parts.operator_pods = Read::NotRequested;
            parts.events = Read::NotRequested;
        }
        // Missing objects may exist in other namespaces.
        parts.workloads = Read::NotRequested;
        parts.disruption_budgets = Read::NotRequested;
        if let Some(services) = parts.admission.services.available_mut() {
            services.retain(|s| s.metadata.name.as_deref() != Some("kubernetes"));
        }
        parts.only_namespace = Some(held.into_iter().joined(", "));
        true
    }
}

/// Whether we read the kind with this plural.
fn is_read(plural: &str) -> bool {
    plural == "deploymentpolicies" || resource_of(plural).is_some()
}

fn stem(file: &str) -> &str {
    file.rsplit_once('.').map_or(file, |(stem, _)| stem)
}

/// apiVersion and kind of the objects in a file with this name: `pods.json` contains Pods.
pub fn resource_of(stem: &str) -> Option<(String, &'static str)> {
    let plain = |api_version: &str, kind| Some((api_version.to_owned(), kind));
    match stem {
        "nodes" => plain("v1", "Node"),
        "pods" => plain("v1", "Pod"),
        "events" => plain("v1", "Event"),
        "jobs" => plain("batch/v1", "Job"),
        "poddisruptionbudgets" => plain("policy/v1", "PodDisruptionBudget"),
        "deployments" => plain("apps/v1", "Deployment"),
        "configmaps" => plain("v1", "ConfigMap"),
        "services" => plain("v1", "Service"),
        "limitranges" => plain("v1", "LimitRange"),
        "resourcequotas" => plain("v1", "ResourceQuota"),
        "endpointslices" => plain("discovery.k8s.io/v1", "EndpointSlice"),
        "validatingwebhookconfigurations" | "mutatingwebhookconfigurations" => {
            plain("admissionregistration.k8s.io/v1", CONFIGURATIONS[0].0)
        }
        _ => ApiFlavor::ALL.into_iter().find_map(|flavor| {
            let kind = match stem.strip_suffix(flavor.group()) {
                Some("deploymentpolicies.") => "DeploymentPolicy",
                _ if stem == flavor.plural() || stem == flavor.resource() => flavor.kind(),
                _ => return None,
            };
            Some((flavor.api_version(), kind))
        }),
    }
}
