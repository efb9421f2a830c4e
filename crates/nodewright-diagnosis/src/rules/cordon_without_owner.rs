use super::support::evidence::{complete_for_long, open_entries, some_of};
use super::{Findings, Grade, Severity, Subject};
use crate::api::labels::{Labelled, Unmet};
use crate::api::{Skyhook, keys};
use crate::cluster::{Certainty, Cluster, Node, owners};

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
    /// The finalizer was stripped in the middle of an interrupt, or the node's labels or the selector were
    /// changed while the node was cordoned. Labels of hardware belong to programs such as Node Feature
    /// Discovery, which remove the labels when a detection fails.
    ///
    /// # How to confirm
    ///
    /// `spec.unschedulable: true` and an annotation `cordon_NAME` whose NAME does not exist or does
    /// not select the node.
    ///
    /// # How to fix
    ///
    /// If work on the node is unfinished, let the custom resource select the node again, so that it finishes there: restore
    /// the missing label. Otherwise release the cordon: this removes the annotation, and makes the node schedulable if
    /// nothing else holds it.
    ///
    /// # Affected versions
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
    for node in cluster.nodes.iter().filter(|n| n.cordoned() == Some(true)) {
        let keys = node.keys(flavor);
        let lost: Vec<&str> = cluster.leftovers().orphaned_cordons(node).map(|(name, _)| name).collect();
        let cordons = keys.skyhooks.iter().filter(|(_, on)| on.cordon).map(|(name, _)| name.as_str());
        let kept: Vec<&str> = cordons.filter(|name| !lost.contains(name)).collect();
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
            let unmet =
                owner.map_or_else(Vec::new, |skyhook| skyhook.spec.node_selectors.unmet(&node.labels));
            let unfinished: Vec<&str> = owner
                .zip(keys.of(name))
                .into_iter()
                .flat_map(|(skyhook, on)| open_entries(cluster, skyhook, on))
                .map(|entry| entry.name.as_str())
                .collect();
            let finding = findings.report(
                Subject::node(&node.name, Some(name)),
                match owner {
                    None if absence == Certainty::Presumed => format!(
                        "the node is cordoned for {name}, which is not in the capture: if {name} was deleted, \
                         nothing will uncordon the node"
                    ),
                    None => format!(
                        "the node stays cordoned for {name}, which is gone: nothing will uncordon the node"
                    ),
                    Some(skyhook) => format!(
                        "nothing will uncordon the node: {skyhook} cordoned it and no longer selects it{}{}",
                        unmet.first().map_or_else(String::new, |unmet| format!(" (label {})", unmet.key)),
                        if unfinished.is_empty() {
                            String::new()
                        } else {
                            format!("; package {} is unfinished", some_of(&unfinished))
                        }
                    ),
                },
            );
            let key = keys::cordon(flavor, name);
            finding.evidence(node, "spec.unschedulable", "true").evidence(node, key, "set");
            match owner {
                Some(skyhook) => {
                    finding.evidence(skyhook, "spec.nodeSelectors", "does not match");
                    for Unmet { key, change, .. } in &unmet {
                        let value = node.labels.value(key).unwrap_or("missing");
                        let owner = owners::of_label(key).map(|owner| format!("; usually set by {owner}"));
                        finding.evidence(
                            node,
                            format!("label {key}"),
                            format!("{value}; the selector requires {change}{}", owner.unwrap_or_default()),
                        );
                        let writes = node.labelled.iter();
                        if let Some(write) = writes.max_by_key(|write| (write.is_of_owner(key), write.at)) {
                            let of_owner = if write.is_of_owner(key) { "such labels" } else { "labels" };
                            finding.evidence(
                                node,
                                of_owner,
                                format!("last written by {} at {}", write.by, write.at),
                            );
                        }
                    }
                    if !unfinished.is_empty() && !unmet.is_empty() {
                        let words = ["label", "node", &node.name, "--overwrite"];
                        finding
                            .kubectl(
                                Grade::of_running(skyhook),
                                "Restore the label, so that the custom resource finishes its work on the node",
                                words.into_iter().chain(unmet.iter().map(|unmet| unmet.change.as_str())),
                            )
                            .caveat(
                                "first repair the program that owns the label: it may remove the label again",
                            );
                    }
                }
                None if absence == Certainty::Presumed => {
                    finding.severity(Severity::Warning).not_in_input(cluster, name);
                }
                None => {
                    finding.evidence(flavor.resource(), name, "does not exist");
                }
            }
            for other in &kept {
                let key = keys::cordon(flavor, other);
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
            let half_changed = !unfinished.is_empty();
            let title = if half_changed {
                "If the work on the node will not be finished, release the cordon"
            } else {
                "Release the cordon"
            };
            finding.remedy(title, ["leftovers", "--clean", "--node", &node.name]).caveat(if half_changed {
                "the packages are unfinished on this host, and pods may be scheduled on it"
            } else if !kept.is_empty() {
                "the node stays cordoned for the other owners"
            } else if keys.runtime_required_cordon {
                "the runtime-required cordon remains: --runtime-required releases it as well"
            } else {
                "pods may be scheduled on the node again; first check that no unfinished interrupt has \
                     left the node unusable"
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
    let key = keys::cordon(cluster.flavor(), skyhook.name());
    finding
        .severity(Severity::Warning)
        .evidence(node, "spec.unschedulable", "true")
        .evidence(node, key, "set")
        .evidence(skyhook, "complete on this node", "yes")
        .operator_log(cluster, "Check why the operator's reconcile ends early")
        .kubectl(Grade::B1, "Uncordon the node", ["uncordon", &node.name])
        .caveat("only if no one else needs the node cordoned");
}
