//! A cluster as one immutable value, with queries on it.
//!
//! The module `dump` reads a cluster from files, and the client crate from an API server. All modules in this
//! directory are pure: no client, no clock, no files.

pub mod active_api;
pub mod admission;
pub mod attempts;
pub mod builder;
pub mod capture;
pub mod clock;
pub mod contrast;
pub mod cordon;
pub mod drain;
pub mod event;
pub mod history;
pub mod hold;
pub mod installation;
pub mod json_pieces;
pub mod kubernetes;
pub mod leftover;
pub mod lenient;
pub mod node;
pub mod operator;
pub mod owners;
pub mod package_run;
pub mod placement;
pub mod pod;
pub mod provenance;
pub mod restrictions;
pub mod rollout;
pub mod source;
pub mod taints;

use std::collections::BTreeSet;
use std::fmt;
use std::ops::{Deref, DerefMut};

use jiff::Timestamp;

use crate::api::{ApiFlavor, DeploymentPolicy, Object, Skyhook, UnknownField};
use active_api::Migration;
pub use active_api::{ActiveApi, ApiEvidence};
use admission::{Admission, Webhooks};
pub use attempts::KeptLogs;
pub use builder::ClusterBuilder;
use builder::Indexes;
pub use clock::Clock;
pub use drain::DisruptionBudget;
use drain::Evictions;
pub use event::Event;
pub use hold::Stop;
use installation::Installation;
pub use kubernetes::{ConfigMap, Kubernetes};
use leftover::LeftoverFinder;
pub use lenient::decode as decode_leniently;
pub use node::{Node, NodeEdit, NodeFields, NodeRecord, Taint};
pub use operator::Deployment;
use operator::OperatorView;
pub use package_run::{PackageRun, PackageRuns};
pub use placement::{AskedBy, Desired, Phase, Placement};
pub use pod::{Job, Pod};
pub use source::{Certainty, NamedNodes, Read, ResourceVersions, Source, Unread};
use taints::RuntimeRequired;

/// The sources of a cluster that do not depend on the active API, as read from a server or from files.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// Reference time for ages: the time of the read, or the closest known time for files.
    pub taken_at: Timestamp,
    pub clock: Clock,
    /// Sorted by name in a [`Cluster`].
    pub nodes: Read<Vec<Node>>,
    pub pods: Read<Vec<Pod>>,
    pub workloads: Read<Vec<Pod>>,
    /// Nodes whose workloads were read although they wait for no drain.
    pub workloads_on: BTreeSet<String>,
    pub jobs: Read<Vec<Job>>,
    /// The ConfigMaps of packages.
    pub config_maps: Read<Vec<ConfigMap>>,
    /// ConfigMaps with node metadata for packages.
    pub node_metadata: Read<Vec<ConfigMap>>,
    pub events: Read<Vec<Event>>,
    pub disruption_budgets: Read<Vec<DisruptionBudget>>,
    /// Pods with the manager label, of any operator; see [`OperatorView::pods_of`].
    pub operator_pods: Read<Vec<Pod>>,
    pub admission: Admission,
    /// Other objects of the installation; from a server only the objects that identify the operator.
    pub installation: Installation,
    /// Whether only the nodes that a command names were read. Of a single named node, also only its pods were
    /// read; Jobs, and pods for several nodes, are complete.
    pub limited_to_named_nodes: bool,
    /// Whether the cluster was read from files rather than from a server.
    pub from_files: bool,
    /// Whether the files are a capture with an index of its sources: an object missing from a capture did not
    /// exist.
    pub collected: bool,
    /// The logs in the capture.
    pub kept_logs: Option<KeptLogs>,
    /// The only namespaces with pods in the files: pods of other namespaces were omitted.
    pub only_namespace: Option<String>,
    /// Skipped parts of the files, and assumptions about missing objects.
    pub notes: Vec<String>,
}

/// An immutable snapshot of everything that was read.
#[derive(Debug, Clone)]
pub struct Cluster {
    pub sources: Sources,
    pub active_api: ActiveApi,
    /// The custom resources of the active API.
    pub skyhooks: Read<Vec<Skyhook>>,
    /// Custom resources of the other API, if both APIs are served.
    pub legacy: Read<Vec<Skyhook>>,
    pub policies: Read<Vec<DeploymentPolicy>>,
    /// Deployment policies of the other API, if both APIs are served.
    pub legacy_policies: Read<Vec<DeploymentPolicy>>,
    /// The Deployments that run the operator; normally one.
    pub operators: Read<Vec<Deployment>>,
    /// The operator's namespace from `--namespace`.
    pub namespace_flag: Option<String>,
    /// Runs of this program on this machine that hold a custom resource.
    pub holders: hold::HolderLiveness,
    /// Whether the files contain some custom resources, but no list of all of them: others may exist.
    pub skyhooks_partial: bool,
    /// Resource versions from which watches continue.
    pub versions: ResourceVersions,
    /// Indexes over the lists above; see [`Cluster::reset_indexes`].
    indexes: Indexes,
}

