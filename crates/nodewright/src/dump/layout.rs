//! Directory trees of other tools, recognized by their paths: `oc adm must-gather` and
//! `kubectl cluster-info dump`. Both usually contain only some namespaces.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use crate::api::ApiFlavor;
use crate::cluster::admission::CONFIGURATIONS;
use crate::cluster::capture::index::{LOG, LOGS};
use crate::cluster::{ClusterBuilder, Deployment, Read};

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

    /// Records a namespace of the cluster.
    pub fn exists(&mut self, name: Option<&str>) {
        self.all.extend(name.map(str::to_owned));
    }

    /// Marks sources as not requested if their namespaces are missing from the tree. Returns whether the tree
    /// is organized by namespace.
    pub fn restrict(&self, parts: &mut ClusterBuilder) -> bool {
        let dumped = self.perhaps.iter().filter(|(root, _)| self.roots.contains(root));
        let dumped = dumped.map(|(_, namespace)| namespace);
        let held: BTreeSet<&str> = self.held.iter().chain(dumped).map(String::as_str).collect();
        if held.is_empty() {
            return false;
        }
        let complete = !self.all.is_empty() && self.all.iter().all(|name| held.contains(name.as_str()));
        if complete || EVERYWHERE.iter().all(|name| held.contains(name)) {
            return true;
        }
        let operators = parts.deployments.items().iter();
        let mut ours: BTreeSet<String> =
            operators.filter(|d: &&Deployment| d.runs_operator()).map(|d| d.namespace().to_owned()).collect();
        let pods = parts.pods.items().iter();
        ours.extend(pods.filter_map(|pod| pod.metadata.namespace.clone()));
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
        let held: Vec<&str> = held.into_iter().collect();
        parts.only_namespace = Some(held.join(", "));
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
