//! What helps where a drain is blocked, from the mildest on.

use std::collections::BTreeMap;

use super::{Finding, Grade};
use crate::api::Skyhook;
use crate::cluster::Cluster;
use crate::cluster::DisruptionBudget;
use crate::cluster::drain::Drain;
use crate::cluster::pod::Pod;
use crate::cluster::refusal::Refusal;

/// The budgets that refuse evictions on a node, by path, each with the pods that it holds.
pub type Held<'a> = BTreeMap<String, (&'a DisruptionBudget, Vec<String>)>;

/// `others`: nodes wait over the drain that would continue without this one.
pub fn remedies(
    finding: &mut Finding,
    cluster: &Cluster,
    drain: &Drain<'_>,
    noted: &[Refusal],
    held: &Held<'_>,
    leaving: Option<&Pod>,
    others: bool,
) {
    finding.pods_on_node("See what runs on the node", &drain.node.name);
    if let Some(pod) = leaving {
        finding.describe_pod("See why the pod is stuck terminating", pod);
    }
    // A deletion waits for the node, be it left out or not.
    if others && !drain.skyhook.deleting() && !drain.ignored {
        finding.ignore_nodes(
            cluster,
            drain.skyhook,
            &[&drain.node.name],
            "Ignore the node for now, so that the other nodes continue",
        );
    }
    if let Some((budget, _)) = held.values().next() {
        finding
            .kubectl(
                Grade::B3,
                "Relax the budget until the node is drained, or scale up the protected workload",
                [
                    "edit",
                    "poddisruptionbudget",
                    "-n",
                    budget.namespace(),
                    budget.name(),
                ],
            )
            .caveat("the pods are then evicted as soon as the operator tries again");
    }
    not_evicted(finding, drain.skyhook, noted);
    if let Some(pod) = leaving {
        does_not_end(finding, pod);
    }
    // To leave a node out may set off reboots of others.
    finding.remedies.sort_by_key(|r| r.grade);
}

/// What helps where the operator does not even try to evict: the pod is deleted, or the operator is allowed to evict it.
fn not_evicted(finding: &mut Finding, skyhook: &Skyhook, noted: &[Refusal]) {
    for (reason, field, lost, caveat) in [
        (
            "UnmanagedPod",
            "force",
            "a pod without a controller is not recreated",
            "on every node drained for this custom resource, all pods are then evicted, even if no controller recreates them",
        ),
        (
            "EmptyDirData",
            "deleteEmptyDirData",
            "the data in its emptyDir volumes is lost",
            "on every node drained for this custom resource, evicted pods then lose the data in their emptyDir volumes",
        ),
    ] {
        let Some(refusal) = noted.iter().find(|r| r.reason == reason) else {
            continue;
        };
        let patch = format!(r#"{{"spec":{{"drainConfig":{{"{field}":true}}}}}}"#);
        finding
            .kubectl(
                Grade::B3,
                "Delete the pod; the drain then continues by itself",
                ["delete", "pod", "-n", &refusal.namespace, &refusal.name],
            )
            .caveat(lost)
            .patch(
                Grade::B3,
                format!("Or set drainConfig.{field} to let the operator evict such pods"),
                skyhook,
                &["--type=merge", "-p", &patch],
            )
            .caveat(caveat);
    }
}

/// What helps with a pod that was deleted and does not terminate.
fn does_not_end(finding: &mut Finding, pod: &Pod) {
    if pod.metadata.finalizers.is_empty() {
        finding
            .force_delete(Grade::B3, "If the node is down or its container runtime hangs, force-delete the pod", pod)
            .caveat("its containers may still be running on the node while its replacement starts elsewhere");
    } else {
        finding
            .kubectl(
                Grade::B3,
                "Remove the pod's finalizers if their owner no longer exists",
                ["edit", "pod", "-n", pod.namespace(), pod.name()],
            )
            .caveat("any cleanup that the finalizers wait for is then skipped");
    }
}
