use jiff::SignedDuration;

use super::{Finding, Findings, Grade, Subject};
use crate::api::keys::NodeKey;
use crate::api::{Skyhook, Status};
use crate::cluster::node::{NodeCondition, READY, Taint};
use crate::cluster::owners::{TaintKind, TaintOwner};
use crate::cluster::{Cluster, Node};
use crate::text::Joined;

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
    /// A taint was added, or `additionalTolerations` does not list it. Many taints have an owner that removes
    /// them: Kubernetes on a node with a problem, an agent that is not ready yet (Cilium, a CSI driver, the
    /// Node Readiness Controller), an autoscaler that removes the node.
    ///
    /// If packages install what an agent waits for, such as the driver behind the condition of a NodeReadinessRule, the
    /// taint and the packages wait for each other.
    ///
    /// # How to confirm
    ///
    /// The node's status is `blocked`, and the condition `TaintNotTolerable` is true. The condition
    /// may be out of date; the taints of the node are authoritative.
    ///
    /// # How to fix
    ///
    /// Tolerate the taint in the spec, or remove the taint. If it has an owner, repair the cause for which the owner keeps
    /// it; remove the taint of a scale-down only if none runs.
    ///
    /// # Affected versions
    ///
    /// All operators.
    ///
    /// # Severity
    ///
    /// A taint that its owner should remove is a warning once the operator has noticed it or after ten
    /// minutes, and an error after half an hour on a node that is ready, or after 15 minutes while the node is short of
    /// a resource such as disk space. The taint of a scale-down is an error after six hours.
    SKY403 "untolerated-taint" Error needs Skyhooks Nodes, also Operator Pods Jobs,
        blocks Install Uninstall
}

/// Maximum number of conditions in the evidence.
const SHOWN: usize = 3;
/// Caveat during a deletion, see the rule `deletion-passes-over-node`.
const SKIPPED_AFTERWARDS: &str = "if other nodes have already finished the uninstall, the operator skips this node; \
    then apply the remedy of SKY114";

