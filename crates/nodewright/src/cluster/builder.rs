//! Collects the pieces of a cluster before its active API is known.

use std::collections::{HashMap, HashSet};
use std::ops::{Deref, DerefMut, Range};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use super::event::EventIndex;
use super::history::History;
use super::package_run::RunObjects;
use super::{
    ActiveApi, ApiEvidence, AskedBy, Cluster, ConfigMap, Deployment, Event, Job, Node, PackageRun, Pod, Read,
    Sources, installation,
};
use crate::api::{ApiFlavor, DeploymentPolicy, LabelSelector, Skyhook, Version};

/// The pieces of a [`Cluster`], as read from a server or from files.
#[derive(Debug, Default)]
pub struct ClusterBuilder {
    pub sources: Sources,
    /// Whether files contain all custom resources, by API.
    pub listed: [bool; 2],
    /// APIs that are served, or that have traces in files.
    pub served: Vec<ApiFlavor>,
    /// Value of `--api`.
    pub asked_for: Option<ApiFlavor>,
    /// Custom resources by API.
    pub skyhooks: [Read<Vec<Skyhook>>; 2],
    pub policies: [Read<Vec<DeploymentPolicy>>; 2],
    /// Deployments with the manager label, of any operator; from files, all Deployments.
    pub deployments: Read<Vec<Deployment>>,
}

impl Deref for ClusterBuilder {
    type Target = Sources;

    fn deref(&self) -> &Sources {
        &self.sources
    }
}

impl DerefMut for ClusterBuilder {
    fn deref_mut(&mut self) -> &mut Sources {
        &mut self.sources
    }
}

impl ClusterBuilder {
    /// Decides which API is active; `None` without `--api` if there is no trace of either.
    pub fn active_api(&self) -> Option<ActiveApi> {
        ActiveApi::decide(ApiEvidence {
            served: self.served.clone(),
            operator_version: self.operator_version(),
            other_versions: installation::other_versions(
                self.operators(),
                self.installation.leases.items(),
                self.taken_at,
            ),
            asked_for: self.asked_for,
            from_files: self.from_files && !self.collected,
        })
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
        let pods = || self.pods.iter().chain(&self.workloads);
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
        let jobs = || self.jobs.iter().filter(ours);
        let podless = |job: &Job| {
            let status = &job.status;
            let counted = status.active + status.succeeded + status.failed;
            counted == 0 && job.finished().is_none() && !job.spec.suspend && !job.metadata.deleting()
        };
        if !self.pods.was_asked() && jobs().any(podless) && jobs().all(|job| job.status.active == 0) {
            self.pods = Read::Ok(Vec::new());
            self.notes.push(
                "the capture has no pods, and no Job counts a running pod, so package pods are assumed not \
                 to exist"
                    .to_owned(),
            );
        }
    }

    /// The Deployments that run the operator.
    pub fn operators(&self) -> impl Iterator<Item = &Deployment> {
        self.deployments.iter().filter(|d| d.runs_operator())
    }

    /// Version of the acting operator.
    pub fn operator_version(&self) -> Option<Version> {
        let leases = self.installation.leases.items();
        installation::version(&installation::acting(self.operators(), leases, self.taken_at))
    }

