//! The latest recorded changes after which the operator should act.

use std::collections::HashMap;

use jiff::Timestamp;

use super::{Cluster, Node, PackageRuns};
use crate::api::{Meta, Skyhook};

/// The times of recorded changes that release the next action of a custom resource.
pub struct Changes<'a> {
    cluster: &'a Cluster,
    /// The latest write of any spec, and the start of the operator.
    of_all: Option<Timestamp>,
    /// The latest transition of the operator's conditions on nodes, by custom resource.
    on_nodes: HashMap<&'a str, Timestamp>,
    /// The latest such transition of custom resources for which all later ones wait on all nodes.
    of_blocking: Option<Timestamp>,
    /// The latest creation or deletion of a workload pod, by node.
    workloads: HashMap<&'a str, Timestamp>,
}

/// Seconds within which the operator acts after a change that it watches. It reconciles within two seconds, and takes
/// longer only for thousands of nodes or after a restart.
pub const PROMPT: i64 = 60;

impl<'a> Changes<'a> {
    pub fn new(cluster: &'a Cluster) -> Changes<'a> {
        // A change of an earlier custom resource may release a later one.
        let specs = cluster.skyhooks.items().iter().flat_map(|skyhook| spec_writes(&skyhook.metadata));
        let mut changes = Changes {
            cluster,
            of_all: latest(cluster, specs.chain(cluster.operator_started())),
            on_nodes: HashMap::new(),
            of_blocking: None,
            workloads: HashMap::new(),
        };
        let prefix = cluster.flavor().key("");
        for condition in cluster.nodes.items().iter().flat_map(Node::conditions) {
            let own = condition.kind.strip_prefix(&prefix).and_then(|kind| kind.split_once('/'));
            if let (Some((name, _)), Some(at)) = (own, condition.last_transition_time) {
                let newest = changes.on_nodes.entry(name).or_insert(at);
                *newest = at.max(*newest);
            }
        }
        let blocking = cluster.skyhooks.items().iter().filter(|skyhook| skyhook.blocks_all_nodes());
        changes.of_blocking =
            blocking.filter_map(|skyhook| changes.on_nodes.get(skyhook.name())).copied().max();
        for pod in cluster.workloads.items() {
            let times = [pod.metadata.creation_timestamp, pod.metadata.deletion_timestamp];
            if let Some(at) = latest(cluster, times.into_iter().flatten()) {
                let newest = changes.workloads.entry(&pod.spec.node_name).or_insert(at);
                *newest = at.max(*newest);
            }
        }
        changes
    }

    /// The latest change that concerns all nodes of a custom resource. Excludes the operator's own writes of the
    /// status: they continue while it fails on one node.
    pub fn of_skyhook(&self, skyhook: &Skyhook) -> Option<Timestamp> {
        let cluster = self.cluster;
        let meta = &skyhook.metadata;
        let conditions = skyhook.status.conditions.iter();
        let policy = cluster.policy(&skyhook.spec.deployment_policy);
        let policy = policy
            .into_iter()
            .flat_map(|policy| spec_writes(&policy.metadata).chain(policy.metadata.creation_timestamp));
        let times = conditions
            .filter_map(|condition| condition.last_transition_time)
            .chain(policy)
            .chain(self.on_nodes.get(skyhook.name()).copied())
            .chain(self.of_blocking)
            .chain(skyhook.status.node_priority.values().copied().flatten())
            .chain(cluster.selected(skyhook).filter_map(|node| node.created))
            .chain(meta.creation_timestamp)
            .chain(meta.deletion_timestamp)
            .chain(self.of_all);
        latest(cluster, times)
    }

    /// The latest change of a node, and of the stages and pods on it.
    pub fn of_node(
        &self,
        package_runs: &PackageRuns<'_>,
        skyhook: &Skyhook,
        node: &Node,
    ) -> Option<Timestamp> {
        let cluster = self.cluster;
        let conditions = node.conditions().iter().filter_map(|condition| condition.last_transition_time);
        let runs = package_runs.on_node(&node.name).flat_map(|run| {
            let job = run.job.into_iter().flat_map(|job| {
                let conditions = job.status.conditions.iter().filter_map(|c| c.last_transition_time);
                conditions.chain(job.status.completion_time).chain(job.metadata.deletion_timestamp)
            });
            let pods = run.pods.iter().flat_map(|pod| {
                let containers = pod.status.init_container_statuses.iter();
                let ended = containers.filter_map(|c| c.state.terminated.as_ref()?.finished_at);
                ended.chain(pod.metadata.creation_timestamp).chain(pod.metadata.deletion_timestamp)
            });
            job.chain(pods).chain(run.created()).collect::<Vec<_>>()
        });
        let on = cluster.on_node(node, skyhook.name());
        let times = conditions
            .chain(runs)
            .chain(self.workloads.get(node.name.as_str()).copied())
            .chain(node.annotated)
            .chain(node.selectable)
            .chain(on.and_then(|on| on.draining_since()));
        latest(cluster, times)
    }
}

/// Times of writes outside of the status.
fn spec_writes(meta: &Meta) -> impl Iterator<Item = Timestamp> {
    let writes = meta.managed_fields.iter().filter(|write| write.subresource != "status");
    writes.filter_map(|write| write.time)
}

/// The latest of these times, without those of wrong clocks.
fn latest(cluster: &Cluster, times: impl Iterator<Item = Timestamp>) -> Option<Timestamp> {
    times.filter(|at| cluster.seconds_since(Some(*at)).is_some()).max()
}
