use super::{Findings, Grade, Subject};
use crate::cluster::Cluster;

rule! {
    /// A custom resource is named like the runtime-required taint.
    ///
    /// # What it means
    ///
    /// When a custom resource is deleted the operator removes every key on the nodes that ends in
    /// `_NAME`. If NAME is also the key of the runtime-required taint, this takes the record of
    /// which nodes the operator tainted (`autoTaint_KEY`) with it.
    ///
    /// # How it comes about
    ///
    /// Both names are free to choose.
    ///
    /// # How to confirm
    ///
    /// The name equals the key in the operator's `RUNTIME_REQUIRED_TAINT`, or nodes carry an
    /// `autoTaint_NAME` annotation.
    ///
    /// # How to fix
    ///
    /// Before deleting the custom resource, set `autoTaintNewNodes: false` on it, or give it
    /// another name. The taint itself is not touched.
    ///
    /// # Since
    ///
    /// Operators that clean up in the finalizer (v0.16.0).
    SKY106 "name-equals-taint-key" Warning needs Skyhooks Nodes, also Operator
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let generation = cluster.generation();
    let taints = cluster.runtime_required_taints();
    let keys: Vec<&str> = taints.iter().map(|(key, _)| key.as_str()).collect();
    for skyhook in cluster.skyhooks.items() {
        let nodes = cluster.nodes.items().iter();
        let marked: Vec<&str> = nodes
            .filter(|n| {
                n.keys(generation)
                    .auto_taints
                    .iter()
                    .any(|taint| taint == skyhook.name())
            })
            .map(|n| n.name.as_str())
            .collect();
        if !keys.contains(&skyhook.name()) && marked.is_empty() {
            continue;
        }
        let finding = findings.report(
            Subject::skyhook(skyhook),
            format!(
                "deleting {} removes the record of which nodes were tainted: it is named like the \
                 runtime-required taint",
                skyhook.reference()
            ),
        );
        finding.evidence(
            "operator",
            "keys of the runtime-required taint",
            keys.join(", "),
        );
        if let Some(first) = marked.first() {
            let key = generation.key(&format!("autoTaint_{}", skyhook.name()));
            finding.evidence(
                format!("node/{first}"),
                key,
                format!("on {} nodes", marked.len()),
            );
        }
        finding
            .kubectl(
                Grade::B1,
                "Before deleting it, turn off auto-tainting",
                ["edit", &generation.resource(), skyhook.name()],
            )
            .caveat("new nodes are then no longer tainted");
    }
}