/// Maximum time for which a lifecycle taint may stay on a ready node.
const LIFTED_WITHIN: SignedDuration = SignedDuration::from_mins(30);
/// Maximum time for which a node may be short of a resource: work then waits for someone to free some.
const SHORT_FOR: SignedDuration = SignedDuration::from_mins(15);
/// Maximum time of a scale-down or another removal of a node.
const REMOVED_WITHIN: SignedDuration = SignedDuration::from_hours(6);

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let (model, package_runs) = (findings.model(), findings.package_runs());
    let runtime_keys = cluster.runtime_required().taints();
    for skyhook in cluster.skyhooks.iter().filter(|s| s.is_active()) {
        // Another rule reports nodes that are being deleted.
        let nodes = model.unfinished(skyhook).filter(|node| node.deletion.is_none());
        for node in nodes.filter(|node| !node.taints().is_empty()) {
            let on = cluster.on_node(node, skyhook.name());
            // Ignored nodes have the status blocked, too.
            let ignored = node.ignored(cluster.flavor());
            let blocked = on.is_some_and(|on| on.operator_status() == Status::Blocked) && !ignored;
            // The runtime-required taint is normal until the operator has removed it; SKY407 covers the wait for a later
            // custom resource.
            let waits_for_taint = blocked && model.predecessor_on(skyhook, node).is_none();
            let left_by = if waits_for_taint { model.taint_left_by(node) } else { None };
            let left_by = left_by.filter(|by| by.iter().all(|keeper| keeper.order() < skyhook.order()));
            let taints: Vec<&Taint> = cluster
                .untolerated_by(skyhook, node)
                .into_iter()
                .filter(|t| left_by.is_some() || runtime_keys.iter().all(|(key, _)| t.key != *key))
                .filter(|t| !(skyhook.spec.runtime_required && cluster.runtime_required().is_dropped(t)))
                .collect();
            if taints.is_empty() {
                continue;
            }
            let passing = taints.iter().all(|t| t.of_lifecycle());
            let removal = taints.iter().all(|t| t.is(TaintKind::Removal));
            let at_work = package_runs.any_alive_on(skyhook.name(), &node.name);
            let since = taints.iter().filter_map(|t| node.tainted_since(t)).min().or(node.selectable);
            // A node that reboots for its interrupt is temporarily not ready, and a removal takes minutes.
            let expected = !blocked && !cluster.is_stale(since) || removal && cluster.is_recent(since);
            if passing && (at_work || expected) {
                continue;
            }
            let notation = taints.iter().map(|t| t.kubectl_notation()).joined(", ");
            let owner = taints.iter().filter(|t| t.of_lifecycle()).find_map(|t| t.owner());
            let owned = owner
                .map_or_else(String::new, |owner| format!(" ({} removes it {})", owner.name, owner.until));
            // A lifecycle taint is removed when a problem of kubelet or network ends; on a ready node there is no
            // such problem.
            let age = since.map(|at| cluster.taken_at.duration_since(at));
            // The taint of DiskPressure is node.kubernetes.io/disk-pressure.
            let is_of = |taint: &Taint, condition: &NodeCondition| {
                let name = taint.key.strip_prefix("node.kubernetes.io/").unwrap_or_default().replace('-', "");
                condition.kind.ends_with("Pressure") && name.eq_ignore_ascii_case(&condition.kind)
            };
            let is_short = |c: &&NodeCondition| c.is_true() && taints.iter().all(|taint| is_of(taint, c));
            let short = node.conditions().iter().find(is_short);
            let lifted_within = if short.is_some() { SHORT_FOR } else { LIFTED_WITHIN };
            let within = if removal { REMOVED_WITHIN } else { lifted_within };
            let kept = passing && node.ready() == Some(true) && age.is_some_and(|age| age >= within);
            let passing = passing && !kept;
            let message = if passing && cluster.not_ready_since(node).is_some() {
                format!("the node is not ready ({notation}), so the packages of {skyhook} do not run here")
            } else {
                format!("{skyhook} does not tolerate {notation}{owned}, so its packages do not run here")
            };
            let finding = findings.report(Subject::skyhook_on_node(skyhook, node), message);
            finding.warning_if(passing || ignored || !blocked && !kept);
            if let Some(keepers) = &left_by {
                finding.effect_of(&["SKY405"]).warning_if(!keepers.is_empty());
                keepers.iter().for_each(|keeper| {
                    finding.waits_for_node(keeper.name(), &node.name);
                });
            }
            // Another rule reports an older taint at the custom resource that is to run before the workloads.
            if taints.iter().any(|t| cluster.runtime_required().is_dropped(t)) {
                let keeps = |keeper: &&Skyhook| keeper.spec.runtime_required && keeper.selects(node);
                finding.effect_of(&["SKY405"]);
                cluster.skyhooks.iter().filter(keeps).for_each(|keeper| {
                    finding.waits_for_node(keeper.name(), &node.name);
                });
            }
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
                let down = cluster.not_ready_since(node);
                if let Some(earlier) = down.and_then(|_| model.predecessor_on(skyhook, node)) {
                    finding.waits_for_predecessor(&earlier);
                }
            }
            for taint in &taints {
                finding.taint(node, taint);
            }
            if let Some(on) = on {
                finding.evidence(node, "operator's status", on.operator_status().as_str());
            }
            if let Some(condition) = skyhook.true_condition("TaintNotTolerable").filter(|_| !kept) {
                finding.since(condition.last_transition_time);
            }
            if let Some(short) = short {
                finding.evidence(node, format!("condition {}", short.kind), "True").describe_node(
                    "See what the node is short of, and free some: the taint then goes by itself",
                    &node.name,
                );
                continue;
            }
            finding.describe_node("See the state of the node", &node.name);
            if let Some(owner) = owner.filter(|_| kept) {
                kept_by(finding, skyhook, node, owner, &taints);
            } else if !passing {
                finding
                    .edit_to_continue("Add a toleration for the taint to additionalTolerations", skyhook)
                    .caveat(if skyhook.deleting() {
                        SKIPPED_AFTERWARDS
                    } else {
                        "packages then run on every node with this taint"
                    });
                for taint in taints.iter().filter(|t| !t.of_lifecycle()) {
                    finding
                        .remove_taint(
                            Grade::of_running(skyhook),
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

/// Adds remedies for taints that their owner should have removed.
fn kept_by(finding: &mut Finding, skyhook: &Skyhook, node: &Node, owner: &TaintOwner, taints: &[&Taint]) {
    let TaintOwner { name, until, .. } = owner;
    match owner.kind {
        TaintKind::Removal => {
            let about = format!("involvedObject.kind=Node,involvedObject.name={}", node.name);
            let events = ["get", "events", "-A", "--field-selector", &about];
            finding.kubectl(Grade::B0, format!("Check that {name} is not removing the node"), events);
            for taint in taints {
                finding
                    .remove_taint(
                        Grade::of_running(skyhook),
                        "Then remove the taint",
                        &node.name,
                        &taint.kubectl_notation(),
                    )
                    .caveat(
                        "only if no scale-down is in progress; workloads and packages may then run on the \
                         node immediately",
                    );
            }
        }
        TaintKind::Condition => {
            let title = format!(
                "Find out why {name} does not remove the taint, and repair it; it normally removes \
                    the taint {until}"
            );
            finding.kubectl(Grade::B0, title, ["get", "pods", "-n", "kube-system", "-o", "wide"]);
        }
        TaintKind::Startup | TaintKind::Maintenance | TaintKind::Reserved => {
            let title = format!("Find out what {name} waits for; it removes the taint {until}");
            match owner.shown_by() {
                Some(words) => finding.kubectl(Grade::B0, title, words),
                None => finding.pods_on_node(&title, &node.name),
            };
        }
    }
    if owner.kind == TaintKind::Startup {
        let others = node.conditions().iter().filter(|c| c.kind != READY && !c.is_true());
        for condition in others.filter(|c| !NodeKey::is_ours(&c.kind)).take(SHOWN) {
            let value = format!("{}: {} {}", condition.status, condition.reason, condition.message);
            finding.evidence(node, format!("condition {}", condition.kind), value.trim_end());
        }
        finding
            .edit(
                Grade::B2,
                "If the taint's owner waits for something that these packages install, neither can \
                     continue: tolerate the taint in additionalTolerations",
                skyhook,
            )
            .caveat("packages then run on every node with this taint");
    }
}
