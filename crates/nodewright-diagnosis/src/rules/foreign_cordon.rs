use super::{Findings, Severity, Subject};
use crate::api::ApiFlavor;
use crate::cluster::Cluster;

rule! {
    /// The operator will release a cordon that someone else set.
    ///
    /// # What it means
    ///
    /// The node was cordoned by someone else, and a package with an interrupt is to run there. The
    /// operator treats the cordon as its own, and makes the node schedulable when the package is done.
    ///
    /// # What causes it
    ///
    /// An administrator, an autoscaler or another operator cordoned the node. The cordon itself does
    /// not stop this operator.
    ///
    /// # How to confirm
    ///
    /// The node has `spec.unschedulable: true` and no `cordon_NAME` annotation, and a package on it still has to run
    /// its interrupt.
    ///
    /// # How to fix
    ///
    /// Ignore the node if it must stay cordoned, or cordon it again afterwards.
    ///
    /// # Affected versions
    ///
    /// Up to v0.19.1; from v0.20.0 on a foreign cordon is kept.
    SKY406 "foreign-cordon" Warning needs Skyhooks Nodes, also Operator
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    if !crate::model::profile::removes_foreign_cordons(cluster) {
        return;
    }
    for drain in findings.model().drains().into_iter().filter(|d| !d.ignored) {
        let node = drain.node;
        let own = ApiFlavor::ALL.iter().any(|flavor| {
            let keys = node.keys(*flavor);
            keys.runtime_required_cordon || keys.skyhooks.values().any(|on| on.cordon)
        });
        if node.cordoned() != Some(true) || own {
            continue;
        }
        let finding = findings.report(
            Subject::skyhook_on_node(drain.skyhook, node).package(drain.package),
            format!(
                "the node was cordoned by someone else, and will be uncordoned when the interrupt of package {} is \
                 done",
                drain.package
            ),
        );
        if !drain.begun {
            finding.severity(Severity::Info);
        }
        finding
            .evidence(node, "spec.unschedulable", "true")
            .evidence(node, "cordon annotations", "none")
            .ignore_nodes(
                cluster,
                drain.skyhook,
                &[&node.name],
                "If the node must stay cordoned, make the operator ignore it",
            );
    }
}
