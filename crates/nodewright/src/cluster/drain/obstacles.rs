//! Obstacles of a drain: reasons why pods stay on the node.

use std::collections::{BTreeMap, HashMap};

use jiff::{SignedDuration, Timestamp};

use super::Drain;
use super::eviction::{EvictionBlock, EvictionWebhook};
use super::refusal::Refusal;
use crate::cluster::{Certainty, Cluster, DisruptionBudget, Pod};

/// Time within which the kubelet removes a pod after the end of the pod's grace period.
const REMOVED_WITHIN: SignedDuration = SignedDuration::from_mins(2);
/// Time within which an eviction shows an effect: the operator retries every 30 seconds.
const EVICTED_WITHIN: SignedDuration = SignedDuration::from_mins(10);

/// Obstacles that keep pods on the node of a drain.
#[derive(Debug, Default)]
pub struct Obstacles<'a> {
    /// Refusals that the operator recorded and that may still apply.
    pub noted: Vec<Refusal>,
    /// Budgets that refuse evictions, by path, each with the pods whose eviction it refuses.
    pub budgets: BTreeMap<String, (&'a DisruptionBudget, Vec<&'a Pod>)>,
    /// Pods that several budgets select, each with these budgets.
    pub overlaps: Vec<(&'a Pod, Vec<&'a DisruptionBudget>)>,
    /// Evicted pods that should have ended some time ago.
    pub overdue: Vec<&'a Pod>,
    /// Pods that have not been evicted although the drain began some time ago, without a known obstacle.
    pub unexplained: Vec<&'a Pod>,
    /// Webhooks that may refuse to evict the unexplained pods.
    pub webhooks: Vec<EvictionWebhook<'a>>,
    /// Message of an event about a failed eviction of an unexplained pod.
    pub quoted: Option<&'a str>,
}

/// Finds the obstacles of drains.
pub struct ObstacleReader<'a> {
    cluster: &'a Cluster,
    pods: HashMap<&'a str, Vec<&'a Pod>>,
    /// Whether budgets and workload pods were read, and package runs are known.
    whole: bool,
}

impl<'a> ObstacleReader<'a> {
    pub fn new(cluster: &'a Cluster) -> ObstacleReader<'a> {
        ObstacleReader {
            cluster,
            pods: cluster.evictable_by_node(),
            whole: cluster.workloads.ok().is_some()
                && cluster.disruption_budgets.ok().is_some()
                && cluster.certainty_of_no_package_run() != Certainty::Unknown,
        }
    }

    pub fn of(&self, drain: &Drain<'a>) -> Obstacles<'a> {
        let cluster = self.cluster;
        let on = cluster.on_node(drain.node, drain.skyhook.name());
        let mut obstacles = Obstacles {
            noted: on.map_or_else(Vec::new, |on| cluster.refusals_in_force(drain.skyhook, drain.node, on)),
            ..Obstacles::default()
        };
        let evicts = drain.skyhook.spec.drain_config.disable_eviction != Some(true);
        let draining = on.is_some_and(|on| on.cordon || on.drain_start.is_some());
        let began = on.and_then(|on| on.draining_since());
        let pods = self.pods.get(drain.node.name.as_str());
        for pod in pods.into_iter().flatten().copied() {
            if pod.metadata.deleting() {
                // Before v0.19 the operator does not wait until evicted pods have ended.
                let waits = draining && !cluster.operator_before(0, 19);
                let due = pod.metadata.deletion_timestamp;
                if waits && self.older(due, REMOVED_WITHIN) {
                    obstacles.overdue.push(pod);
                }
                continue;
            }
            match cluster.eviction_block(pod).filter(|_| self.whole && evicts) {
                Some(EvictionBlock::Budget(budget)) => {
                    let held = obstacles.budgets.entry(budget.path());
                    held.or_insert((budget, Vec::new())).1.push(pod);
                }
                Some(EvictionBlock::Overlap(budgets)) => obstacles.overlaps.push((pod, budgets)),
                None if self.whole && self.refused_silently(pod, began, &obstacles.noted) => {
                    obstacles.unexplained.push(pod);
                }
                None => {}
            }
        }
        if !obstacles.unexplained.is_empty() {
            obstacles.webhooks = cluster.eviction_webhooks().collect();
            let mut pods = obstacles.unexplained.iter();
            let event = pods.find_map(|pod| cluster.eviction_event(pod));
            obstacles.quoted = event.map(|event| event.message.as_str());
        }
        obstacles
    }

    /// Whether a pod from before the drain has not been evicted for a long time, without a refusal recorded
    /// by the operator.
    fn refused_silently(&self, pod: &Pod, began: Option<Timestamp>, noted: &[Refusal]) -> bool {
        let before = pod.metadata.creation_timestamp.zip(began);
        let noted = noted.iter().any(|refusal| refusal.pod() == pod.path());
        before.is_some_and(|(created, began)| created < began) && !noted && self.older(began, EVICTED_WITHIN)
    }

    fn older(&self, at: Option<Timestamp>, than: SignedDuration) -> bool {
        at.is_some_and(|at| self.cluster.taken_at.duration_since(at) >= than)
    }
}

impl Obstacles<'_> {
    pub fn is_empty(&self) -> bool {
        self.noted.is_empty()
            && self.budgets.is_empty()
            && self.overlaps.is_empty()
            && self.overdue.is_empty()
            && self.unexplained.is_empty()
    }

    /// Whether the obstacle is pods (not ready, not terminating in time, or not evicted), rather than a
    /// budget that will allow a disruption again.
    pub fn are_pods(&self) -> bool {
        let mut held = self.budgets.values().flat_map(|(_, pods)| pods);
        !self.overdue.is_empty() || !self.unexplained.is_empty() || held.any(|pod| !pod.ready())
    }
}
