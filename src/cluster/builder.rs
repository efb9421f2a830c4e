//! What an edge has read, before it is known which API is active.

use jiff::Timestamp;

use super::admission::Admission;
use super::{
    ActiveApi, ApiEvidence, Cluster, ConfigMap, Deployment, DisruptionBudget, Event, Job, KeptLogs,
    Node, Pod, Read,
};
use crate::api::{ApiFlavor, DeploymentPolicy, Skyhook, Version};

/// The pieces of a [`Cluster`], as an edge collects them.
#[derive(Debug, Default)]
pub struct ClusterBuilder {
    pub taken_at: Timestamp,
    pub clock: super::Clock,
    pub from_files: bool,
    /// See [`Cluster::collected`].
    pub collected: bool,
    pub kept_logs: Option<KeptLogs>,
    /// See [`Cluster::only_namespace`].
    pub only_namespace: Option<String>,
    /// The APIs that are served, or of which files hold traces.
    pub served: Vec<ApiFlavor>,
    /// See [`Cluster::named_only`].
    pub named_only: bool,
    /// `--api`.
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
    /// Deployments with the manager label, of whatever operator.
    pub deployments: Read<Vec<Deployment>>,
    /// Pods with the manager label, of whatever operator.
    pub operator_pods: Read<Vec<Pod>>,
    pub admission: Admission,
}

impl ClusterBuilder {
    /// Decides which API is active; `None` if there is no trace of either.
    pub fn active_api(&self) -> Option<ActiveApi> {
        let nodewrights = self.skyhooks[ApiFlavor::NodeWright as usize].items();
        let adopted = |n: &&Node| {
            let keys = n.keys(ApiFlavor::NodeWright);
            keys.skyhooks.values().any(|on| on.version.is_some())
        };
        ActiveApi::decide(ApiEvidence {
            served: self.served.clone(),
            operator_version: self.operator_version(),
            nodewrights_with_status: nodewrights
                .iter()
                .filter(|n| n.status.status.is_some())
                .count(),
            adopted_nodes: self.nodes.items().iter().filter(adopted).count(),
            asked_for: self.asked_for,
            from_files: self.from_files && !self.collected,
        })
    }

    /// Finds the operator's pods among all that the files hold: they are workloads, too.
    pub fn find_operator_pods(&mut self) {
        self.operator_pods = match &self.workloads {
            Read::Ok(pods) => {
                let managers = pods.iter().filter(|pod| pod.runs_a_manager());
                Read::Ok(managers.cloned().collect())
            }
            Read::Unreadable(why) => Read::Unreadable(why.clone()),
            Read::NotRequested => Read::NotRequested,
        };
    }

    /// Tells the ConfigMaps of nodes from those of packages, among all that the files hold.
    pub fn find_node_metadata(&mut self) {
        match &mut self.config_maps {
            Read::Ok(all) => {
                let of_nodes = all.extract_if(.., |map| map.is_of_a_node()).collect();
                self.node_metadata = Read::Ok(of_nodes);
            }
            Read::Unreadable(why) => self.node_metadata = Read::Unreadable(why.clone()),
            Read::NotRequested => {}
        }
    }

    /// Notes where the files hold pods of one namespace only, which are not all pods.
    ///
    /// A whole cluster has pods of its own beside the operator's. In the operator's namespace these
    /// are the package pods, elsewhere only others.
    pub fn note_only_namespace(&mut self) {
        let namespace = |p: &Pod| p.metadata.namespace.clone();
        let pods = || self.pods.items().iter().chain(self.workloads.items());
        let Some(only) = pods().next().and_then(namespace) else {
            return;
        };
        if !pods().all(|p| namespace(p).as_ref() == Some(&only)) {
            return;
        }
        let mut operators = self.deployments.items().iter();
        let operator = operators
            .find(|d| d.runs_operator())
            .map(Deployment::namespace);
        let ours = operator == Some(only.as_str())
            || !self.pods.items().is_empty()
            || (operator.is_none() && ApiFlavor::ALL.iter().any(|g| g.default_namespace() == only));
        if !ours && self.pods.was_asked() {
            self.pods = Read::NotRequested;
            self.operator_pods = Read::NotRequested;
        }
        self.only_namespace = Some(only);
    }

    /// The version of the operator that runs, as its Deployment says.
    pub(super) fn operator_version(&self) -> Option<Version> {
        let running = self
            .deployments
            .items()
            .iter()
            .filter(|d| d.runs_operator());
        running.filter_map(Deployment::operator_version).max()
    }

    /// The cluster without either API, of which only the nodes tell: there are no custom resources, and the keys say
    /// which API it was.
    pub fn of_leftovers(
        nodes: Read<Vec<Node>>,
        asked_for: Option<ApiFlavor>,
        now: Timestamp,
    ) -> Cluster {
        let newer = |n: &Node| !n.keys(ApiFlavor::NodeWright).skyhooks.is_empty();
        let flavor = asked_for.unwrap_or(if nodes.items().iter().any(newer) {
            ApiFlavor::NodeWright
        } else {
            ApiFlavor::Skyhook
        });
        let builder = ClusterBuilder {
            taken_at: now,
            skyhooks: [Read::Ok(Vec::new()), Read::Ok(Vec::new())],
            nodes,
            ..ClusterBuilder::default()
        };
        builder.assemble(ActiveApi {
            flavor,
            reasons: vec![
                "neither API is served, but nodes have annotations or labels of this API"
                    .to_owned(),
            ],
            served: Vec::new(),
            operator_version: None,
        })
    }

    /// The cluster, seen from the active API.
    pub fn assemble(self, active_api: ActiveApi) -> Cluster {
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
                // Servers give them in order, and to sort takes room.
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
            operators: self
                .deployments
                .map(|d| d.into_iter().filter(Deployment::runs_operator).collect()),
            operator_pods: self.operator_pods,
            admission: self.admission,
            holders: Default::default(),
            named_only: self.named_only,
            from_files: self.from_files,
            collected: self.collected,
            kept_logs: self.kept_logs,
            only_namespace: self.only_namespace,
            versions: Default::default(),
            selections: Default::default(),
        }
    }
}
