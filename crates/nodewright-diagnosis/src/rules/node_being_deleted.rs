use std::mem::discriminant;

use jiff::SignedDuration;

use super::support::evidence::some_of;
use super::{Finding, Findings, Grade, Severity, Subject};
use crate::cluster::drain::EvictionBlock;
use crate::cluster::node::NodeDeletion;
use crate::cluster::owners::{self, TaintKind};
use crate::cluster::{Cluster, Node, Pod};
use crate::text::Joined;

rule! {
    /// A node with unfinished work is being deleted.
    ///
    /// # What it means
    ///
    /// The deletion of the node object was requested, and a finalizer holds it up until the node is drained. The work
    /// of the custom resource on this node ends with the node: nothing has to be finished here.
    ///
    /// # What causes it
    ///
    /// Karpenter, a cluster autoscaler or a person removes the node. The drain that comes first waits for a pod that must
    /// not be disrupted (`karpenter.sh/do-not-disrupt`, `cluster-autoscaler.kubernetes.io/safe-to-evict: "false"`), for a
    /// disruption budget, or for a pod that does not end. Or the owner of a finalizer no longer runs.
    ///
    /// # How to confirm
    ///
    /// The node has a `deletionTimestamp`, and `metadata.finalizers` is not empty. Its events name the pods that the
    /// drain waits for.
    ///
    /// # How to fix
    ///
    /// Wait until the work of the pod is done, or end the pod. Do not remove the taint of the deletion, and do not
    /// tolerate it: the node is removed anyway.
    ///
    /// # Affected versions
    ///
    /// All operators.
    ///
    /// # Severity
    ///
    /// A note in the first quarter of an hour, and a warning in the first hour.
    SKY414 "node-being-deleted" Error needs Skyhooks Nodes, also Workloads DisruptionBudgets Events,
        blocks Install Uninstall
}

/// Usual duration of a drain before a deletion.
const USUAL: SignedDuration = SignedDuration::from_mins(15);
/// Duration after which someone has to look at the deletion.
const LONG: SignedDuration = SignedDuration::from_hours(1);

fn detect(cluster: &Cluster, findings: &mut Findings) {
    if cluster.nodes.iter().all(|node| node.deletion.is_none()) {
        return;
    }
    let model = findings.model();
    let pods = cluster.evictions().pods_by_node();
    for skyhook in cluster.skyhooks.iter().filter(|s| s.is_active()) {
        for node in cluster.selected(skyhook) {
            let Some(deletion) = &node.deletion else {
                continue;
            };
            if !skyhook.deleting() && model.is_done_on(skyhook, node) {
                continue;
            }
            let deleter = deleter(node, deletion);
            let by = deleter.as_ref().map_or_else(String::new, |(name, _)| format!(" by {name}"));
            let obstacles = obstacles(cluster, pods.get(node.name.as_str()).map_or(&[], Vec::as_slice));
            let finding = findings.report(
                Subject::skyhook_on_node(skyhook, node),
                format!(
                    "the node is being deleted{by}, with unfinished work of {skyhook}{}",
                    clause(&obstacles, deletion)
                ),
            );
            finding.group_message(format!("the node is being deleted{by}, with unfinished work"));
            let age = cluster.taken_at.duration_since(deletion.at);
            if age < USUAL {
                finding.severity(Severity::Info);
            } else if age < LONG {
                finding.severity(Severity::Warning);
            }
            finding.since(Some(deletion.at)).evidence(node, "deletionTimestamp", deletion.at);
            if let Some((name, mark)) = deleter {
                finding.evidence(node, "deleted by", format!("{name} ({mark})"));
            }
            if !deletion.finalizers.is_empty() {
                finding.evidence(node, "finalizers", deletion.finalizers.join(", "));
            }
            for taint in node.taints().iter().filter(|taint| taint.is(TaintKind::Removal)) {
                finding.taint(node, taint);
            }
            let events = cluster.events_about("Node", &node.name).filter(|event| event.warning);
            if let Some(event) = events.max_by_key(|event| event.last) {
                finding.evidence(node, format!("event {}", event.reason), &event.message);
            }
            evidence(finding, &obstacles);
            remedies(finding, cluster, node, obstacles.first());
        }
    }
}

/// Who deletes the node, and the finalizer or taint that shows it.
fn deleter(node: &Node, deletion: &NodeDeletion) -> Option<(&'static str, String)> {
    let by_finalizer = deletion
        .finalizers
        .iter()
        .find_map(|name| Some((owners::of_finalizer(name)?, format!("finalizer {name}"))));
    let mut taints = node.taints().iter().filter(|taint| taint.is(TaintKind::Removal));
    let by_taint = || taints.find_map(|taint| Some((taint.owner()?.name, format!("taint {}", taint.key))));
    by_finalizer.or_else(by_taint)
}