    /// The cluster if neither API is served: it has no custom resources, and keys on nodes determine the API.
    pub fn of_leftovers(self) -> Cluster {
        let newer = |n: &Node| !n.keys(ApiFlavor::NodeWright).skyhooks.is_empty();
        let flavor = self.asked_for.unwrap_or(if self.nodes.iter().any(newer) {
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
        let nodes = self.sources.nodes.map(|mut nodes| {
            // Servers return nodes in order: skip the sort, which takes memory.
            if !nodes.is_sorted_by(|a, b| a.name <= b.name) {
                nodes.sort_by(|a, b| a.name.cmp(&b.name));
            }
            nodes.shrink_to_fit();
            nodes
        });
        Cluster {
            sources: Sources { nodes, ..self.sources },
            active_api,
            skyhooks: sorted(skyhooks),
            legacy: sorted(legacy),
            policies,
            legacy_policies,
            operators: self.deployments.selected(Deployment::runs_operator),
            namespace_flag: None,
            holders: Default::default(),
            skyhooks_partial,
            versions: Default::default(),
            indexes: Default::default(),
        }
    }
}

/// The indexes of one cluster. A copy of the cluster starts without any, because its lists may be changed.
#[derive(Debug, Default)]
pub struct Indexes {
    pub(super) selections: Selections,
    /// By position of the node: positions of the custom resources that select it, in order.
    pub(super) selecting: OnceLock<Vec<Vec<usize>>>,
    pub(super) absent_packages: OnceLock<AbsentPackages>,
    events: OnceLock<EventIndex>,
    of_older_operator: OnceLock<HashSet<String>>,
    pub(super) run_objects: OnceLock<RunObjects>,
}

impl Clone for Indexes {
    fn clone(&self) -> Indexes {
        Indexes::default()
    }
}

impl Cluster {
    /// Drops the indexes over the lists, which must follow each change of a list.
    pub fn reset_indexes(&mut self) {
        self.indexes = Indexes::default();
    }

    /// The custom resource of that name, in the active API.
    pub fn skyhook(&self, name: &str) -> Option<&Skyhook> {
        self.skyhooks.indexed().iter().find(|skyhook| skyhook.name() == name)
    }

    /// The custom resource of that name, in the other API.
    pub fn legacy_skyhook(&self, name: &str) -> Option<&Skyhook> {
        self.legacy.indexed().iter().find(|skyhook| skyhook.name() == name)
    }

    /// The deployment policy of that name.
    pub fn policy(&self, name: &str) -> Option<&DeploymentPolicy> {
        self.policies.indexed().iter().find(|policy| policy.metadata.name == name)
    }

    /// Whether the custom resource names a deployment policy, but no policies were read.
    pub fn policy_not_read(&self, skyhook: &Skyhook) -> bool {
        !skyhook.spec.deployment_policy.is_empty() && self.policies.ok().is_none()
    }

    /// Whether the deployment policy of a custom resource does not exist.
    pub fn policy_missing(&self, skyhook: &Skyhook) -> bool {
        let name = &skyhook.spec.deployment_policy;
        match &self.policies {
            _ if name.is_empty() => false,
            Read::Ok(_) => self.policy(name).is_none(),
            // If policies are unknown, use the condition that the operator set.
            Read::Incomplete(..) | Read::Unreadable(_) | Read::NotRequested => {
                skyhook.true_condition("DeploymentPolicyNotFound").is_some()
            }
        }
    }

    fn event_index(&self) -> &EventIndex {
        self.indexes.events.get_or_init(|| {
            let skyhooks = self.skyhooks.iter().chain(&self.legacy);
            let namespaces = self.operator().namespaces();
            let is_of_operator = |name: &str| namespaces.is_empty() || namespaces.contains(name);
            EventIndex::of(self.events.items(), skyhooks.map(Skyhook::name), is_of_operator)
        })
    }

    /// The events about objects of this kind and name.
    pub fn events_about<'a>(&'a self, kind: &'a str, name: &str) -> impl Iterator<Item = &'a Event> {
        let found = self.event_index().about(name).iter().map(|at| &self.events.indexed()[*at]);
        found.filter(move |event| event.kind == kind)
    }

    /// Events about a custom resource and its package pods and Jobs, and events whose message contains its name as a
    /// word or as part of a longer name, such as a pod's.
    pub fn events_mentioning(&self, skyhook: &str) -> impl Iterator<Item = &Event> {
        self.event_index().mentioning(skyhook).iter().map(|at| &self.events.indexed()[*at])
    }

    /// Pods that the older operator started for a custom resource and that still run. The newer operator does not count
    /// them.
    pub fn runs_of_older_operator(&self, skyhook: &str) -> Vec<PackageRun<'_>> {
        if !self.active_api.migrating() {
            return Vec::new();
        }
        let older = || {
            self.package_runs_of(self.flavor().other()).into_iter().filter(|run| run.bare() && run.alive())
        };
        let owners = &self.indexes.of_older_operator;
        let owners = owners.get_or_init(|| older().map(|run| run.skyhook).collect());
        if !owners.contains(skyhook) {
            return Vec::new();
        }
        older().filter(|run| run.skyhook == skyhook).collect()
    }
}

/// Packages that are on no selected node while their uninstall is requested, with their history, by name of the custom
/// resource: the operator reports uninstalled and never installed ones as complete.
pub(super) type AbsentPackages = HashMap<String, Vec<(String, History)>>;

impl Cluster {
    /// The packages with `uninstall.apply: true` that no selected node records, at any version, with their
    /// history.
    ///
    /// A package is not reported if an unreadable node state might contain it, if no node is selected, or if
    /// only named nodes were read. Custom resources under deletion are skipped: a deletion uninstalls
    /// packages regardless of `apply`.
    pub fn absent_packages(&self) -> impl Iterator<Item = (&Skyhook, &str, &History)> {
        self.skyhooks.iter().flat_map(|skyhook| {
            self.absent_packages_of(skyhook)
                .iter()
                .map(move |(name, history)| (skyhook, name.as_str(), history))
        })
    }

    /// Packages whose version in the spec was never installed, and will not be while their uninstall is
    /// requested. If the history of a package is unknown, a finished uninstall is assumed.
    pub fn never_installed(&self, skyhook: &Skyhook) -> Vec<&str> {
        let absent = self.absent_packages_of(skyhook).iter();
        absent.filter(|(_, history)| history.excludes_spec_version()).map(|(name, _)| name.as_str()).collect()
    }

