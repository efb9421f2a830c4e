//! Refused evictions that the operator recorded on a node.

use std::fmt;

use jiff::Timestamp;
use serde::Deserialize;

use crate::api::{Skyhook, State, Status};
use crate::cluster::{Cluster, Node, NodeRecord, Pod, Source};

/// Number of seconds within which the newer operator retries a refused eviction (30) and records the result
/// (15).
const RETRY: i64 = 30 + 15;

/// A refused eviction from the annotation `drainBlocked_NAME`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Refusal {
    pub namespace: String,
    pub name: String,
    /// `PodDisruptionBudget`, `UnmanagedPod` or `EmptyDirData`.
    pub reason: String,
    pub detail: String,
}

impl Refusal {
    /// `namespace/name` of the pod.
    pub fn pod(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// Formats the refusal as `pod apps/web-1: PodDisruptionBudget: …`.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.name.is_empty() {
            write!(f, "pod {}: ", self.pod())?;
        }
        let parts = [self.reason.as_str(), self.detail.as_str()];
        let parts = parts.into_iter().filter(|part| !part.is_empty());
        f.write_str(&parts.collect::<Vec<_>>().join(": "))
    }
}

impl NodeRecord {
    /// Start of the node's drain.
    pub fn draining_since(&self) -> Option<Timestamp> {
        self.drain_start.as_deref()?.parse().ok()
    }

    /// Whether the drain timed out: the operator then reports the node as failed and does not retry.
    pub fn drain_timed_out(&self) -> bool {
        let failed = self.entries().iter().any(|e| e.state == State::Erroring);
        self.drain_start.is_some() && self.status == Some(Status::Erroring) && !failed
    }

    /// The refusals recorded by the operator; text in another format becomes one refusal without a pod.
    pub fn refusals(&self) -> Vec<Refusal> {
        let Some(text) = &self.drain_blocked else {
            return Vec::new();
        };
        serde_json::from_str(text)
            .unwrap_or_else(|_| vec![Refusal { detail: text.clone(), ..Refusal::default() }])
    }
}

impl Cluster {
    /// The recorded refusals that may still apply: the operator updates them only at its next attempt.
    pub fn refusals_in_force(&self, skyhook: &Skyhook, node: &Node, on: &NodeRecord) -> Vec<Refusal> {
        let mut refusals = on.refusals();
        refusals.retain(|r| self.still_refused(skyhook, node, r).unwrap_or(true));
        refusals
    }

    /// Whether the pod still exists and its eviction would be refused again; `None` if unknown.
    fn still_refused(&self, skyhook: &Skyhook, node: &Node, refusal: &Refusal) -> Option<bool> {
        if refusal.name.is_empty() {
            return None;
        }
        self.source(Source::Workloads).ok()?;
        let named = |p: &&Pod| {
            p.spec.node_name == node.name
                && p.name() == refusal.name
                && p.metadata.namespace.as_deref() == Some(&refusal.namespace)
        };
        let Some(pod) = self.workloads.items().iter().find(named) else {
            return Some(false);
        };
        if pod.ended() || pod.metadata.deleting() {
            return Some(false);
        }
        let drain = &skyhook.spec.drain_config;
        match refusal.reason.as_str() {
            "PodDisruptionBudget" if drain.disable_eviction == Some(true) => Some(false),
            "PodDisruptionBudget" => {
                self.disruption_budgets.ok()?;
                Some(self.eviction_block(pod).is_some())
            }
            "UnmanagedPod" => Some(drain.force != Some(true)),
            "EmptyDirData" => Some(drain.delete_empty_dir_data != Some(true)),
            _ => Some(true),
        }
    }

    /// Whether the drain began so recently that the operator has not retried a refused eviction yet.
    pub fn refusal_is_young(&self, on: &NodeRecord) -> bool {
        let age = |at: Timestamp| self.taken_at.as_second() - at.as_second();
        on.draining_since().is_some_and(|at| age(at) < RETRY)
    }
}
