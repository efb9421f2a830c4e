use jiff::SignedDuration;

use super::remedies::resume_effects::ResumeEffects;
use super::{Findings, Grade, Subject};
use crate::api::Status;
use crate::cluster::Cluster;
use crate::cluster::node::Taint;

rule! {
    /// A taint keeps the operator from working on a node.
    ///
    /// # What it means
    ///
    /// The operator only chooses nodes whose taints the custom resource tolerates, including taints with the effect
    /// `PreferNoSchedule`. Nothing runs on this node until the taint is tolerated or removed.
    ///
    /// # What causes it
    ///
    /// A taint was added, or `additionalTolerations` does not list it. Taints that Kubernetes itself sets, such as
    /// `node.kubernetes.io/not-ready`, indicate a problem of the node; they are removed when the node recovers. Such a
    /// taint is a warning once the operator has noticed it or after ten minutes, and an error after half an hour on a node
    /// that is ready: then the component that should remove it does not.
    ///
    /// # How to confirm
    ///
    /// The node's status is `blocked`, and the condition `TaintNotTolerable` is true. The condition
    /// may be out of date; the taints of the node are authoritative.
    ///
    /// # How to fix
    ///
    /// Tolerate the taint in the spec, or remove the taint. If Kubernetes set it, repair the node.
    ///
    /// # Since
    ///
    /// All operators.
    SKY403 "untolerated-taint" Error needs Skyhooks Nodes, also Operator Pods Jobs,
        blocks Install Uninstall
}

/// Caveat during a deletion, see the rule `deletion-passes-over-node`.
const SKIPPED_AFTERWARDS: &str = "if other nodes have already finished the uninstall, the operator skips this node; \
    then apply the remedy of SKY114";

/// Maximum time for which a lifecycle taint may stay on a ready node.
const LIFTED_WITHIN: SignedDuration = SignedDuration::from_mins(30);

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let (model, package_runs) = (findings.model(), findings.package_runs());
    let runtime_keys = cluster.runtime_required_taints();
    for skyhook in cluster.skyhooks.items().iter().filter(|s| s.is_active()) {
        for node in cluster.selected(skyhook) {
            if node.taints().is_empty() || model.is_done_on(skyhook, node) {
                continue;
            }
            // Another rule covers the runtime-required taint.
            let taints: Vec<&Taint> = cluster
                .untolerated_by(skyhook, node)
                .into_iter()
                .filter(|t| runtime_keys.iter().all(|(key, _)| t.key != *key))
                .filter(|t| !(skyhook.spec.runtime_required && cluster.is_dropped_taint(t)))
                .collect();
            if taints.is_empty() {
                continue;
            }
            let on = cluster.on_node(node, skyhook.name());
            // Ignored nodes have the status blocked, too.
            let ignored = node.ignored(cluster.flavor());
            let blocked = on.is_some_and(|on| on.operator_status() == Status::Blocked) && !ignored;
            let passing = taints.iter().all(|t| t.of_lifecycle());
            let at_work = package_runs.any_alive_on(skyhook, node);
            let since = taints.iter().filter_map(|t| node.tainted_since(t)).min();
            let since = since.or(node.selectable);
            // A node that reboots for its interrupt is temporarily not ready.
            if passing && (at_work || !blocked && !cluster.is_stale(since)) {
                continue;
            }
            let notation: Vec<String> = taints.iter().map(|t| t.kubectl_notation()).collect();
            let notation = notation.join(", ");
            // A lifecycle taint is removed when a problem of kubelet or network ends; on a ready node there is no
            // such problem.
            let age = since.map(|at| cluster.taken_at.duration_since(at));
            let kept = passing && node.ready() == Some(true) && age.is_some_and(|age| age >= LIFTED_WITHIN);
            let passing = passing && !kept;
            let finding = findings.report(
                Subject::skyhook_on_node(skyhook, node),
                format!("{skyhook} does not tolerate {notation}, so its packages do not run here"),
            );
            finding.warning_if(passing || ignored || !blocked && !kept);
            if kept {
                finding.since(since);
            }
            // Other taints last, even if the operator has not noticed them yet; a node that has long been down may
            // not return.
            if !passing || cluster.not_ready_since(node).is_some() {
                finding.mark_permanent();
            }
            if passing {
                finding.effect_of(&["SKY409"]);
            }
            finding.evidence(node, "taints", &notation);
            if let Some(on) = on {
                finding.evidence(node, "operator's status", on.operator_status().as_str());
            }
            if let Some(condition) = skyhook.true_condition("TaintNotTolerable").filter(|_| !kept) {
                finding.since(condition.last_transition_time);
            }
            finding.describe_node("See the state of the node", &node.name);
            if kept {
                let title = "Find out what should remove the taint, such as the cloud controller manager, and repair it";
                finding.kubectl(Grade::B0, title, ["get", "pods", "-n", "kube-system", "-o", "wide"]);
            } else if !passing {
                finding
                    .edit(Grade::B2, "Add a toleration for the taint to additionalTolerations", skyhook)
                    .caveat(if skyhook.deleting() {
                        SKIPPED_AFTERWARDS
                    } else {
                        "packages then run on every node with this taint"
                    });
                for taint in taints.iter().filter(|t| !t.of_lifecycle()) {
                    finding
                        .remove_taint(
                            ResumeEffects::on_nodes(cluster, skyhook, &[node]).grade(),
                            "Or remove the taint if its owner no longer needs it",
                            &node.name,
                            &taint.kubectl_notation(),
                        )
                        .caveat(if skyhook.deleting() {
                            SKIPPED_AFTERWARDS
                        } else {
                            "workloads and packages may then run on the node immediately"
                        });
                }
            }
        }
    }
}
