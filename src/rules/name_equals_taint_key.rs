use super::evidence::some_of;
use super::{Findings, Grade, Subject};
use crate::cluster::Cluster;

rule! {
    /// A custom resource has the same name as the runtime-required taint.
    ///
    /// # What it means
    ///
    /// When a custom resource is deleted the operator removes every key on the nodes that ends in
    /// `_NAME`. If NAME is also the key of the runtime-required taint, or what follows an `_` in it, this
    /// also removes the record of which nodes the operator tainted (`autoTaint_KEY`).
    ///
    /// # What causes it
    ///
    /// Both names can be chosen freely, and nothing checks for a conflict.
    ///
    /// # How to confirm
    ///
    /// The name equals the key in the operator's `RUNTIME_REQUIRED_TAINT` or is its suffix, or nodes have an
    /// `autoTaint_NAME` or `autoTaint_…_NAME` annotation.
    ///
    /// # How to fix
    ///
    /// Before deleting the custom resource, set `autoTaintNewNodes: false` on it, or recreate it with
    /// another name. The taint itself is not removed.
    ///
    /// # Since
    ///
    /// Operators that clean up in the finalizer (v0.16.0).
    SKY106 "name-equals-taint-key" Warning needs Skyhooks Nodes, also Operator
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let flavor = cluster.flavor();
    let taints = cluster.runtime_required_taints();
    let keys: Vec<&str> = taints.iter().map(|(key, _)| key.as_str()).collect();
    for skyhook in cluster.skyhooks.items() {
        let nodes = cluster.nodes.items().iter();
        let marked: Vec<&str> = nodes
            .filter(|n| {
                n.keys(flavor)
                    .auto_taints
                    .iter()
                    .any(|taint| takes_with_it(skyhook.name(), taint))
            })
            .map(|n| n.name.as_str())
            .collect();
        let named = keys.iter().any(|key| takes_with_it(skyhook.name(), key));
        if !named && marked.is_empty() {
            continue;
        }
        let finding = findings.report(
            Subject::skyhook(skyhook),
            format!(
                "deleting {skyhook} removes the record of which nodes were tainted: {}",
                if keys.contains(&skyhook.name()) {
                    "its name is the key of the runtime-required taint"
                } else {
                    "the key of that record ends with the custom resource's name"
                }
            ),
        );
        finding.evidence(
            "operator",
            "keys of the runtime-required taint",
            keys.join(", "),
        );
        if let Some(first) = marked.first() {
            let key = flavor.key("autoTaint_");
            finding.evidence(
                format!("node/{first}"),
                format!("annotation {key}… ending in {}", skyhook.name()),
                format!("on {}", some_of(&marked)),
            );
        }
        finding
            .edit(
                Grade::B1,
                "Before deleting the custom resource, turn off auto-tainting",
                skyhook,
            )
            .caveat("new nodes are then no longer tainted");
    }
}

/// Whether the deletion of a custom resource of this name removes the note of a taint: every key that ends in `_NAME` goes.
fn takes_with_it(name: &str, taint: &str) -> bool {
    taint == name || taint.ends_with(&format!("_{name}"))
}
