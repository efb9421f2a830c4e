use std::collections::BTreeSet;

use super::support::evidence::{complete_for_long, some_of};
use super::{Blocks, Findings, Grade, Severity, Subject, runtime_required_deadlock};
use crate::api::{Skyhook, Status};
use crate::cluster::node::Taint;
use crate::cluster::{Certainty, Cluster, Node};
use crate::text::Joined;

rule! {
    /// Nothing will remove the runtime-required taint from a node.
    ///
    /// # What it means
    ///
    /// The node carries the taint that keeps workloads away until its packages are installed. The operator
    /// lifts it once every custom resource with `runtimeRequired` that selects the node is complete there.
    /// Here, no such custom resource selects the node, or those that are not complete there are paused, disabled or
    /// being deleted, or the operator's reconcile ends before it reaches the taint, so the node stays unusable.
    ///
    /// A `runtime-required` taint with a key that the operator does not know is only a warning: the operator
    /// never removes it, but something else may.
    ///
    /// # What causes it
    ///
    /// The node pool taints its nodes and no selector matches them, or the custom resource was
    /// deleted, which never removes the taint. Or the node pool uses another key than the operator
    /// (`RUNTIME_REQUIRED_TAINT`), such as the default of the older API under operator v0.21.
    ///
    /// # How to confirm
    ///
    /// Compare the taint on the node with the operator's key, and the node's labels with the selectors of the
    /// custom resources with `runtimeRequired: true`.
    ///
    /// # How to fix
    ///
    /// Let a custom resource with `runtimeRequired` select the node, or resume the custom resource that
    /// selects it. If nothing has to be installed there, remove the taint. Taint new nodes with the key that
    /// the operator is configured with.
    ///
    /// # Affected versions
    ///
    /// All operators. From v0.18.0 to v0.20 the older default key counts as well; from v0.21.0 on a node with
    /// that key is never worked on, which is an error.
    SKY405 "runtime-required-taint-kept" Error needs Skyhooks Nodes, also Operator,
        blocks Workloads
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    // An input without custom resources may just omit them.
    let absence = cluster.skyhooks_absence();
    if absence == Certainty::Unknown {
        return;
    }
    let model = findings.model();
    // Resuming one that waits for another would not help.
    let deadlocked = findings.of_rule(&runtime_required_deadlock::RULE);
    let deadlocks: BTreeSet<&str> = deadlocked.iter().filter_map(|f| f.subject.node.as_deref()).collect();
    for node in &cluster.nodes {
        let keepers: Vec<&Skyhook> =
            cluster.skyhooks.iter().filter(|s| s.spec.runtime_required && s.selects(node)).collect();
        let complete = |s: &&Skyhook| complete_for_long(cluster, s, node);
        let Some(taint) = cluster.runtime_required().on(node) else {
            if let Some(taint) = cluster.runtime_required().foreign(node) {
                let blocked = keepers.iter().copied().find(|s| {
                    let untolerated = cluster.untolerated_by(s, node);
                    s.is_active()
                        && cluster.runtime_required().is_dropped(taint)
                        && untolerated.contains(&taint)
                        && !model.is_done_on(s, node)
                });
                if let Some(skyhook) = blocked {
                    dropped_key(cluster, findings, node, taint, skyhook);
                    continue;
                }
                // Until everything is complete, the taint may be intended.
                let done = |s: &&Skyhook| model.is_done_on(s, node) && complete(s);
                if !keepers.is_empty() && keepers.iter().all(done) {
                    kept_though_complete(cluster, findings, node, taint, &keepers);
                }
            }
            continue;
        };
        let notation = taint.kubectl_notation();
        if keepers.is_empty() {
            // A new node may not have all of its labels yet, unless the operator has already processed it.
            let keys = node.keys(cluster.flavor());
            let met = !keys.auto_taints.is_empty() || keys.skyhooks.values().any(|on| on.has_keys());
            let young = cluster.is_recent(node.created) && !met;
            // The operator leaves its keys on each node that a custom resource selects.
            let all = || keys.skyhooks.keys().map(|name| cluster.skyhook(name));
            let former = all().flatten().find(|s| s.spec.runtime_required && s.is_active());
            let former = former.filter(|_| all().all(|skyhook| skyhook.is_some()));
            let presumed = absence == Certainty::Presumed && former.is_none();
            let blocks = |s: &&Skyhook| {
                let blocked = cluster.status_on(s, node) == Status::Blocked && !model.is_done_on(s, node);
                s.is_active()
                    && s.selects(node)
                    && blocked
                    && cluster.untolerated_by(s, node).contains(&taint)
            };
            let blocked = cluster.skyhooks.iter().find(blocks);
            let finding = findings.report(
                Subject::node(&node.name, None),
                if let Some(former) = former {
                    format!(
                        "{former} no longer selects the node, and no other custom resource with runtimeRequired does, so the \
                         operator does not remove its runtime-required taint"
                    )
                } else if presumed {
                    "the node has the runtime-required taint, and the capture has no custom resource that \
                     would remove it"
                        .to_owned()
                } else {
                    "no custom resource with runtimeRequired selects the node, so the operator does not remove its runtime-required taint"
                        .to_owned()
                },
            );
            if (presumed || young) && blocked.is_none() {
                finding.severity(Severity::Info);
            }
            finding
                .evidence(node, "taint", &notation)
                .evidence(cluster.flavor().resource(), "with runtimeRequired that select the node", "none")
                .remedy("See which custom resources select the node", ["node", "status", &node.name])
                .remove_taint(
                    blocked.map_or(Grade::B1, Grade::of_running),
                    "Remove the taint if nothing has to be installed first",
                    &node.name,
                    &notation,
                )
                .caveat("workloads can be scheduled on the node immediately");
            continue;
        }
        if model.taint_kept_by(node).is_empty() && keepers.iter().all(complete) {
            kept_though_complete(cluster, findings, node, taint, &keepers);
            continue;
        }
        // The taint is correct while a custom resource still works or waits, or has just become complete.
        let Some(holding) = model.taint_left_by(node).filter(|_| !deadlocks.contains(node.name.as_str()))
        else {
            continue;
        };
        let holder = holding[0];
        let finding = findings.report(
            Subject::skyhook_on_node(holder, node),
            format!(
                "the node keeps its runtime-required taint as long as {holder} is {}",
                holder.stopped().filter(|_| !holder.deleting()).unwrap_or("being deleted")
            ),
        );
        finding.severity(Severity::Warning).mark_permanent().evidence(node, "taint", &notation).evidence(
            "custom resources",
            "that keep the taint",
            some_of(holding.iter().map(|s| s.to_string())),
        );
        if holder.paused() {
            finding.offer_resume(cluster, holder, "Resume the custom resource", "resume");
        } else if holder.disabled() {
            finding.offer_resume(cluster, holder, "Enable the custom resource", "enable");
        } else {
            finding.remedy(
                "See what the deletion waits for; the deletion does not remove the taint",
                ["status", holder.name()],
            );
        }
    }
}