/// Why the drain before the deletion waits for a pod.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Obstacle {
    /// The pod refuses a disruption, with this annotation.
    Protected(String),
    /// These budgets refuse the eviction.
    Budgets(String),
    /// The pod is already ending.
    Ending,
}

/// The pods that the drain before the deletion waits for, sorted by obstacle.
fn obstacles<'a>(cluster: &Cluster, pods: &[&'a Pod]) -> Vec<(Obstacle, &'a Pod)> {
    let obstacle = |pod: &Pod| {
        if pod.metadata.deleting() {
            return Some(Obstacle::Ending);
        }
        let annotation = pod.refuses_disruption().map(Obstacle::Protected);
        annotation.or_else(|| {
            let budgets = match cluster.evictions().block(pod)? {
                EvictionBlock::Budget(budget) => vec![budget],
                EvictionBlock::Overlap(budgets) => budgets,
            };
            Some(Obstacle::Budgets(budgets.iter().map(|budget| budget.path()).joined(", ")))
        })
    };
    let mut obstacles: Vec<_> = pods.iter().filter_map(|pod| Some((obstacle(pod)?, *pod))).collect();
    obstacles.sort_by(|(one, _), (other, _)| one.cmp(other));
    obstacles
}

/// A clause about the first kind of obstacle, or else about finalizers of unknown owners; empty if there is neither.
fn clause(obstacles: &[(Obstacle, &Pod)], deletion: &NodeDeletion) -> String {
    let Some((first, _)) = obstacles.first() else {
        let unknown = deletion.finalizers.iter().filter(|name| owners::of_finalizer(name).is_none());
        let unknown = unknown.joined(", ");
        let clause = format!("; the deletion waits for finalizer {unknown}");
        return if unknown.is_empty() { unknown } else { clause };
    };
    let why = match first {
        Obstacle::Protected(_) => "which must not be disrupted".to_owned(),
        Obstacle::Budgets(budgets) => format!("whose eviction PodDisruptionBudget {budgets} refuses"),
        Obstacle::Ending => "which is terminating".to_owned(),
    };
    let alike = obstacles.iter().filter(|(other, _)| discriminant(other) == discriminant(first));
    format!("; the deletion waits for pod {}, {why}", some_of(alike.map(|(_, pod)| pod.path())))
}

fn evidence(finding: &mut Finding, obstacles: &[(Obstacle, &Pod)]) {
    for (obstacle, pod) in obstacles {
        match obstacle {
            Obstacle::Protected(annotation) => finding.evidence(pod, "refuses disruptions", annotation),
            Obstacle::Budgets(budgets) => {
                finding.evidence(pod, "eviction refused by poddisruptionbudget", budgets)
            }
            Obstacle::Ending => {
                let since = pod.metadata.deletion_timestamp.unwrap_or_default();
                finding.evidence(pod, "deletionTimestamp", since).finalizers(pod, &pod.metadata)
            }
        };
    }
}

fn remedies(finding: &mut Finding, cluster: &Cluster, node: &Node, obstacle: Option<&(Obstacle, &Pod)>) {
    let Some((obstacle, pod)) = obstacle else {
        finding
            .describe_node("See in the events of the node what the deletion waits for", &node.name)
            .pods_on_node("See what still runs on the node", &node.name);
        return;
    };
    match obstacle {
        Obstacle::Protected(_) => finding
            .describe_pod("Wait until the pod has finished its work; see what it runs", pod)
            .kubectl(
                Grade::B3,
                "Or delete the pod now; its node is then deleted",
                ["delete", "pod", "-n", pod.namespace(), pod.name()],
            )
            .by_choice()
            .caveat("the work of the pod is lost unless it can continue elsewhere"),
        Obstacle::Budgets(budgets) => {
            let budget = budgets.split(", ").next().unwrap_or_default();
            let (namespace, name) = (pod.namespace(), budget.rsplit('/').next().unwrap_or_default());
            finding
                .describe("See why the budget refuses the eviction", "poddisruptionbudget", namespace, name)
                .kubectl(
                    Grade::B3,
                    "Relax the budget until the node is deleted, or scale up the protected workload",
                    ["edit", "poddisruptionbudget", "-n", namespace, name],
                )
                .caveat("the pods are then evicted")
        }
        Obstacle::Ending => {
            let until = pod.metadata.deletion_timestamp.filter(|until| *until > cluster.taken_at);
            let wait = until.map(|until| format!("Wait: the pod has until {until} to terminate"));
            finding.describe_pod(wait.as_deref().unwrap_or("See why the pod does not end"), pod)
        }
    };
}
