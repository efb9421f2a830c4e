//! Collects the pieces of a cluster before its active API is known.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::acting;
use super::admission::Admission;
use super::installation::Installation;
use super::{
    ActiveApi, ApiEvidence, Cluster, ConfigMap, Deployment, DisruptionBudget, Event, Job, KeptLogs, Node,
    Pod, Read,
};
use crate::api::{ApiFlavor, DeploymentPolicy, Skyhook, Version};

/// The pieces of a [`Cluster`], as read from a server or from files.
#[derive(Debug, Default)]
pub struct ClusterBuilder {
    pub taken_at: Timestamp,
    pub clock: super::Clock,
    pub from_files: bool,
    /// See [`Cluster::collected`].
    pub collected: bool,
    pub kept_logs: Option<KeptLogs>,
    /// Whether files contain all custom resources, by API.
    pub listed: [bool; 2],
    /// See [`Cluster::only_namespace`].
    pub only_namespace: Option<String>,
    /// See [`Cluster::notes`].
    pub notes: Vec<String>,
    /// APIs that are served, or that have traces in files.
    pub served: Vec<ApiFlavor>,
    /// See [`Cluster::limited_to_named_nodes`].
    pub limited_to_named_nodes: bool,
    /// Value of `--api`.
    pub asked_for: Option<ApiFlavor>,
    /// Custom resources by API.
    pub skyhooks: [Read<Vec<Skyhook>>; 2],
    pub policies: [Read<Vec<DeploymentPolicy>>; 2],
    pub nodes: Read<Vec<Node>>,
    pub pods: Read<Vec<Pod>>,
    pub workloads: Read<Vec<Pod>>,
    pub jobs: Read<Vec<Job>>,
    pub config_maps: Read<Vec<ConfigMap>>,
    pub node_metadata: Read<Vec<ConfigMap>>,
    pub events: Read<Vec<Event>>,
    pub disruption_budgets: Read<Vec<DisruptionBudget>>,
    /// Deployments with the manager label, of any operator; from files, all Deployments.
    pub deployments: Read<Vec<Deployment>>,
    /// Pods with the manager label, of any operator.
    pub operator_pods: Read<Vec<Pod>>,
    pub admission: Admission,
    pub installation: Installation,
}

impl ClusterBuilder {
    /// Decides which API is active; `None` without `--api` if there is no trace of either.
    pub fn active_api(&self) -> Option<ActiveApi> {
        let nodewrights = self.skyhooks[ApiFlavor::NodeWright as usize].items();
        let adopted = |n: &&Node| {
            let keys = n.keys(ApiFlavor::NodeWright);
            keys.skyhooks.values().any(|on| on.version.is_some())
        };
        ActiveApi::decide(ApiEvidence {
            served: self.served.clone(),
            operator_version: self.operator_version(),
            other_versions: acting::other_versions(
                self.operators(),
                self.installation.leases.items(),
                self.taken_at,
            ),
            nodewrights_with_status: nodewrights.iter().filter(|n| n.status.status.is_some()).count(),
            adopted_nodes: self.nodes.items().iter().filter(adopted).count(),
            asked_for: self.asked_for,
            from_files: self.from_files && !self.collected,
        })
    }

    /// Finds the operator's pods among the workload pods of files.
    pub fn find_operator_pods(&mut self) {
        self.operator_pods = self.workloads.filtered(Pod::runs_a_manager);
    }

    /// Separates the ConfigMaps of nodes from those of packages in files.
    pub fn find_node_metadata(&mut self) {
        self.node_metadata = self.config_maps.filtered(ConfigMap::is_of_a_node);
        if let Some(all) = self.config_maps.available_mut() {
            all.retain(|map| !map.is_of_a_node());
        }
    }

    /// Detects files with the pods of a single namespace instead of all pods.
    ///
    /// A whole cluster has pods outside the operator's namespace. Package pods exist only in the operator's
    /// namespace: if the single namespace is another one, package pods count as not requested.
    pub fn note_only_namespace(&mut self) {
        let namespace = |p: &Pod| p.metadata.namespace.clone();
        let pods = || self.pods.items().iter().chain(self.workloads.items());
        let Some(only) = pods().next().and_then(namespace) else {
            return;
        };
        if !pods().all(|p| namespace(p).as_ref() == Some(&only)) {
            return;
        }
        let operators: Vec<&str> = self.operators().map(Deployment::namespace).collect();
        let ours = operators.contains(&only.as_str())
            || !self.pods.items().is_empty()
            || (operators.is_empty()
                && ApiFlavor::ALL.iter().any(|flavor| flavor.default_namespace() == only));
        if !ours && self.pods.was_asked() {
            self.pods = Read::NotRequested;
            self.operator_pods = Read::NotRequested;
        }
        self.only_namespace = Some(only);
    }

