use super::support::evidence::some_of;
use super::{Findings, Grade, Subject};
use crate::api::Skyhook;
use crate::cluster::Cluster;

rule! {
    /// A custom resource has the same name as the runtime-required taint.
    ///
    /// # What it means
    ///
    /// When a custom resource is deleted the operator removes every key on the nodes that ends in `_NAME`. If NAME is
    /// also the key of the runtime-required taint, or the part of the key after an `_`, this also removes the record of
    /// the nodes that the operator tainted (`autoTaint_KEY`).
    ///
    /// # What causes it
    ///
    /// Both names can be chosen freely, and nothing checks for a conflict. A node without the record, and without other
    /// annotations of the operator, counts as new: custom resources with `autoTaintNewNodes` taint it again.
    ///
    /// # How to confirm
    ///
    /// The name equals the key in the operator's `RUNTIME_REQUIRED_TAINT` or is its suffix, or nodes have an
    /// `autoTaint_NAME` or `autoTaint_…_NAME` annotation, and a custom resource has `autoTaintNewNodes: true`.
    ///
    /// # How to fix
    ///
    /// Before deleting the custom resource, set `autoTaintNewNodes: false` on every custom resource. The taint itself is
    /// not removed.
    ///
    /// # Affected versions
    ///
    /// Operators that clean up in the finalizer (v0.16.0).
    SKY106 "name-equals-taint-key" Warning needs Skyhooks Nodes, also Operator
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let flavor = cluster.flavor();
    let taints = cluster.runtime_required().taints();
    let keys: Vec<&str> = taints.iter().map(|(key, _)| key.as_str()).collect();
    // Without custom resources that taint new nodes, the record has no effect.
    let tainting: Vec<&Skyhook> =
        cluster.skyhooks.iter().filter(|s| s.spec.runtime_required && s.spec.auto_taint_new_nodes).collect();
    if tainting.is_empty() {
        return;
    }
    for skyhook in &cluster.skyhooks {
        let takes = |key: &str| names_taken_by(key).any(|name| name == skyhook.name());
        let named = keys.iter().any(|key| takes(key));
        // The nodes whose taint record is removed by the deletion.
        let marked =
            cluster.nodes.iter().filter(|n| n.keys(flavor).auto_taints.iter().any(|taint| takes(taint)));
        let marked: Vec<&str> = marked.map(|n| n.name.as_str()).collect();
        if !named && marked.is_empty() {
            continue;
        }
        let finding = findings.report(
            Subject::skyhook(skyhook),
            format!(
                "deleting {skyhook} removes the record of which nodes were tainted: {}",
                if keys.contains(&skyhook.name()) {
                    "the custom resource has the same name as the key of the runtime-required taint"
                } else {
                    "the key of that record ends with the custom resource's name"
                }
            ),
        );
        finding.evidence("operator", "keys of the runtime-required taint", keys.join(", "));
        if let Some(first) = marked.first() {
            let key = flavor.key("autoTaint_");
            finding.evidence(
                format!("node/{first}"),
                format!("annotation {key}… ending in {}", skyhook.name()),
                format!("on {}", some_of(&marked)),
            );
        }
        for tainting in &tainting {
            let title = format!("Before deleting {skyhook}, set autoTaintNewNodes of {tainting} to false");
            finding.edit(Grade::B1, title, tainting).caveat("new nodes are then no longer tainted");
        }
    }
}

/// Names of custom resources whose deletion removes the record of a taint: it removes every key that ends in `_NAME`.
pub fn names_taken_by(taint: &str) -> impl Iterator<Item = &str> {
    let after = taint.match_indices('_').map(|(at, _)| &taint[at + 1..]);
    std::iter::once(taint).chain(after)
}
