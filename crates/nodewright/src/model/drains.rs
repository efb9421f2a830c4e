//! Drains that interrupts need: the nodes, and the progress of drains that have begun.

use jiff::Timestamp;

use super::Model;
use super::gates::{At, drain};
use super::profile::SpecPackage;
use super::stage::Step;
use crate::api::Skyhook;
use crate::cluster::drain::Drain;
use crate::cluster::{Certainty, Cluster, Node, Pod, Source};

/// A drain that the operator has begun.
#[derive(Debug)]
pub struct DrainProgress<'a> {
    /// Start of the drain; operators before v0.18 do not record it.
    pub since: Option<Timestamp>,
    /// Pods that are not evicted or have not ended yet; `None` if pods were not read.
    pub pods: Option<Vec<&'a Pod>>,
    /// Whether the API server refuses evictions, according to the operator's record or the budgets.
    pub refused: bool,
}

/// Sorted names of the nodes that wait for a drain: for an interrupt, or because they are being deleted.
pub fn waiting_for_drain(cluster: &Cluster) -> Vec<&str> {
    let interrupts = |skyhook: &Skyhook| {
        let mut packages = skyhook.packages();
        packages.any(|(name, package)| skyhook.pending_interrupt(name, package).is_some())
    };
    let deleted = cluster.nodes.items().iter().filter(|node| node.deletion.is_some());
    let mut names: Vec<&str> = deleted.map(|node| node.name.as_str()).collect();
    if cluster.skyhooks.items().iter().any(interrupts) {
        let drains = Model::new(cluster).drains();
        names.extend(drains.iter().map(|drain| drain.node.name.as_str()));
    }
    names.sort_unstable();
    names.dedup();
    names
}

/// Whether the workload pods on these nodes were read. A capture contains them only for nodes that wait for a drain.
pub fn knows_workloads_on(cluster: &Cluster, nodes: &[&Node]) -> bool {
    let all_wait = || {
        let waiting = waiting_for_drain(cluster);
        nodes.iter().all(|node| waiting.binary_search(&node.name.as_str()).is_ok())
    };
    cluster.workloads.ok().is_some() && (!cluster.collected || all_wait())
}

impl<'a> Model<'a> {
    /// Drains that interrupts need now or later, on nodes on which nothing else comes first. Includes ignored nodes.
    ///
    /// The operator cordons the node, waits for protected workloads and drains the node before it runs a package with an
    /// interrupt, and again for each stage up to `config`.
    pub fn drains(&self) -> Vec<Drain<'a>> {
        let mut drains = Vec::new();
        let cluster = self.cluster;
        let resources = cluster.skyhooks.items().iter().filter_map(|s| self.resource(s.name()));
        for resource in resources.filter(|r| r.packages.iter().any(SpecPackage::interrupts)) {
            let skyhook = resource.skyhook;
            let idle = cluster.is_idle(skyhook);
            for (index, place) in resource.by_name().filter(|(_, place)| resource.is_unblocked(place)) {
                let node = resource.nodes[index];
                let begun = !place.ignored && (idle || cluster.is_taken_up(skyhook, node));
                let at = At::new(self, resource, index);
                drains.extend(due(&at).map(|package| Drain {
                    skyhook,
                    node,
                    package,
                    begun,
                    ignored: place.ignored,
                }));
            }
        }
        drains
    }

    /// The drain of a node that is in progress for a custom resource, if any.
    pub fn drain_progress(&self, skyhook: &str, node: &Node) -> Option<DrainProgress<'a>> {
        let (resource, index) = self.at(skyhook, node)?;
        let at = At::new(self, resource, index);
        let record = at.profile.record?;
        let recorded = record.drain_start.is_some() || record.drain_blocked.is_some();
        let begun = recorded || record.cordon && self.operator.before(0, 18);
        let over = record.drain_timed_out() || at.runs().any(|run| run.alive());
        if !begun || over || !resource.skyhook.is_active() || due(&at).next().is_none() {
            return None;
        }
        let read = self.cluster.source(Source::Workloads).ok().is_some();
        let pods = read.then(|| drain::remaining(&at));
        // Without a record, only remaining pods prove that the drain is in progress.
        let empty = pods.as_ref().is_none_or(Vec::is_empty);
        if !recorded && (empty || self.cluster.certainty_of_no_package_run() == Certainty::Unknown) {
            return None;
        }
        let blocked = |pod: &&Pod| self.cluster.eviction_block(pod).is_some();
        let refused = !self.cluster.refusals_in_force(resource.skyhook, node, record).is_empty()
            || pods.iter().flatten().any(blocked);
        Some(DrainProgress { since: record.draining_since(), pods, refused })
    }
}

/// The packages on a node whose next stage starts with a drain, without running ones.
fn due<'m, 'a>(at: &At<'m, 'a>) -> impl Iterator<Item = &'a str> {
    let drains = at.profile.due.iter().filter(|(_, step)| matches!(step, Step::Start { drains: true, .. }));
    let names = drains.map(|(package, _)| at.resource.packages[*package].name);
    names.filter(|name| !at.runs().any(|run| run.alive() && (run.package == *name || run.interrupt)))
}
