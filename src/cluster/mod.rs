//! A cluster as one immutable value, with queries on it.
//!
//! The two edges `live` (an API server) and `dump` (files) read it. Everything else in this directory is pure: no
//! client, no clock, no files.

mod absent_package;
mod acting;
pub mod active_api;
pub mod admission;
mod annotations;
pub mod applied;
pub mod applier;
pub mod attempts;
pub mod batch;
pub mod builder;
mod capability;
pub mod capture;
pub mod certificate;
pub mod clock;
pub mod compartment;
pub mod config_map;
pub mod contrast;
pub mod cordon;
mod cordon_marks;
pub mod deletion;
mod disruption_budget;
pub mod drain;
pub mod dump;
pub mod event;
mod event_index;
pub mod exit;
pub mod field_managers;
pub mod history;
pub mod hold;
mod indexes;
pub mod installation;
pub mod job;
mod json_pieces;
pub mod kept_logs;
pub mod leftover;
mod lenient;
pub mod live;
mod managed;
pub mod migration;
mod named_nodes;
pub mod node;
pub mod operator;
pub mod package_run;
pub mod package_runs;
pub mod parked;
pub mod placement;
pub mod pod;
pub mod priority;
pub mod provenance;
pub mod read;
pub mod remnants;
mod resource_versions;
pub mod rollout;
mod selections;
pub mod simulate_deletion;
mod source;
pub mod stage_duration;
pub mod staleness;
mod standard;
pub mod taints;
mod unknown;

use jiff::Timestamp;

use crate::api::{ApiFlavor, DeploymentPolicy, Skyhook};
pub use active_api::{ActiveApi, ApiEvidence};
use admission::Admission;
pub use builder::ClusterBuilder;
pub use clock::Clock;
pub use config_map::ConfigMap;
pub use disruption_budget::DisruptionBudget;
pub use event::Event;
use indexes::Indexes;
use installation::Installation;
pub use job::Job;
pub use kept_logs::KeptLogs;
pub use lenient::decode as decode_leniently;
pub use named_nodes::Only;
pub use node::{Node, NodeEdit, NodeFields, NodeRecord};
pub use operator::Deployment;
pub use package_run::PackageRun;
pub use package_runs::PackageRuns;
pub use placement::{AskedBy, Desired, Phase, Placement};
pub use pod::Pod;
pub use read::{Certainty, Read, Unread};
pub use resource_versions::ResourceVersions;
pub use source::Source;
pub use unknown::UnknownValues;

/// Everything that was read, at one moment. Nothing in it changes.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// The reference time of ages: the time of the read, or the closest known time for files.
    pub taken_at: Timestamp,
    pub clock: Clock,
    pub active_api: ActiveApi,
    /// The custom resources of the active API.
    pub skyhooks: Read<Vec<Skyhook>>,
    /// Those of the other API, where its API is served too.
    pub legacy: Read<Vec<Skyhook>>,
    pub policies: Read<Vec<DeploymentPolicy>>,
    /// Those of the other API, read along with them where its API is served too.
    pub legacy_policies: Read<Vec<DeploymentPolicy>>,
    /// Sorted by name.
    pub nodes: Read<Vec<Node>>,
    pub pods: Read<Vec<Pod>>,
    pub workloads: Read<Vec<Pod>>,
    pub jobs: Read<Vec<Job>>,
    /// The ConfigMaps of packages.
    pub config_maps: Read<Vec<ConfigMap>>,
    /// ConfigMaps with node metadata for packages.
    pub node_metadata: Read<Vec<ConfigMap>>,
    pub events: Read<Vec<Event>>,
    pub disruption_budgets: Read<Vec<DisruptionBudget>>,
    /// The Deployments that run the operator; normally one.
    pub operators: Read<Vec<Deployment>>,
    /// Pods with the manager label, where these Deployments are; see [`Cluster::pods_of`].
    pub operator_pods: Read<Vec<Pod>>,
    pub admission: Admission,
    /// Other objects of the installation; from a server only those that identify the operator.
    pub installation: Installation,
    /// The operator's namespace by `--namespace`.
    pub given_namespace: Option<String>,
    /// Runs of this program on this machine that hold a custom resource.
    pub holders: hold::Holders,
    /// Only the nodes that a command names were read, and what runs there.
    pub named_only: bool,
    /// From files rather than from a server.
    pub from_files: bool,
    /// A capture with an index of its sources: an object missing from it did not exist.
    pub collected: bool,
    /// From files that hold some custom resources and no list of all: there may be others.
    pub some_skyhooks: bool,
    /// The logs that these files hold.
    pub kept_logs: Option<KeptLogs>,
    /// The one namespace of which the files hold pods: those of the others were left out.
    pub only_namespace: Option<String>,
    /// The resource versions at which watches continue.
    pub versions: ResourceVersions,
    /// Over the lists above: whoever changes one of them resets these.
    indexes: Indexes,
}