    fn absent_packages_of(&self, skyhook: &Skyhook) -> &[(String, History)] {
        let all = self.indexes.absent_packages.get_or_init(|| self.find_absent());
        all.get(skyhook.name()).map_or(&[], Vec::as_slice)
    }

    fn find_absent(&self) -> AbsentPackages {
        let mut found = AbsentPackages::new();
        if self.limited_to_named_nodes {
            return found;
        }
        let package_runs = OnceLock::new();
        for skyhook in self.skyhooks.iter().filter(|s| !s.deleting()) {
            for (name, package) in skyhook.packages() {
                let asked = skyhook.uninstall_asked_by(package) == Some(AskedBy::Apply);
                if asked && self.is_on_no_node(skyhook, name) {
                    let package_runs = package_runs.get_or_init(|| self.package_runs());
                    let history = self.history_among(package_runs, skyhook, name);
                    found.entry(skyhook.name().to_owned()).or_default().push((name.to_owned(), history));
                }
            }
        }
        found
    }

    fn is_on_no_node(&self, skyhook: &Skyhook, package: &str) -> bool {
        let mut selected = self.selected(skyhook).peekable();
        selected.peek().is_some()
            && selected.all(|node| {
                let on = self.on_node(node, skyhook.name());
                on.is_none_or(|on| {
                    !on.is_malformed() && on.entries().iter().all(|e| e.identity().0 != package)
                })
            })
    }
}

#[derive(Debug, Default)]
pub struct Selections(Mutex<Known>);

/// Cached searches in one list of nodes. Results are positions in the list.
#[derive(Debug, Default)]
struct Known {
    nodes: Range<usize>,
    found: HashMap<LabelSelector, Arc<[usize]>>,
    /// Nodes by key and value of a label; filled when a selector uses the key.
    labelled: HashMap<String, HashMap<String, Vec<usize>>>,
    /// Nodes with keys of either API, by the name of the custom resource; filled on first use.
    tracked: Option<HashMap<String, Arc<[usize]>>>,
}

impl Selections {
    /// The cache for these nodes; emptied if it was for other nodes.
    fn known(&self, nodes: &[Node]) -> MutexGuard<'_, Known> {
        let mut known = self.0.lock().unwrap_or_else(|e| e.into_inner());
        let Range { start, end } = nodes.as_ptr_range();
        let nodes_here = start as usize..end as usize;
        if known.nodes != nodes_here {
            *known = Known { nodes: nodes_here, ..Known::default() };
        }
        known
    }

    /// Positions of the nodes with keys of a custom resource with this name, of either API.
    pub fn tracked(&self, skyhook: &str, nodes: &[Node]) -> Arc<[usize]> {
        let mut known = self.known(nodes);
        known.tracked.get_or_insert_with(|| by_name(nodes)).get(skyhook).map(Arc::clone).unwrap_or_default()
    }

    /// Positions of the nodes that the selector matches.
    pub fn of(&self, selector: &LabelSelector, nodes: &[Node]) -> Arc<[usize]> {
        let mut known = self.known(nodes);
        if let Some(found) = known.found.get(selector) {
            return Arc::clone(found);
        }
        let matches = |at: &usize| selector.matches(&nodes[*at].labels);
        // Custom resources usually divide the nodes by the values of one label.
        let found: Arc<[usize]> = match selector.match_labels.first_key_value() {
            None => (0..nodes.len()).filter(matches).collect(),
            Some((key, value)) => {
                let labelled = known.labelled.entry(key.clone()).or_insert_with(|| by_value(key, nodes));
                labelled.get(value).map_or(&[][..], Vec::as_slice).iter().copied().filter(matches).collect()
            }
        };
        known.found.insert(selector.clone(), Arc::clone(&found));
        found
    }
}

fn by_value(key: &str, nodes: &[Node]) -> HashMap<String, Vec<usize>> {
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, node) in nodes.iter().enumerate() {
        if let Some(value) = node.labels.get(key) {
            places.entry(value.as_str()).or_default().push(at);
        }
    }
    let owned = |(value, places): (&str, Vec<usize>)| (value.to_owned(), places);
    places.into_iter().map(owned).collect()
}

fn by_name(nodes: &[Node]) -> HashMap<String, Arc<[usize]>> {
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, node) in nodes.iter().enumerate() {
        for name in ApiFlavor::ALL.map(|flavor| node.keys(flavor).skyhooks.keys()).into_iter().flatten() {
            let places = places.entry(name).or_default();
            if places.last() != Some(&at) {
                places.push(at);
            }
        }
    }
    let owned = |(name, places): (&str, Vec<usize>)| (name.to_owned(), places.into());
    places.into_iter().map(owned).collect()
}
