//! The progress of a node's drain.

use jiff::Timestamp;

use super::{is_active, is_evicted};
use crate::api::Skyhook;
use crate::cluster::{Certainty, Cluster, Node, NodeRecord, PackageRuns, Pod, Source};

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

impl NodeRecord {
    /// Whether a drain may be in progress: the operator cordons a node first.
    pub fn may_drain(&self) -> bool {
        self.cordon || self.drain_start.is_some() || self.drain_blocked.is_some()
    }
}

impl Cluster {
    /// The drain of a node that is in progress for a custom resource, if any.
    pub fn drain_progress<'a>(
        &'a self,
        package_runs: &PackageRuns<'_>,
        skyhook: &Skyhook,
        node: &'a Node,
    ) -> Option<DrainProgress<'a>> {
        let on = self.on_node(node, skyhook.name())?;
        let recorded = on.drain_start.is_some() || on.drain_blocked.is_some();
        let begun = on.may_drain() && (recorded || self.operator_before(0, 18));
        if !begun || on.drain_timed_out() || !skyhook.is_active() {
            return None;
        }
        let mut interrupts =
            skyhook.packages().filter(|(name, package)| skyhook.pending_interrupt(name, package).is_some());
        let due = interrupts.any(|(name, _)| self.needs_drain(skyhook, node, name));
        let runs = package_runs.of_skyhook_on(skyhook.name(), &node.name).any(|run| run.alive());
        if !due || runs {
            return None;
        }
        let read = self.source(Source::Workloads).ok().is_some();
        let here = |p: &&Pod| p.spec.node_name == node.name && is_active(p) && is_evicted(p);
        let pods = read.then(|| self.workloads.items().iter().filter(here).collect());
        let pods: Option<Vec<&Pod>> = pods;
        // Without a record, only remaining pods prove that the drain is in progress.
        let over = pods.as_ref().is_none_or(Vec::is_empty);
        if !recorded && (over || self.certainty_of_no_package_run() == Certainty::Unknown) {
            return None;
        }
        let blocked = |pod: &&Pod| self.eviction_block(pod).is_some();
        let refused =
            !self.refusals_in_force(skyhook, node, on).is_empty() || pods.iter().flatten().any(blocked);
        Some(DrainProgress { since: on.draining_since(), pods, refused })
    }
}
