//! Remedies for a blocked drain.

use crate::api::Skyhook;
use crate::cluster::drain::{Drain, Obstacles};
use crate::cluster::{Cluster, DisruptionBudget, Pod};
use crate::rules::{Finding, Grade};

/// Adds remedies; to ignore the node is the last. `several`: whether the drains of several nodes are refused. `others`: whether
/// other nodes would continue if the drained node were ignored.
pub fn remedies(
    finding: &mut Finding,
    cluster: &Cluster,
    drain: &Drain<'_>,
    obstacles: &Obstacles<'_>,
    several: bool,
    others: bool,
) {
    finding.pods_on_node("See what runs on the node", &drain.node.name);
    let overdue = obstacles.overdue.first();
    if let Some(pod) = overdue {
        finding.describe_pod("See why the pod is stuck terminating", pod);
    }
    if let Some(pod) = obstacles.unexplained.first() {
        finding.describe_pod("See what the pod belongs to", pod);
        for (configuration, _) in &obstacles.webhooks {
            let name = &configuration.metadata.name;
            let words = ["get", configuration.resource(), name, "-o", "yaml"];
            finding.kubectl(Grade::B0, "Inspect the webhook that decides on evictions", words);
        }
        let title = "Check the operator's log for the refused eviction, then move the workload in a way that its owner supports";
        finding.operator_log(cluster, title);
    }
    if let Some((pod, budgets)) = obstacles.overlaps.first() {
        overlap(finding, pod, budgets);
    } else if let Some((budget, pods)) = obstacles.budgets.values().next() {
        match pods.iter().find(|pod| !pod.ready()) {
            Some(pod) => unhealthy(finding, budget, pod),
            None => {
                let title = "Relax the PodDisruptionBudget until the node is drained, or scale up the \
                    protected workload";
                finding.kubectl(Grade::B3, title, edit(budget)).caveat(EVICTED_THEN);
            }
        }
    }
    not_evicted(finding, drain.skyhook, obstacles, several);
    if let Some(pod) = overdue {
        does_not_end(finding, pod);
    }
    // A deletion waits for the node even if the node is ignored.
    if others && !drain.skyhook.deleting() && !drain.ignored {
        finding.ignore_nodes(
            cluster,
            drain.skyhook,
            &[&drain.node.name],
            "Ignore the node for now, so that the other nodes continue",
        );
    }
    // The interrupt follows the drain.
    let package = drain.skyhook.package(drain.package);
    if package.and_then(|package| drain.skyhook.pending_interrupt(drain.package, package)) == Some("reboot") {
        finding.change_remedies(|remedies| {
            let evicts = remedies.iter_mut().filter(|remedy| remedy.grade == Some(Grade::B3));
            for remedy in evicts {
                remedy.grade = Some(Grade::B4);
                remedy.effect = Some("pods are evicted, then the node reboots".to_owned());
            }
        });
    }
}

const EVICTED_THEN: &str = "the pods are then evicted as soon as the operator tries again";

fn edit(budget: &DisruptionBudget) -> [&str; 5] {
    let (namespace, name) = (budget.namespace(), budget.name());
    ["edit", "poddisruptionbudget", "-n", namespace, name]
}

/// Adds remedies that leave the pod with one budget, or that delete the pod.
fn overlap(finding: &mut Finding, pod: &Pod, budgets: &[&DisruptionBudget]) {
    for (at, budget) in budgets.iter().enumerate() {
        let or = if at == 0 { "Change" } else { "Or change" };
        let path = budget.path();
        let title = format!("{or} PodDisruptionBudget {path} so that it no longer selects the pod");
        finding.kubectl(Grade::B3, title, edit(budget)).caveat(EVICTED_THEN);
    }
    let title = "Or delete the pod: a deletion ignores PodDisruptionBudgets";
    let words = ["delete", "pod", "-n", pod.namespace(), pod.name()];
    let finding = finding.kubectl(Grade::B3, title, words).by_choice();
    if pod.metadata.controller().is_none() {
        finding.caveat("a pod without a controller is not recreated");
    }
}

/// Adds remedies that repair the pod, or let the API server evict it although it is not ready.
fn unhealthy(finding: &mut Finding, budget: &DisruptionBudget, pod: &Pod) {
    let policy = r#"{"spec":{"unhealthyPodEvictionPolicy":"AlwaysAllow"}}"#;
    let (namespace, name) = (budget.namespace(), budget.name());
    finding
        .describe_pod("See why the pod is not ready, and repair the workload", pod)
        .kubectl(
            Grade::B3,
            "Or let the API server evict pods that are not ready",
            ["patch", "poddisruptionbudget", "-n", namespace, name, "--type=merge", "-p", policy],
        )
        .caveat("pods that are not ready are then evicted regardless of this PodDisruptionBudget");
}

/// Adds remedies for pods that the operator does not try to evict: delete the pod, or allow its eviction, which comes first if
/// there are such pods on several nodes.
fn not_evicted(finding: &mut Finding, skyhook: &Skyhook, obstacles: &Obstacles<'_>, several: bool) {
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
        let noted = obstacles.noted.iter().find(|refusal| refusal.reason == reason);
        let noted = noted.map(|refusal| (refusal.namespace.as_str(), refusal.name.as_str()));
        let unmanaged = obstacles.unmanaged.first().filter(|_| field == "force");
        let Some((namespace, name)) = noted.or(unmanaged.map(|pod| (pod.namespace(), pod.name()))) else {
            continue;
        };
        let patch = format!(r#"{{"spec":{{"drainConfig":{{"{field}":true}}}}}}"#);
        for allow in [several, !several] {
            if allow {
                let set = if several { "Set" } else { "Or set" };
                let title = format!("{set} drainConfig.{field} to let the operator evict such pods");
                let patch = ["--type=merge", "-p", &patch];
                finding.patch(Grade::B3, title, skyhook, &patch).caveat(caveat);
            } else {
                let delete = if several { "Or delete" } else { "Delete" };
                let title = format!("{delete} the pod; the drain then continues automatically");
                let words = ["delete", "pod", "-n", namespace, name];
                finding.kubectl(Grade::B3, title, words).caveat(lost);
            }
        }
    }
}

/// Adds remedies for a deleted pod that does not terminate.
fn does_not_end(finding: &mut Finding, pod: &Pod) {
    if pod.metadata.finalizers.is_empty() {
        finding
            .force_delete(
                Grade::B3,
                "If the node is down or its container runtime hangs, force-delete the pod",
                pod,
            )
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
