use std::collections::HashMap;

use super::support::evidence::some_of;
use super::{Findings, Subject};
use crate::cluster::{Certainty, Cluster, Node, Pod};
use crate::model::ProgressState;
use crate::text::NodeSet;

rule! {
    /// An interrupt waits for a workload that must not be disturbed.
    ///
    /// # What it means
    ///
    /// `podNonInterruptLabels` matches pods that run or are pending on the node. The operator waits,
    /// without limit, until they are gone, before it drains the node for a package's interrupt. The
    /// node may be cordoned meanwhile.
    ///
    /// # What causes it
    ///
    /// The wait is the purpose of the setting. It becomes a problem if the workload never ends, such as a
    /// service instead of a batch job, or a pod that stays pending.
    ///
    /// # How to confirm
    ///
    /// Pods with these labels are on the node, in any namespace, and nothing of the package is running
    /// there. From v0.20.0 on the condition `Blocked` has the reason `NonInterruptPodsRunning`.
    ///
    /// # How to fix
    ///
    /// Wait for the workload, or move it off the node.
    ///
    /// # Affected versions
    ///
    /// All operators; up to v0.19 no condition shows this.
    SKY404 "interrupt-waits-for-workload" Warning needs Skyhooks Nodes Workloads, also Pods Jobs,
        blocks Install Uninstall, finds LastingWaits
}

/// Kinds of owners whose pods do not end by themselves.
const LASTING: [&str; 3] = ["DaemonSet", "ReplicaSet", "StatefulSet"];

fn detect(cluster: &Cluster, findings: &mut Findings) {
    if cluster.workloads.ok().is_none() || cluster.certainty_of_no_package_run() == Certainty::Unknown {
        return;
    }
    let model = findings.model();
    let drains: Vec<_> = model.drains().into_iter().filter(|drain| drain.begun).collect();
    // The other nodes on which the same wait follows, by custom resource.
    let mut next: HashMap<&str, NodeSet> = HashMap::new();
    for drain in &drains {
        let protected: Vec<&Pod> = model.protected_pods(drain.skyhook, drain.node).collect();
        if protected.is_empty() {
            continue;
        }
        let finding = findings.report(
            Subject::skyhook_on_node(drain.skyhook, drain.node).package(drain.package),
            format!(
                "the interrupt of package {} waits until protected workloads leave the node",
                drain.package
            ),
        );
        finding
            .mark_transient()
            .evidence(drain.skyhook, "spec.podNonInterruptLabels", "match pods on this node")
            .evidence(drain.node, "pods", some_of(protected.iter().map(|pod| pod.path())));
        let next = next.entry(drain.skyhook.name()).or_insert_with(|| {
            let nodes = model.all_progress(drain.skyhook.name());
            let begun = |node: &Node| drains.iter().any(|other| other.node.name == node.name);
            let waiting = nodes.filter(|(node, on)| {
                let waits = on.state == ProgressState::Waiting && !begun(node);
                waits && model.protected_pods(drain.skyhook, node).next().is_some()
            });
            NodeSet::of(waiting.map(|(node, _)| node.name.as_str()))
        });
        finding.other_waiting_nodes(drain.skyhook, "protected pods", next);
        let blocked = drain.skyhook.true_condition("Blocked");
        if let Some(condition) = blocked.filter(|c| c.reason == "NonInterruptPodsRunning") {
            finding.condition(drain.skyhook, condition, &condition.reason);
        }
        match protected.as_slice() {
            [pod] => finding.describe_pod("See when the protected pod ends; the interrupt runs then", pod),
            _ => finding.pods_on_node(
                "See which pods are protected; the interrupt runs once they are gone",
                &drain.node.name,
            ),
        };
        let owners = protected.iter().filter_map(|pod| pod.metadata.controller());
        let lasting = owners.map(|owner| owner.kind.as_str()).find(|kind| LASTING.contains(kind));
        if let Some(kind) = lasting {
            finding.caveat(format!("a pod of a {kind} does not end by itself: scale the {kind} down, or move its pods to other nodes"));
        }
    }
}