impl Deref for Cluster {
    type Target = Sources;

    fn deref(&self) -> &Sources {
        &self.sources
    }
}

impl DerefMut for Cluster {
    fn deref_mut(&mut self) -> &mut Sources {
        &mut self.sources
    }
}

impl Cluster {
    pub fn flavor(&self) -> ApiFlavor {
        self.active_api.flavor
    }

    pub fn node(&self, name: &str) -> Option<&Node> {
        Some(&self.nodes.indexed()[self.node_position(name)?])
    }

    /// The fields that were read of every node.
    pub fn node_fields(&self) -> NodeFields {
        self.nodes.indexed().first().map_or(NodeFields::All, Node::fields)
    }

    /// Index of a node of this cluster in the list.
    pub fn node_index(&self, node: &Node) -> usize {
        package_run::position(self.nodes.indexed(), node)
    }

    /// Index of a node in the list, by its name.
    fn node_position(&self, name: &str) -> Option<usize> {
        self.nodes.indexed().binary_search_by(|n| n.name.as_str().cmp(name)).ok()
    }

    /// How certain it is that a custom resource that was not read does not exist.
    pub fn skyhooks_absence(&self) -> Certainty {
        match self.skyhooks.absence() {
            Certainty::Proven if self.skyhooks_partial => Certainty::Presumed,
            certainty => certainty,
        }
    }

    /// The operator: which Deployment acts, its version, settings and namespaces, and whether it works.
    pub fn operator(&self) -> OperatorView<'_> {
        OperatorView(self)
    }

    /// Pods that drains evict, and the reasons why evictions are refused.
    pub fn evictions(&self) -> Evictions<'_> {
        Evictions(self)
    }

    /// The taint of nodes that wait for packages with `runtimeRequired`.
    pub fn runtime_required(&self) -> RuntimeRequired<'_> {
        RuntimeRequired(self)
    }

    /// The migration from the older API.
    pub fn migration(&self) -> Migration<'_> {
        Migration(self)
    }

    /// Objects and keys that no controller removes.
    pub fn leftovers(&self) -> LeftoverFinder<'_> {
        LeftoverFinder(self)
    }

    /// The webhooks, and whether the API server can reach them.
    pub fn webhooks(&self) -> Webhooks<'_> {
        Webhooks(self)
    }

    /// Number of items of a source, or the reason why it was not read.
    pub fn source(&self, source: Source) -> Read<usize> {
        match source {
            Source::Skyhooks => self.skyhooks.count(),
            Source::Legacy => self.legacy.count(),
            Source::Policies => self.policies.count(),
            Source::Nodes => self.nodes.count(),
            Source::Pods => self.pods.count(),
            // Workloads are not in the operator's namespace.
            Source::Workloads if self.only_namespace.is_some() && self.pods.was_asked() => Read::NotRequested,
            Source::Workloads => self.workloads.count(),
            Source::Jobs => self.jobs.count(),
            Source::Events => self.events.count(),
            Source::DisruptionBudgets => self.disruption_budgets.count(),
            // Several Deployments: without the Leases it is unknown which of them acts.
            Source::Operator => match (self.operators.count(), self.installation.leases.unread()) {
                (Read::Ok(count), Some(why)) => Read::Incomplete(count, why.of("leases")),
                (count, _) => count,
            },
            Source::OperatorPods => self.operator_pods.count(),
            Source::Webhooks => self.admission.read(self.may_leave_out()),
            Source::Restrictions => {
                let Installation { limit_ranges, quotas, roles, .. } = &self.installation;
                let counts = [limit_ranges.count(), quotas.count(), roles.count()];
                let mut all = counts.into_iter();
                let first = all.next().unwrap_or_default();
                all.fold(first, |sum, count| match (sum, count) {
                    (Read::Ok(sum), Read::Ok(count)) => Read::Ok(sum + count),
                    (Read::Ok(_) | Read::NotRequested, other) => other,
                    (sum, _) => sum,
                })
            }
            Source::ConfigMaps => self.config_maps.count(),
            Source::NodeMetadata => self.node_metadata.count(),
        }
    }

    /// The reason why results from this source are incomplete: the server did not return the source, or the
    /// files lack a source that every rollout needs. The user chose to omit other sources from files.
    pub fn missing(&self, source: Source) -> Option<String> {
        match self.source(source) {
            _ if Source::EXPLANATORY.contains(&source) => None,
            Read::Ok(_) => self.undecoded(source),
            Read::Incomplete(_, why) | Read::Unreadable(why) => Some(why.to_string()),
            Read::NotRequested if self.from_files && Source::ESSENTIAL.contains(&source) => {
                Some("none in the capture".to_owned())
            }
            Read::NotRequested => None,
        }
    }

    /// Whether the files may omit an object that exists: most files do not record their sources.
    pub fn may_leave_out(&self) -> bool {
        self.from_files && !self.collected
    }

    /// Whether the active API has this source.
    ///
    /// The older operator runs no Jobs, and a cluster that serves one API has no legacy objects. Files may
    /// lack existing legacy objects: see [`Migration::may_omit_legacy`].
    pub fn has(&self, source: Source) -> bool {
        match source {
            Source::Jobs => self.flavor() == ApiFlavor::NodeWright,
            Source::Legacy => {
                self.active_api.served.contains(&self.flavor().other())
                    || (self.may_leave_out() && self.migration().may_omit_legacy())
            }
            _ => true,
        }
    }
}

