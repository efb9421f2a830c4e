use super::{Findings, Grade, Severity, Subject};
use crate::cluster::{Cluster, Deployment};
use crate::model::profile::checks_taint_key;

rule! {
    /// The key of the runtime-required taint cannot be recorded on nodes.
    ///
    /// # What it means
    ///
    /// Tainting new nodes writes the annotation `autoTaint_KEY`. With this key the API server
    /// rejects the annotation. As this is one of the first steps of a reconcile, the operator does
    /// nothing else. From v0.20.0 on, it refuses to start instead.
    ///
    /// # What causes it
    ///
    /// The key in the operator's `RUNTIME_REQUIRED_TAINT` contains a `/` or is longer than 53
    /// characters.
    ///
    /// # How to confirm
    ///
    /// The variable in the operator's Deployment has such a value, and a custom resource with `runtimeRequired` and
    /// `autoTaintNewNodes` selects a new node.
    ///
    /// # How to fix
    ///
    /// Configure a key without prefix, or turn `autoTaintNewNodes` off.
    ///
    /// # Affected versions
    ///
    /// Operators with `autoTaintNewNodes` (v0.13.0).
    SKY503 "auto-taint-key-invalid" Error needs Skyhooks Nodes Operator,
        blocks Reconcile
}

const LONGEST: usize = 53;

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let Some((key, _)) = cluster.runtime_required().configured() else {
        return;
    };
    if !key.contains('/') && key.len() <= LONGEST {
        return;
    }
    let flavor = cluster.flavor();
    if checks_taint_key(cluster) {
        let running = |d: &Deployment| d.available_replicas() > 0;
        let operators = cluster.operators.items();
        if let Some(operator) = operators.first().filter(|_| !operators.iter().any(running)) {
            findings
                .report(
                    Subject::deployment(operator),
                    format!("the operator refuses to start with the runtime-required taint key {key}"),
                )
                .evidence(operator, "RUNTIME_REQUIRED_TAINT key", key)
                .edit_operator(Grade::B2, "Configure another key, preferably in the chart values", operator)
                .caveat("the operator then no longer removes taints with the current key from nodes");
        }
        return;
    }
    for skyhook in &cluster.skyhooks {
        if !skyhook.spec.runtime_required || !skyhook.spec.auto_taint_new_nodes {
            continue;
        }
        let new = cluster.selected(skyhook).find(|n| {
            let keys = n.keys(flavor);
            keys.skyhooks.is_empty() && keys.auto_taints.is_empty() && n.taints().iter().all(|t| t.key != key)
        });
        let finding = findings.report(
            Subject::skyhook(skyhook),
            match new {
                Some(_) => format!(
                    "a new node cannot be tainted with {key}, which stops the operator for all custom resources"
                ),
                None => format!(
                    "the next new node cannot be tainted with {key}, which will stop the operator"
                ),
            },
        );
        finding.evidence("operator", "RUNTIME_REQUIRED_TAINT key", &key).evidence(
            skyhook,
            "spec.autoTaintNewNodes",
            "true",
        );
        match new {
            Some(node) => {
                finding.evidence(node, "new", "no annotations or labels from the operator yet");
            }
            None => {
                finding.severity(Severity::Warning).blocks_only(&[]);
            }
        }
        finding
            .edit(Grade::B1, "Turn autoTaintNewNodes off until the operator has another taint key", skyhook)
            .caveat("until then, new nodes are not tainted");
    }
}
