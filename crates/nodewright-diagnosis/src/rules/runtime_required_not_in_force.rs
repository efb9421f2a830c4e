use jiff::{SignedDuration, Timestamp};

use super::{Blocks, ENDED_RECONCILE, Findings, Grade, Severity, Subject};
use crate::api::{Skyhook, Stage, State};
use crate::cluster::{Cluster, Node, NodeRecord};

rule! {
    /// A node is open to workloads although a `runtimeRequired` custom resource was never complete there.
    ///
    /// # What it means
    ///
    /// With `runtimeRequired`, workloads should wait until the packages are installed. The runtime-required
    /// taint makes them wait, but this node does not have the taint, so workloads are scheduled at once.
    ///
    /// # What causes it
    ///
    /// With `autoTaintNewNodes` the operator taints a node only if it carries none of the operator's
    /// annotations: a node that was reset, or that has annotations from earlier use, does not count as new.
    /// Without `autoTaintNewNodes`, the node pool has to set the taint, and did not. Or an admission policy
    /// rejects the taint: then the operator does not count the node as joined, and installs nothing on it.
    ///
    /// # How to confirm
    ///
    /// The custom resource is not complete on the node, none of its packages ever was, and the node does not
    /// have the taint. If the taint was rejected, an event `AutoTaint` of the node shows the reason.
    ///
    /// # How to fix
    ///
    /// Taint the node by hand; the operator removes the taint once the packages are complete. Clean up
    /// leftovers of the earlier use. If an admission policy rejects the taint, change the policy.
    ///
    /// # Affected versions
    ///
    /// All operators.
    ///
    /// # Severity
    ///
    /// A warning with `autoTaintNewNodes`, and info if the node pool has to set the taint. An error if the
    /// operator has not set the taint for half an hour.
    SKY411 "runtime-required-not-in-force" Warning needs Skyhooks Nodes, also Operator Events
}

/// Time after which the operator is not expected to set a missing taint any more: it reconciles every ten
/// minutes.
const OVERDUE: SignedDuration = SignedDuration::from_mins(30);

fn detect(cluster: &Cluster, findings: &mut Findings) {
    // Any taint with this value counts, regardless of its key.
    let value = cluster.runtime_required().value();
    let model = findings.model();
    for skyhook in cluster.skyhooks.iter().filter(|s| s.spec.runtime_required && !s.deleting()) {
        for node in model.unfinished(skyhook) {
            let on = cluster.on_node(node, skyhook.name());
            // An ignored node was left out on purpose.
            if node.ignored(cluster.flavor())
                || cluster.runtime_required().on(node).is_some()
                || node.taints().iter().any(|t| !value.is_empty() && t.value == value)
                || on.is_some_and(|on| on.is_malformed() || was_complete(on))
            {
                continue;
            }
            let known = marks(cluster, node);
            // The operator may be about to taint a node that it has not seen yet.
            if known.is_empty() && !cluster.is_stale(due_since(skyhook, node)) {
                continue;
            }
            report(cluster, findings, skyhook, node, &known);
        }
    }
}

/// Whether a package has completed its last stage on the node: then the taint was removed correctly.
fn was_complete(on: &NodeRecord) -> bool {
    let last = |stage: &Stage| matches!(stage, Stage::Config | Stage::PostInterrupt);
    on.entries().iter().any(|e| e.state == State::Complete && last(&e.stage))
}

/// The time since which the node should have the taint.
fn due_since(skyhook: &Skyhook, node: &Node) -> Option<Timestamp> {
    node.created.max(skyhook.metadata.creation_timestamp)
}

/// The operator's keys on the node, because of which the node does not count as new.
fn marks(cluster: &Cluster, node: &Node) -> Vec<String> {
    let keys = node.keys(cluster.flavor());
    let taints = keys.auto_taints.iter().map(|t| format!("autoTaint_{t}"));
    let left = keys.skyhooks.iter().filter(|(_, on)| on.has_keys()).flat_map(|(name, on)| {
        on.remaining_keys()
            .into_iter()
            .filter(|key| !key.contains(' '))
            .map(move |key| format!("{key}_{name}"))
    });
    taints.chain(left).collect()
}

fn report(cluster: &Cluster, findings: &mut Findings, skyhook: &Skyhook, node: &Node, known: &[String]) {
    let auto = skyhook.spec.auto_taint_new_nodes;
    let due = due_since(skyhook, node);
    let late = |at: Timestamp| cluster.taken_at.duration_since(at) >= OVERDUE;
    let left_out = auto && known.is_empty() && skyhook.is_active() && due.is_some_and(late);
    let message = if left_out {
        format!(
            "the operator could not set the runtime-required taint on the node, so it installs nothing of {skyhook} on the \
             node, and workloads do not wait for {skyhook}"
        )
    } else {
        let why = match (auto, known.is_empty()) {
            (true, false) => ", because it does not count as a new node",
            (true, true) => ", which the operator has not added yet",
            (false, _) => "",
        };
        format!("workloads do not wait for {skyhook}: the node does not have the runtime-required taint{why}")
    };
    let finding = findings.report(Subject::skyhook_on_node(skyhook, node), message);
    // The taint is configured in the operator's environment, which is unknown without a Deployment.
    if !auto || cluster.operators.items().is_empty() {
        finding.severity(Severity::Info);
    } else if left_out {
        finding
            .severity(Severity::Error)
            .since(due)
            .blocks_only(&[Blocks::Install])
            .effect_of(&[ENDED_RECONCILE]);
    }
    let (key, effect) = cluster.runtime_required().taints().into_iter().next().unwrap_or_default();
    let (done, all) = cluster.progress(skyhook, node);
    finding.evidence(node, format!("taint {key}"), "absent").evidence(
        skyhook,
        "packages done on this node",
        format!("{done} of {all}"),
    );
    let events = cluster.events_about("Node", &node.name);
    let rejection = events.filter(|e| e.reason == "AutoTaint" && e.warning).max_by_key(|e| e.last);
    if let Some(event) = rejection.filter(|_| auto) {
        finding
            .evidence(node, "event AutoTaint", &event.message)
            .describe_node("See why the taint was rejected, and change the admission policy", &node.name);
    }
    if auto && !known.is_empty() {
        finding.evidence(node, "keys of the operator", known.join(", "));
    }
    let value = match cluster.runtime_required().value() {
        "" => String::new(),
        value => format!("={value}"),
    };
    let (grade, caveat) = if effect == "NoExecute" {
        (
            Grade::B3,
            "pods that do not tolerate the taint are evicted; new pods wait until the packages are complete",
        )
    } else {
        (Grade::B1, "pods already running on the node stay; new pods wait until the packages are complete")
    };
    if cluster.operator().is_down() {
        finding.list_operators("Start the operator, which alone removes the taint; then taint the node");
        return;
    }
    let taint = format!("{key}{value}:{effect}");
    finding.kubectl(grade, "Taint the node", ["taint", "node", &node.name, &taint]).caveat(caveat);
}
