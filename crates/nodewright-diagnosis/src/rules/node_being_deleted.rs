use std::collections::HashMap;

use jiff::SignedDuration;

use super::support::evidence::some_of;
use super::{Finding, Findings, Grade, Severity, Subject};
use crate::cluster::drain::EvictionBlock;
use crate::cluster::node::NodeDeletion;
use crate::cluster::owners::{self, TaintKind};
use crate::cluster::{Cluster, Node, Pod};
use crate::view::Joined;

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
            let obstacles = Obstacles::of(cluster, node, &pods);
            let finding = findings.report(
                Subject::skyhook_on_node(skyhook, node),
                format!(
                    "the node is being deleted{by}, with unfinished work of {}{}",
                    skyhook.reference(),
                    obstacles.clause()
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
            obstacles.evidence(finding);
            obstacles.remedies(finding, cluster, node);
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

/// What the drain before the deletion waits for.
#[derive(Default)]
struct Obstacles<'a> {
    /// Pods that refuse a disruption, with the annotation.
    protected: Vec<(&'a Pod, String)>,
    /// Pods whose eviction budgets refuse, with the budgets.
    budgets: Vec<(&'a Pod, String)>,
    /// Pods that are already ending.
    ending: Vec<&'a Pod>,
    /// Finalizers of owners other than the known ones.
    finalizers: Vec<String>,
}

impl<'a> Obstacles<'a> {
    fn of(cluster: &'a Cluster, node: &Node, pods: &HashMap<&str, Vec<&'a Pod>>) -> Obstacles<'a> {
        let mut obstacles = Obstacles::default();
        for pod in pods.get(node.name.as_str()).into_iter().flatten().copied() {
            if pod.metadata.deleting() {
                obstacles.ending.push(pod);
            } else if let Some(annotation) = pod.refuses_disruption() {
                obstacles.protected.push((pod, annotation));
            } else if let Some(block) = cluster.evictions().block(pod) {
                let budgets = match block {
                    EvictionBlock::Budget(budget) => vec![budget],
                    EvictionBlock::Overlap(budgets) => budgets,
                };
                let paths = budgets.iter().map(|budget| budget.path()).joined(", ");
                obstacles.budgets.push((pod, paths));
            }
        }
        let finalizers = node.deletion.iter().flat_map(|deletion| &deletion.finalizers);
        obstacles.finalizers =
            finalizers.filter(|name| owners::of_finalizer(name).is_none()).cloned().collect();
        obstacles
    }

    /// A clause about the first kind of obstacle; empty if none is known.
    fn clause(&self) -> String {
        let names = |pods: &mut dyn Iterator<Item = &Pod>| some_of(&pods.map(Pod::path).collect::<Vec<_>>());
        if !self.protected.is_empty() {
            let pods = names(&mut self.protected.iter().map(|(pod, _)| *pod));
            format!("; the deletion waits for pod {pods}, which must not be disrupted")
        } else if let Some((_, budgets)) = self.budgets.first() {
            let pods = names(&mut self.budgets.iter().map(|(pod, _)| *pod));
            format!(
                "; the deletion waits for pod {pods}, whose eviction PodDisruptionBudget {budgets} refuses"
            )
        } else if !self.ending.is_empty() {
            let pods = names(&mut self.ending.iter().copied());
            format!("; the deletion waits for pod {pods}, which is terminating")
        } else if !self.finalizers.is_empty() {
            format!("; the deletion waits for finalizer {}", self.finalizers.join(", "))
        } else {
            String::new()
        }
    }

    fn evidence(&self, finding: &mut Finding) {
        for (pod, annotation) in &self.protected {
            finding.evidence(pod, "refuses disruptions", annotation);
        }
        for (pod, budgets) in &self.budgets {
            finding.evidence(pod, "eviction refused by poddisruptionbudget", budgets);
        }
        for pod in &self.ending {
            let since = pod.metadata.deletion_timestamp.unwrap_or_default();
            finding.evidence(pod, "deletionTimestamp", since).finalizers(*pod, &pod.metadata);
        }
    }

    fn remedies(&self, finding: &mut Finding, cluster: &Cluster, node: &Node) {
        let end = |finding: &mut Finding, pod: &Pod, caveat: &str| {
            let words = ["delete", "pod", "-n", pod.namespace(), pod.name()];
            finding
                .kubectl(Grade::B3, "Or delete the pod now; its node is then deleted", words)
                .by_choice()
                .caveat(caveat);
        };
        if let Some((pod, _)) = self.protected.first() {
            finding.describe_pod("Wait until the pod has finished its work; see what it runs", pod);
            end(finding, pod, "the work of the pod is lost unless it can continue elsewhere");
        } else if let Some((pod, budgets)) = self.budgets.first() {
            let (namespace, budget) = (pod.namespace(), budgets.split(", ").next().unwrap_or_default());
            let name = budget.rsplit('/').next().unwrap_or_default();
            finding
                .describe("See why the budget refuses the eviction", "poddisruptionbudget", namespace, name)
                .kubectl(
                    Grade::B3,
                    "Relax the budget until the node is deleted, or scale up the protected workload",
                    ["edit", "poddisruptionbudget", "-n", namespace, name],
                )
                .caveat("the pods are then evicted");
        } else if let Some(pod) = self.ending.first() {
            let until = pod.metadata.deletion_timestamp.filter(|until| *until > cluster.taken_at);
            match until {
                Some(until) => {
                    finding.describe_pod(&format!("Wait: the pod has until {until} to terminate"), pod)
                }
                None => finding.describe_pod("See why the pod does not end", pod),
            };
        } else {
            finding.describe_node("See in the events of the node what the deletion waits for", &node.name);
            finding.pods_on_node("See what still runs on the node", &node.name);
        }
    }
}
