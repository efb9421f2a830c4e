use super::{Findings, Grade, Subject};
use crate::cluster::Cluster;

rule! {
    /// A custom resource with `serial: true` never gets anywhere.
    ///
    /// # What it means
    ///
    /// With `serial` an older operator ends its pass as soon as it has started a pod, before it has
    /// written down on the node what it started. The next pass finds a pod that nothing records,
    /// takes it for a stray, removes it, and starts over. Pods come and go, the node state stays as
    /// it is, and the status stays `waiting`.
    ///
    /// # How it comes about
    ///
    /// `spec.serial: true`, meant to work on one package at a time.
    ///
    /// # How to confirm
    ///
    /// `spec.serial` is true, the operator is older than v0.18, and nodes have work left. Watched for
    /// a while, pods of the custom resource are replaced every few seconds, and no node state changes.
    ///
    /// # How to fix
    ///
    /// Set `spec.serial` to false. `interruptionBudget` or a deployment policy says how many nodes
    /// are worked on at once. Newer operators do one package a node and pass with `serial`.
    ///
    /// # Since
    ///
    /// Up to v0.17.
    SKY214 "serial-loses-state" Error needs Skyhooks Nodes,
        blocks Install Uninstall
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    if !cluster.operator_before(0, 18) {
        return;
    }
    for skyhook in cluster.skyhooks.items().iter().filter(|s| s.spec.serial) {
        let open = cluster.open_nodes(skyhook);
        if open.is_empty() {
            continue;
        }
        let finding = findings.report(
            Subject::skyhook(skyhook),
            format!(
                "{} makes no progress: with spec.serial this operator loses the state of what it started",
                skyhook.reference()
            ),
        );
        finding
            .evidence(skyhook.reference(), "spec.serial", "true")
            .evidence("nodes", "with work left", open.len().to_string())
            .kubectl(
                Grade::B3,
                "Turn serial off",
                [
                    "patch",
                    &cluster.flavor().resource(),
                    skyhook.name(),
                    "--type=merge",
                    "-p",
                    r#"{"spec":{"serial":false}}"#,
                ],
            )
            .caveat("its work begins on the nodes, with the interrupts that packages have");
    }
}