/// Reports a taint that stays although everything is complete: the operator does not know its key, or does not reach the
/// node.
fn kept_though_complete(
    cluster: &Cluster,
    findings: &mut Findings,
    node: &Node,
    taint: &Taint,
    complete: &[&Skyhook],
) {
    let notation = taint.kubectl_notation();
    let known = cluster.runtime_required().on(node).is_some();
    let (which, why) = if known {
        ("its runtime-required taint".to_owned(), "the operator's reconcile does not reach the node")
    } else {
        (format!("the taint {notation}"), "the operator does not remove taints with this key")
    };
    let finding = findings.report(
        Subject::node(&node.name, None),
        format!("the node keeps {which} although every custom resource with runtimeRequired is complete here: {why}"),
    );
    finding.evidence(node, "taint", &notation).evidence(
        "custom resources",
        "complete on this node",
        some_of(complete.iter().map(|s| s.name())),
    );
    let title = if known {
        finding.operator_log(cluster, "Check why the operator's reconcile ends early");
        "Remove the taint, because nothing is left to install"
    } else {
        let taints = cluster.runtime_required().taints();
        let keys = taints.iter().map(|(key, _)| key).joined(", ");
        // Only a warning: another component may have set the taint, and may remove it.
        finding.severity(Severity::Warning).mark_permanent();
        finding.evidence("operator", "runtime-required taint keys", keys);
        "Remove the taint if no other component will remove it"
    };
    finding
        .remove_taint(Grade::B1, title, &node.name, &notation)
        .caveat("workloads can be scheduled on the node immediately");
}

/// Reports a taint with the older default key, which the operator no longer recognizes.
fn dropped_key(cluster: &Cluster, findings: &mut Findings, node: &Node, taint: &Taint, skyhook: &Skyhook) {
    let known = cluster.runtime_required().taints();
    let (key, effect) = &known[0];
    let value = cluster.runtime_required().value();
    let notation = taint.kubectl_notation();
    let finding = findings.report(
        Subject::skyhook_on_node(skyhook, node),
        format!(
            "the node has the older taint {notation}, which operators since v0.21 neither tolerate nor remove: the packages \
             of {skyhook} do not run here, and the taint stays"
        ),
    );
    finding
        .blocks_only(&[Blocks::Install, Blocks::Workloads])
        .since(node.created)
        .evidence(node, "taint", &notation)
        .evidence("operator", "runtime-required taint keys", key)
        .operator_version(cluster);
    // One command: with both taints, or with none, packages or workloads would run too early.
    let taints = [format!("{key}={value}:{effect}"), format!("{notation}-")];
    finding
        .kubectl(
            Grade::of_running(skyhook),
            "Replace the taint by one with the key that the operator knows, and change the node pool to that key",
            ["taint", "node", &node.name].into_iter().chain(taints.iter().map(String::as_str)),
        )
        .caveat("packages may run on the node immediately");
}
