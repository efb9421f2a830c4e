//! A package with an interrupt starts only on a cordoned and drained node.

use jiff::Timestamp;

use super::At;
use crate::cluster::Pod;
use crate::cluster::drain::is_evicted;
use crate::model::action::{Action, NodeProgress, ProgressState};
use crate::model::reason::WaitReason;

/// Models operator `EnsureNodeIsReadyForInterrupt`: cordon, wait for protected pods, drain.
pub fn check<'a>(at: &At<'_, 'a>) -> Option<NodeProgress<'a>> {
    let record = at.profile.record;
    let own = record.is_some_and(|record| record.cordon);
    // Since v0.20 the operator accepts a foreign cordon instead of adding its own.
    let cordoned = at.node.cordoned() == Some(true) && (own || !at.model.operator.before(0, 20));
    // Before v0.18 the cordon is written last, with the node state (operator `SaveNodesAndSkyhook`).
    if !cordoned && !at.model.operator.before(0, 18) {
        return Some(NodeProgress::acts(Action::Cordon));
    }
    let protected = &at.resource.skyhook.spec.pod_non_interrupt_labels;
    if !protected.is_empty() {
        let pod = workloads(at).find(|pod| protected.matches(&pod.metadata.labels));
        if let Some(pod) = pod {
            let reason = WaitReason::ProtectedPod(pod);
            return Some(NodeProgress::without_action(ProgressState::Waiting, reason));
        }
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
        ..NodeProgress::without_action(ProgressState::Waiting, WaitReason::Drain(remaining))
    })
}

/// Number of pods that a drain of the node evicts; `None` while a pod on the node forbids the interrupt.
pub fn pods(at: &At<'_, '_>) -> Option<usize> {
    let protected = &at.resource.skyhook.spec.pod_non_interrupt_labels;
    let forbids = |pod: &Pod| protected.matches(&pod.metadata.labels);
    if !protected.is_empty() && workloads(at).any(forbids) {
        return None;
    }
    Some(remaining(at).len())
}

/// Pods that a drain of the node evicts, or waits for.
pub fn remaining<'a>(at: &At<'_, 'a>) -> Vec<&'a Pod> {
    workloads(at).filter(|pod| is_evicted(pod)).collect()
}

/// Running and pending pods on the node that are not package stages.
fn workloads<'m, 'a>(at: &At<'m, 'a>) -> impl Iterator<Item = &'a Pod> + use<'m, 'a> {
    let runs = |pod: &&Pod| matches!(pod.status.phase.as_str(), "Running" | "Pending");
    at.model.workloads_on(&at.node.name).iter().copied().filter(runs)
}
