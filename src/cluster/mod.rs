//! What was read of a cluster, as one immutable value, and the questions one asks of it.
//!
//! Reading is done by the two edges, `live` (an API server) and `dump` (files). Everything else in
//! this directory is pure: no client, no clock, no files.

pub mod active_api;
pub mod admission;
mod annotations;
pub mod applier;
pub mod at_once;
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
pub mod exit;
pub mod field_managers;
pub mod history;
pub mod hold;
pub mod installation;
pub mod job;
mod json_pieces;
pub mod kept_logs;
pub mod leftover;
pub mod live;
mod managed;
pub mod migration;
mod named_nodes;
pub mod node;
mod nulls;
pub mod operator;
pub mod package_run;
pub mod parked;
pub mod placement;
pub mod pod;
pub mod priority;
pub mod queue_position;
pub mod read;
pub mod refusal;
mod resource_versions;
pub mod rollout;
mod selections;
pub mod simulate_deletion;
mod source;
pub mod stage_duration;
pub mod staleness;
pub mod taints;

use jiff::Timestamp;

use crate::api::{ApiFlavor, DeploymentPolicy, Skyhook};
pub use active_api::{ActiveApi, ApiEvidence};
use admission::Admission;
pub use builder::ClusterBuilder;
pub use clock::Clock;
pub use config_map::ConfigMap;
pub use disruption_budget::DisruptionBudget;
pub use event::Event;
pub use job::Job;
pub use kept_logs::KeptLogs;
pub use named_nodes::Only;
pub use node::{Node, NodeRecord};
pub use operator::Deployment;
pub use package_run::{PackageRun, PackageRuns};
pub use placement::{AskedBy, Desired, Phase, Placement};
pub use pod::Pod;
pub use read::{Certainty, Read, Unread};
pub use resource_versions::ResourceVersions;
use selections::Selections;
pub use source::Source;

/// Everything that was read, at one moment. Nothing in it changes.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// The time that ages are counted to: when it was read, or as near to that as files tell.
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
    /// What packages are told of nodes.
    pub node_metadata: Read<Vec<ConfigMap>>,
    pub events: Read<Vec<Event>>,
    pub disruption_budgets: Read<Vec<DisruptionBudget>>,
    /// The Deployments that run the operator; normally one.
    pub operators: Read<Vec<Deployment>>,
    /// Pods with the manager label, where these Deployments are; see [`Cluster::pods_of`].
    pub operator_pods: Read<Vec<Pod>>,
    pub admission: Admission,
    /// Runs of this program that hold a custom resource, as far as they are of this machine.
    pub holders: hold::Holders,
    /// Only the nodes that a command names were read, and what runs there.
    pub named_only: bool,
    /// From files rather than from a server.
    pub from_files: bool,
    /// From files that say what was asked for: what they hold none of was not there.
    pub collected: bool,
    /// The logs that these files hold.
    pub kept_logs: Option<KeptLogs>,
    /// The one namespace of which the files hold pods: those of the others were left out.
    pub only_namespace: Option<String>,
    /// Where watches of what was read from a server go on.
    pub versions: ResourceVersions,
    /// Of `nodes`, which stay as they are.
    selections: Selections,
}

impl Cluster {
    pub fn flavor(&self) -> ApiFlavor {
        self.active_api.flavor
    }

    /// The custom resource of that name, in the active API.
    pub fn skyhook(&self, name: &str) -> Option<&Skyhook> {
        self.skyhooks.items().iter().find(|s| s.name() == name)
    }

    pub fn node(&self, name: &str) -> Option<&Node> {
        let nodes = self.nodes.items();
        let at = nodes.binary_search_by(|n| n.name.as_str().cmp(name)).ok()?;
        Some(&nodes[at])
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
            Source::Workloads if self.only_namespace.is_some() && self.pods.was_asked() => {
                Read::NotRequested
            }
            Source::Workloads => self.workloads.count(),
            Source::Jobs => self.jobs.count(),
            Source::Events => self.events.count(),
            Source::DisruptionBudgets => self.disruption_budgets.count(),
            Source::Operator => self.operators.count(),
            Source::OperatorPods => self.operator_pods.count(),
            Source::Webhooks => self.admission.read(self.may_leave_out()),
            Source::ConfigMaps => self.config_maps.count(),
            Source::NodeMetadata => self.node_metadata.count(),
        }
    }

    /// Why an answer that takes this source must not pass for whole: the server did not return it, or the files lack what no
    /// rollout can be judged without. What else they do not hold is the choice of whoever gives them.
    pub fn missing(&self, source: Source) -> Option<String> {
        match self.source(source) {
            Read::Ok(_) => None,
            Read::Unreadable(why) => Some(why.to_string()),
            Read::NotRequested if self.from_files && Source::ESSENTIAL.contains(&source) => {
                Some("none in the input".to_owned())
            }
            Read::NotRequested => None,
        }
    }

    /// Whether what is not in it may just have been left out: files do not say what was asked for, as a rule.
    pub fn may_leave_out(&self) -> bool {
        self.from_files && !self.collected
    }

    /// Whether the active API has such a thing at all.
    ///
    /// The older operator runs no Jobs, and a cluster that serves one API has no legacy objects;
    /// files that hold none may just leave them out, and then the operator's version tells.
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