    /// Reads files without any pod as a cluster without package pods if the status of a Job proves that its pod
    /// does not exist, and no Job counts a running pod: the API server refuses such pods.
    pub fn assume_no_pods(&mut self) {
        let ours = |job: &&Job| {
            ApiFlavor::ALL.iter().any(|flavor| job.metadata.labels.contains_key(&flavor.key("name")))
        };
        let jobs = || self.jobs.items().iter().filter(ours);
        let podless = |job: &Job| {
            let status = &job.status;
            let counted = status.active + status.succeeded + status.failed;
            counted == 0 && job.finished().is_none() && !job.spec.suspend && !job.metadata.deleting()
        };
        if !self.pods.was_asked() && jobs().any(podless) && jobs().all(|job| job.status.active == 0) {
            self.pods = Read::Ok(Vec::new());
            self.notes.push(
                "the input has no pods, and no Job counts a running pod: package pods are assumed not to exist"
                    .to_owned(),
            );
        }
    }

    /// The Deployments that run the operator.
    pub fn operators(&self) -> impl Iterator<Item = &Deployment> {
        let all = self.deployments.items().iter();
        all.filter(|d| d.runs_operator())
    }

    /// Namespaces that may contain the operator, if no Deployment of the operator has a ready replica: a
    /// terminating namespace would explain the missing replica.
    pub fn namespaces_to_check(&self, given: Option<&str>) -> BTreeSet<String> {
        let ready = |d: &Deployment| d.ready_replicas() > 0;
        if !self.deployments.was_asked() || self.operators().any(ready) {
            return BTreeSet::new();
        }
        let deployments = self.operators().map(|d| d.namespace().to_owned());
        let webhooks = self.admission.webhooks.items().iter();
        let services = webhooks.filter(|w| w.is_operators()).flat_map(|w| w.services());
        let pods = self.pods.items().iter();
        deployments
            .chain(services.map(|service| service.namespace.clone()))
            .chain(pods.filter_map(|pod| pod.metadata.namespace.clone()))
            .chain(given.map(str::to_owned))
            .chain(self.served.iter().map(|flavor| flavor.default_namespace().to_owned()))
            .collect()
    }

    /// Version of the acting operator.
    pub fn operator_version(&self) -> Option<Version> {
        let leases = self.installation.leases.items();
        acting::version(&acting::acting(self.operators(), leases, self.taken_at))
    }

    /// The cluster if neither API is served: it has no custom resources, and keys on nodes determine the API.
    pub fn of_leftovers(self) -> Cluster {
        let newer = |n: &Node| !n.keys(ApiFlavor::NodeWright).skyhooks.is_empty();
        let flavor = self.asked_for.unwrap_or(if self.nodes.items().iter().any(newer) {
            ApiFlavor::NodeWright
        } else {
            ApiFlavor::Skyhook
        });
        let operator_version = self.operator_version();
        let builder = ClusterBuilder { skyhooks: [Read::Ok(Vec::new()), Read::Ok(Vec::new())], ..self };
        builder.assemble(ActiveApi {
            flavor,
            reasons: vec![
                "neither API is served, but nodes have annotations or labels of this API".to_owned(),
            ],
            served: Vec::new(),
            operator_version,
            other_versions: Vec::new(),
        })
    }

    /// The cluster from the view of the active API.
    pub fn assemble(self, active_api: ActiveApi) -> Cluster {
        let skyhooks_partial = self.from_files
            && !self.collected
            && !self.listed[active_api.flavor as usize]
            && !self.skyhooks[active_api.flavor as usize].items().is_empty();
        let [old, new] = self.skyhooks;
        let [old_policies, new_policies] = self.policies;
        let (skyhooks, legacy, policies, legacy_policies) = match active_api.flavor {
            ApiFlavor::Skyhook => (old, new, old_policies, new_policies),
            ApiFlavor::NodeWright => (new, old, new_policies, old_policies),
        };
        let sorted = |read: Read<Vec<Skyhook>>| {
            read.map(|mut items| {
                items.sort_by(|a, b| a.order().cmp(&b.order()));
                items
            })
        };
        Cluster {
            taken_at: self.taken_at,
            clock: self.clock,
            active_api,
            skyhooks: sorted(skyhooks),
            legacy: sorted(legacy),
            policies,
            legacy_policies,
            nodes: self.nodes.map(|mut nodes| {
                // Servers return nodes in order: skip the sort, which takes memory.
                if !nodes.is_sorted_by(|a, b| a.name <= b.name) {
                    nodes.sort_by(|a, b| a.name.cmp(&b.name));
                }
                nodes.shrink_to_fit();
                nodes
            }),
            pods: self.pods,
            workloads: self.workloads,
            jobs: self.jobs,
            config_maps: self.config_maps,
            node_metadata: self.node_metadata,
            events: self.events,
            disruption_budgets: self.disruption_budgets,
            operators: self.deployments.selected(Deployment::runs_operator),
            operator_pods: self.operator_pods,
            admission: self.admission,
            installation: self.installation,
            namespace_flag: None,
            holders: Default::default(),
            limited_to_named_nodes: self.limited_to_named_nodes,
            from_files: self.from_files,
            collected: self.collected,
            skyhooks_partial,
            kept_logs: self.kept_logs,
            only_namespace: self.only_namespace,
            notes: self.notes,
            versions: Default::default(),
            indexes: Default::default(),
        }
    }
}