impl Cluster {
    pub fn flavor(&self) -> ApiFlavor {
        self.active_api.flavor
    }

    pub fn node(&self, name: &str) -> Option<&Node> {
        Some(&self.nodes.indexed()[self.node_position(name)?])
    }

    /// How much was read of every node.
    pub fn node_fields(&self) -> NodeFields {
        let first = self.nodes.indexed().first();
        first.map_or(NodeFields::All, Node::fields)
    }

    /// The position of a node of this cluster in the list.
    pub fn node_index(&self, node: &Node) -> usize {
        let first = self.nodes.indexed().as_ptr();
        (std::ptr::from_ref(node).addr() - first.addr()) / size_of::<Node>()
    }

    /// The position of a node in the list, by its name.
    fn node_position(&self, name: &str) -> Option<usize> {
        let nodes = self.nodes.indexed();
        nodes.binary_search_by(|n| n.name.as_str().cmp(name)).ok()
    }

    /// How sure it is that a custom resource which was not read does not exist.
    pub fn skyhooks_absence(&self) -> Certainty {
        match self.skyhooks.absence() {
            Certainty::Proven if self.some_skyhooks => Certainty::Presumed,
            certainty => certainty,
        }
    }

    /// Whether a source was read, and if not, why.
    pub fn source(&self, source: Source) -> Read<usize> {
        match source {
            Source::Skyhooks => self.skyhooks.count(),
            Source::Legacy => self.legacy.count(),
            Source::Policies => self.policies.count(),
            Source::Nodes => self.nodes.count(),
            Source::Pods => self.pods.count(),
            // Where the operator lives is not where the workloads are.
            Source::Workloads if self.only_namespace.is_some() && self.pods.was_asked() => Read::NotRequested,
            Source::Workloads => self.workloads.count(),
            Source::Jobs => self.jobs.count(),
            Source::Events => self.events.count(),
            Source::DisruptionBudgets => self.disruption_budgets.count(),
            // Leases are read only where they decide which Deployment acts.
            Source::Operator => match self.installation.leases.unread() {
                Some(why) => self.operators.count().without(why.of("leases")),
                None => self.operators.count(),
            },
            Source::OperatorPods => self.operator_pods.count(),
            Source::Webhooks => self.admission.read(self.may_leave_out()),
            Source::ConfigMaps => self.config_maps.count(),
            Source::NodeMetadata => self.node_metadata.count(),
        }
    }

    /// Why an answer from this source is incomplete: the server did not return it, or the files lack a source that
    /// every rollout needs. Other gaps in files are the user's choice.
    pub fn missing(&self, source: Source) -> Option<String> {
        match self.source(source) {
            Read::Ok(_) => self.undecoded(source),
            Read::Incomplete(_, why) | Read::Unreadable(why) => Some(why.to_string()),
            Read::NotRequested if self.from_files && Source::ESSENTIAL.contains(&source) => {
                Some("none in the input".to_owned())
            }
            Read::NotRequested => None,
        }
    }

    /// Whether a missing object may have been left out: most files do not record their sources.
    pub fn may_leave_out(&self) -> bool {
        self.from_files && !self.collected
    }

    /// Whether the active API has this source at all.
    ///
    /// The older operator runs no Jobs, and a cluster that serves one API has no legacy objects. Files without them may
    /// be incomplete; then the operator's version decides.
    pub fn has(&self, source: Source) -> bool {
        match source {
            Source::Jobs => self.flavor() == ApiFlavor::NodeWright,
            Source::Legacy => {
                self.active_api.served.contains(&self.flavor().other())
                    || (self.may_leave_out() && self.operator_migrates())
            }
            _ => true,
        }
    }
}
