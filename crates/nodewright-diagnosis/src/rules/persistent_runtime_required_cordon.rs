use super::{Findings, Subject};
use crate::cluster::Cluster;

rule! {
    /// A node is cordoned until someone outside the operator releases it.
    ///
    /// # What it means
    ///
    /// The operator cordoned the node when it removed the runtime-required taint, and leaves its release to
    /// someone else, such as a validation that runs afterwards. This is a setting, not a fault. Neither a
    /// reset nor the deletion of the custom resource releases the node.
    ///
    /// # What causes it
    ///
    /// `runtimeRequiredCordonAfter` is set on a custom resource.
    ///
    /// # How to confirm
    ///
    /// `spec.unschedulable: true` and the annotation `runtimeRequiredCordon`.
    ///
    /// # How to fix
    ///
    /// If nothing else will release the node, release it with `leftovers --clean --node NODE --runtime-required`.
    ///
    /// # Affected versions
    ///
    /// Operators v0.19.0 and later.
    SKY408 "persistent-runtime-required-cordon" Info needs Nodes,
        blocks Workloads
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let flavor = cluster.flavor();
    for node in &cluster.nodes {
        if node.cordoned() != Some(true) || !node.keys(flavor).runtime_required_cordon {
            continue;
        }
        findings
            .report(
                Subject::node(&node.name, None),
                "the node stays cordoned because of runtimeRequiredCordonAfter, until someone outside the operator releases the cordon",
            )
            .evidence(node, "spec.unschedulable", "true")
            .evidence(node, flavor.key("runtimeRequiredCordon"), "set")
            .remedy(
                "Release the cordon if no one else will",
                ["leftovers", "--clean", "--node", &node.name, "--runtime-required"],
            )
            .caveat("pods may be scheduled on the node immediately");
    }
}
