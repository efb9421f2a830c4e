//! Drains that interrupts need: the nodes, start times, remaining pods, and obstacles.

pub mod eviction;
pub mod obstacles;
pub mod progress;
pub mod refusal;

use std::collections::HashMap;

use super::pod::Pod;
use super::{Cluster, Node, Phase};
use crate::api::{Skyhook, Stage, State, Status};

/// A node that must be drained before a package can continue.
#[derive(Debug)]
pub struct Drain<'a> {
    pub skyhook: &'a Skyhook,
    pub node: &'a Node,
    pub package: &'a str,
    /// Whether the drain of the node may have begun.
    pub begun: bool,
    /// Whether the node is ignored. It is drained only after the ignore label is removed.
    pub ignored: bool,
}

impl Cluster {
    /// Drains that interrupts need now or later, on nodes on which nothing else comes first. Includes ignored
    /// nodes.
    ///
    /// The operator cordons the node, waits for protected workloads and drains the node before it runs a
    /// package with an interrupt, and again for each stage up to `config`.
    pub fn drains(&self) -> Vec<Drain<'_>> {
        let package_runs = self.package_runs();
        let mut drains = Vec::new();
        for skyhook in self.skyhooks.items() {
            let interrupts: Vec<&str> = skyhook
                .packages()
                .filter(|(name, p)| skyhook.pending_interrupt(name, p).is_some())
                .map(|(name, _)| name)
                .collect();
            if interrupts.is_empty() {
                continue;
            }
            let idle = self.is_idle(skyhook);
            for node in self.actionable_including_ignored(skyhook) {
                let ignored = node.ignored(self.flavor());
                for package in interrupts.iter().copied() {
                    let runs = package_runs
                        .of_skyhook_on(skyhook.name(), &node.name)
                        .any(|run| run.alive() && (run.package == package || run.interrupt));
                    if !runs && self.needs_drain(skyhook, node, package) {
                        drains.push(Drain {
                            skyhook,
                            node,
                            package,
                            begun: !ignored && (idle || self.is_taken_up(skyhook, node)),
                            ignored,
                        });
                    }
                }
            }
        }
        drains
    }

    /// Whether the workload pods on these nodes were read. A capture contains them only for nodes that wait
    /// for a drain.
    pub fn knows_workloads_on(&self, nodes: &[&Node]) -> bool {
        let waiting = || self.waiting_for_drain();
        let all_wait = |waiting: Vec<&str>| {
            let mut nodes = nodes.iter();
            nodes.all(|node| waiting.binary_search(&node.name.as_str()).is_ok())
        };
        self.workloads.ok().is_some() && (!self.collected || all_wait(waiting()))
    }

    /// Sorted names of the nodes that wait for a drain.
    pub fn waiting_for_drain(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.drains().iter().map(|d| d.node.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Whether the operator works on no node of the custom resource, so that any node may be next.
    ///
    /// Package pods do not count as work. Before v0.20.0 the operator may create a pod on one node, abort the
    /// reconcile at a refused eviction on another node without recording the pod, and delete the pod in the
    /// next reconcile.
    fn is_idle(&self, skyhook: &Skyhook) -> bool {
        skyhook.status.node_priority.is_empty()
            && self.selected(skyhook).all(|n| {
                let on = self.on_node(n, skyhook.name());
                on.is_none_or(|on| on.operator_status() != Status::InProgress && !on.cordon)
            })
    }

    /// Whether the operator has begun to work on the node.
    pub fn is_taken_up(&self, skyhook: &Skyhook, node: &Node) -> bool {
        skyhook.status.node_priority.contains_key(&node.name)
            || self.on_node(node, skyhook.name()).is_some_and(|on| {
                on.cordon
                    || on.drain_start.is_some()
                    || on.drain_blocked.is_some()
                    || on.operator_status() == Status::InProgress
            })
    }

    fn needs_drain(&self, skyhook: &Skyhook, node: &Node, name: &str) -> bool {
        let Some(package) = skyhook.package(name) else {
            return false;
        };
        let placement = self.placement(skyhook, name, node);
        let due = match placement.entry {
            _ if placement.malformed.is_some() => false,
            None => placement.phase == Phase::NotStarted && !skyhook.deleting(),
            Some(e) => match e.stage {
                Stage::Apply | Stage::Upgrade | Stage::Uninstall => true,
                Stage::Config | Stage::PostInterrupt if e.state == State::Complete => {
                    placement.is_uninstall_wanted()
                }
                Stage::Config => true,
                _ => false,
            },
        };
        let ready = |dependency: &String| self.placement(skyhook, dependency, node).phase == Phase::Complete;
        due && (placement.is_uninstall_wanted() || package.depends_on.keys().all(ready))
    }

    /// Running or pending workload pods that are not being deleted, by node.
    pub fn workloads_by_node(&self) -> HashMap<&str, Vec<&Pod>> {
        self.by_node(|p| is_active(p) && !p.metadata.deleting())
    }

    /// Workload pods that a drain evicts, including pods that are already being deleted, by node.
    pub fn evictable_by_node(&self) -> HashMap<&str, Vec<&Pod>> {
        self.by_node(|p| is_active(p) && is_evicted(p))
    }

    fn by_node(&self, which: impl Fn(&Pod) -> bool) -> HashMap<&str, Vec<&Pod>> {
        let mut by_node: HashMap<&str, Vec<&Pod>> = HashMap::new();
        for pod in self.workloads.items().iter().filter(|p| which(p)) {
            by_node.entry(&pod.spec.node_name).or_default().push(pod);
        }
        by_node
    }
}

fn is_active(pod: &Pod) -> bool {
    matches!(pod.status.phase.as_str(), "Running" | "Pending") && !pod.spec.node_name.is_empty()
}

/// Whether a drain evicts the pod (operator `ShouldEvict`). Pods of a DaemonSet tolerate a cordon.
pub fn is_evicted(pod: &Pod) -> bool {
    let tolerates = pod.spec.tolerations.iter().any(|t| t.key == "node.kubernetes.io/unschedulable");
    let owned_by_node_agent =
        pod.metadata.owner_references.iter().any(|o| o.kind == "DaemonSet" || o.kind == "Node");
    !tolerates && !owned_by_node_agent && pod.metadata.namespace.as_deref() != Some("kube-system")
}
