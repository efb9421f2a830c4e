//! A package with an interrupt starts only on a cordoned and drained node.

use jiff::{SignedDuration, Timestamp};

use super::{At, NodeProgress, WaitReason};
use crate::api::Skyhook;
use crate::cluster::clock::PATIENCE;
use crate::cluster::drain::{Drain, Obstacles, is_evicted};
use crate::cluster::{Cluster, DisruptionBudget, Node, NodeRecord, Pod};
use crate::model::Model;
use crate::model::action::Action;
use crate::model::profile::{refused_eviction_ends_turn, refused_eviction_may_end_turn};

/// Models operator `EnsureNodeIsReadyForInterrupt`: cordon, wait for protected pods, drain.
pub fn check<'a>(at: &At<'_, 'a>) -> Option<NodeProgress<'a>> {
    let record = at.profile.record;
    let own = record.is_some_and(|record| record.cordon);
    // Since v0.20 the operator accepts a foreign cordon instead of adding its own.
    let cordoned = at.node.cordoned() == Some(true) && (own || !at.model.operator.before(0, 20));
    // Before v0.18 the cordon is written last, with the node state (operator `SaveNodesAndSkyhook`).
    if !cordoned && !at.model.operator.before(0, 18) {
        return Some(Action::Cordon.into());
    }
    if let Some(pod) = at.model.protected_pods(at.resource.skyhook, at.node).next() {
        return Some(WaitReason::ProtectedPod(pod).into());
    }
    let remaining = remaining(at);
    let evicts = remaining.iter().any(|pod| !pod.metadata.deleting());
    // Before v0.19 accepted evictions are enough. Since then the pods must be gone.
    if remaining.is_empty() || !evicts && at.model.operator.before(0, 19) {
        return None;
    }
    let since = record.and_then(|record| record.drain_start.as_deref());
    Some(NodeProgress {
        next_action: evicts.then_some(Action::Drain),
        since: since.and_then(|at| at.parse::<Timestamp>().ok()),
        ..WaitReason::Drain(remaining).into()
    })
}

/// Number of pods that a drain of the node evicts; `None` while a pod on the node forbids the interrupt.
pub fn pods(at: &At<'_, '_>) -> Option<usize> {
    let forbids = at.model.protected_pods(at.resource.skyhook, at.node).next().is_some();
    (!forbids).then(|| remaining(at).len())
}

/// Pods that a drain of the node evicts, or waits for.
pub fn remaining<'a>(at: &At<'_, 'a>) -> Vec<&'a Pod> {
    at.model.workloads_on(&at.node.name).iter().copied().filter(|pod| is_evicted(pod)).collect()
}

impl<'a> Model<'a> {
    /// The pods that keep a custom resource from interrupting a node (`podNonInterruptLabels`), also those that are being
    /// deleted (operator `HasNonInterruptWork`).
    pub fn protected_pods<'m>(
        &'m self,
        skyhook: &'a Skyhook,
        node: &Node,
    ) -> impl Iterator<Item = &'a Pod> + use<'m, 'a> {
        let protected = &skyhook.spec.pod_non_interrupt_labels;
        let pods = self.workloads_on(&node.name).iter().copied();
        pods.filter(move |pod| !protected.is_empty() && protected.matches(&pod.metadata.labels))
    }
}

/// How certain it is that the drain of a node is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrainRefusal {
    /// The drain is blocked, and retries do not help.
    Blocked,
    /// The drain is blocked now, but a retry may succeed.
    MayPass,
    /// The drain has not been refused yet, but will be.
    Ahead,
}

/// Duration of an unexplained refusal after which someone has to intervene.
const HOPELESS: SignedDuration = SignedDuration::from_mins(30);

/// The state of a drain; `None` if nothing blocks it, or if it has not begun and only a temporary refusal is
/// expected. Operators since v0.20.0 record refusals on the node; with older operators, refusals are inferred
/// from budgets and pods.
pub fn drain_state(cluster: &Cluster, drain: &Drain<'_>, obstacles: &Obstacles<'_>) -> Option<DrainRefusal> {
    let on = cluster.on_node(drain.node, drain.skyhook.name());
    let budgets = || obstacles.budgets.values();
    let start = on.and_then(NodeRecord::draining_since);
    let for_good = budgets().any(|(budget, _)| budget.refuses_for_good());
    // A pod is not ready, and its budget already refused before this drain began: the refusal is not due to
    // the drain's own evictions. A drain that has not begun is compared with a start ten minutes ago; when one began, only
    // operators since v0.20.0 record.
    let unrecorded = on.is_some_and(NodeRecord::may_drain) && refused_eviction_ends_turn(cluster);
    let ten_minutes_ago = cluster.taken_at - SignedDuration::from_secs(PATIENCE);
    let from = start.or((!unrecorded).then_some(ten_minutes_ago));
    let unhealthy = budgets().any(|(budget, pods)| {
        let before = from.is_some_and(|at| budget.refused_before(at));
        before && cluster.is_stale(from) && pods.iter().any(|pod| !pod.ready())
    });
    let overdue = |pod: &&Pod| cluster.is_stale(pod.metadata.deletion_timestamp);
    let hopeless = start.is_some_and(|at| cluster.taken_at.duration_since(at) >= HOPELESS);
    if unhealthy {
        return Some(if start.is_some() { DrainRefusal::Blocked } else { DrainRefusal::Ahead });
    }
    if drain.begun && obstacles.overdue.iter().any(overdue) {
        return Some(DrainRefusal::Blocked);
    }
    if !obstacles.overlaps.is_empty() {
        return Some(if drain.begun { DrainRefusal::Blocked } else { DrainRefusal::Ahead });
    }
    if !obstacles.noted.is_empty() {
        // A budget that refused before the drain began also refuses the next attempt.
        let before = |budget: &DisruptionBudget| {
            budget.refuses_for_good() && start.is_some_and(|at| budget.refused_before(at))
        };
        let young = on.is_some_and(|on| cluster.evictions().refusal_is_young(on))
            && !budgets().any(|(budget, _)| before(budget));
        let lasts = for_good || obstacles.budgets.is_empty();
        return Some(if lasts && !young { DrainRefusal::Blocked } else { DrainRefusal::MayPass });
    }
    match (for_good || !obstacles.unmanaged.is_empty(), drain.begun) {
        (true, true) if refused_eviction_may_end_turn(cluster) => Some(DrainRefusal::Blocked),
        (true, _) => Some(DrainRefusal::Ahead),
        (false, true) if !obstacles.unexplained.is_empty() && hopeless => Some(DrainRefusal::Blocked),
        // A temporary refusal matters only after the drain has begun.
        (false, true) if !obstacles.is_empty() => Some(DrainRefusal::MayPass),
        (false, _) => None,
    }
}
