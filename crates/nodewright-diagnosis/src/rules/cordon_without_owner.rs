use super::support::evidence::complete_for_long;
use super::{Findings, Grade, Severity, Subject};
use crate::api::Skyhook;
use crate::cluster::{Certainty, Cluster, Node};

rule! {
    /// A node is still cordoned for a custom resource that no longer works on it.
    ///
    /// # What it means
    ///
    /// The node is unschedulable, and its annotation records that a custom resource cordoned it. That custom
    /// resource was deleted or no longer selects the node, so the operator never releases it.
    ///
    /// # What causes it
    ///
    /// The finalizer was stripped in the middle of an interrupt, or the node's labels or the
    /// selector were changed while the node was cordoned.
    ///
    /// # How to confirm
    ///
    /// `spec.unschedulable: true` and an annotation `cordon_NAME` whose NAME does not exist or does
    /// not select the node.
    ///
    /// # How to fix
    ///
    /// Release the cordon: this removes the annotation, and makes the node schedulable if nothing
    /// else holds it. Or let the custom resource select the node again, so that it finishes there.
    ///
    /// # Since
    ///
    /// All operators.
    SKY402 "cordon-without-owner" Error needs Skyhooks Nodes,
        blocks Workloads
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let flavor = cluster.flavor();
    let absence = cluster.skyhooks_absence();
    if absence == Certainty::Unknown {
        return;
    }
    let model = findings.model();
    for node in cluster.nodes.items().iter().filter(|n| n.cordoned() == Some(true)) {
        let keys = node.keys(flavor);
        let (kept, lost): (Vec<_>, Vec<_>) =
            keys.skyhooks.iter().filter(|(_, on)| on.cordon).map(|(name, _)| name.as_str()).partition(
                |name| {
                    let owner = cluster.skyhook(name);
                    owner.is_some_and(|s| s.selects(node))
                },
            );
        // A runtime-required cordon is meant to stay.
        for name in kept.iter().filter(|_| !keys.runtime_required_cordon) {
            let complete = cluster.skyhook(name).filter(|s| {
                s.is_active() && model.is_done_on(s, node) && complete_for_long(cluster, s, node)
            });
            if let Some(skyhook) = complete {
                not_released(cluster, findings, skyhook, node);
            }
        }
        for name in lost {
            let owner = cluster.skyhook(name);
            let finding = findings.report(
                Subject::node(&node.name, Some(name)),
                match owner {
                    None if absence == Certainty::Presumed => format!(
                        "the node is cordoned for {name}, which is not in the input: if {name} was deleted, \
                         nothing will uncordon the node"
                    ),
                    None => format!(
                        "the node stays cordoned for {name}, which is gone: nothing will uncordon the node"
                    ),
                    Some(skyhook) => format!(
                        "the node stays cordoned for {skyhook}, which no longer selects the node: nothing will release \
                         the node"
                    ),
                },
            );
            let key = crate::api::keys::cordon(flavor, name);
            finding.evidence(node, "spec.unschedulable", "true").evidence(node, key, "set");
            match owner {
                Some(skyhook) => {
                    finding.evidence(skyhook, "spec.nodeSelectors", "does not match");
                }
                None if absence == Certainty::Presumed => {
                    finding.severity(Severity::Warning).evidence(
                        "files",
                        "custom resources",
                        "none in the input",
                    );
                }
                None => {
                    finding.evidence(flavor.resource(), name, "does not exist");
                }
            }
            for other in &kept {
                let key = crate::api::keys::cordon(flavor, other);
                finding.severity(Severity::Warning).evidence(
                    node,
                    key,
                    format!("set; the node is also cordoned for {other}"),
                );
            }
            if keys.runtime_required_cordon {
                let key = flavor.key("runtimeRequiredCordon");
                finding.evidence(node, key, "set; also cordoned as runtime-required");
            }
            if owner.is_none() && absence == Certainty::Presumed {
                finding.check_deleted(cluster, name);
            }
            finding
                .remedy(
                    Grade::B1,
                    "Release the cordon",
                    ["cordon", "release", &node.name],
                )
                .caveat(if !kept.is_empty() {
                    "the node stays cordoned for the other owners"
                } else if keys.runtime_required_cordon {
                    "the node stays cordoned as runtime-required"
                } else {
                    "pods may be scheduled on the node again; first check that no unfinished interrupt has left the node \
                     unusable"
                });
        }
    }
}

/// Reports a node on which the custom resource is complete: the operator should have released it after the
/// last stage.
fn not_released(cluster: &Cluster, findings: &mut Findings, skyhook: &Skyhook, node: &Node) {
    let finding = findings.report(
        Subject::skyhook_on_node(skyhook, node),
        format!(
            "the node stays cordoned for {skyhook}, which completed on this node long ago: the operator did not uncordon the node"
        ),
    );
    let key = crate::api::keys::cordon(cluster.flavor(), skyhook.name());
    finding
        .severity(Severity::Warning)
        .evidence(node, "spec.unschedulable", "true")
        .evidence(node, key, "set")
        .evidence(skyhook, "complete here", "yes")
        .operator_log(cluster, "Check why the operator's reconcile ends early")
        .kubectl(Grade::B1, "Uncordon the node", ["uncordon", &node.name])
        .caveat("only if nobody else needs the node cordoned");
}