/// An object with fields that could not be decoded.
#[derive(Debug)]
pub struct UnknownValues<'a> {
    pub source: Source,
    pub kind: &'a str,
    /// Empty for a cluster-scoped object.
    pub namespace: &'a str,
    pub name: &'a str,
    pub fields: Vec<&'a UnknownField>,
    /// See [`Object::undecoded`].
    pub undecoded: Option<String>,
}

/// Formats the object as `node/a` or `pod/namespace/a`.
impl fmt::Display for UnknownValues<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind.to_lowercase();
        match self.namespace {
            "" => write!(f, "{kind}/{}", self.name),
            namespace => write!(f, "{kind}/{namespace}/{}", self.name),
        }
    }
}

impl Cluster {
    /// Every object of a source with fields that could not be decoded.
    pub fn unknown_values(&self, source: Source) -> Vec<UnknownValues<'_>> {
        let mut found = Collector { source, found: Vec::new() };
        let [ours, other] = [self.flavor(), self.flavor().other()].map(ApiFlavor::kind);
        match source {
            Source::Skyhooks => found.look(ours, &self.skyhooks),
            Source::Legacy => found.look(other, &self.legacy),
            Source::Policies => found.look("DeploymentPolicy", &self.policies),
            Source::Nodes => found.look("Node", &self.nodes),
            Source::Pods => found.look("Pod", &self.pods),
            Source::Workloads => found.look("Pod", &self.workloads),
            Source::Jobs => found.look("Job", &self.jobs),
            Source::Events => found.look("Event", &self.events),
            Source::DisruptionBudgets => {
                found.look("PodDisruptionBudget", &self.disruption_budgets);
            }
            Source::Operator => found.look("Deployment", &self.operators),
            Source::OperatorPods => found.look("Pod", &self.operator_pods),
            Source::Webhooks => {
                let Admission { webhooks, services, endpoints } = &self.admission;
                for configuration in webhooks {
                    found.note(&configuration.kind, configuration);
                }
                found.look("Service", services);
                found.look("EndpointSlice", endpoints);
            }
            Source::Restrictions => {
                found.look("LimitRange", &self.installation.limit_ranges);
                found.look("ResourceQuota", &self.installation.quotas);
                for object in &self.installation.roles {
                    found.note(&object.kind, object);
                }
            }
            Source::ConfigMaps => found.look("ConfigMap", &self.config_maps),
            Source::NodeMetadata => found.look("ConfigMap", &self.node_metadata),
        }
        found.found
    }

    /// Describes an unknown value of a source that decisions may depend on.
    ///
    /// Excludes fields that only record a time: a rule that needs such a time reports it as undetermined.
    pub fn undecoded(&self, source: Source) -> Option<String> {
        let values = self.unknown_values(source);
        values.iter().find_map(|object| Some(format!("{object}: {}", object.undecoded.as_ref()?)))
    }
}

impl<T: Object> Read<Vec<T>> {
    /// Keeps the matching items. The result is incomplete if another item has an undecodable value, because
    /// that item may match.
    pub fn selected(mut self, matches: impl Fn(&T) -> bool) -> Read<Vec<T>> {
        let mut unknown = None;
        if let Some(items) = self.available_mut() {
            items.retain(|item| {
                let keep = matches(item);
                if !keep && unknown.is_none() {
                    let why = item.undecoded();
                    unknown = why.map(|why| format!("{}: {why}", item.key().1));
                }
                keep
            });
        }
        if let Some(why) = unknown {
            self.lacks(why);
        }
        self
    }
}

struct Collector<'a> {
    source: Source,
    found: Vec<UnknownValues<'a>>,
}

impl<'a> Collector<'a> {
    fn look<T: Object>(&mut self, kind: &'a str, read: &'a Read<Vec<T>>) {
        read.iter().for_each(|object| self.note(kind, object));
    }

    fn note(&mut self, kind: &'a str, object: &'a impl Object) {
        let fields: Vec<&UnknownField> = object.unknown_fields().iter().collect();
        let (namespace, name) = object.key();
        if !fields.is_empty() {
            self.found.push(UnknownValues {
                source: self.source,
                kind,
                namespace,
                name,
                fields,
                undecoded: object.undecoded(),
            });
        }
    }
}
