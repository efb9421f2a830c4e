use super::evidence::describe;
use super::{Findings, Grade, Subject};
use crate::cluster::Cluster;
use crate::cluster::pod::TroubleKind;

rule! {
    /// A container of a package cannot be created on a node.
    ///
    /// # What it means
    ///
    /// The image is there, but the container cannot be made: something that its definition names is
    /// missing, or the runtime refuses it. The operator does not look at this: the node state goes
    /// on saying `in_progress`.
    ///
    /// # How it comes about
    ///
    /// The package's environment refers to a Secret or ConfigMap that does not exist in the
    /// operator's namespace, or lacks the key.
    ///
    /// # How to confirm
    ///
    /// A container of the package's pod waits with `CreateContainerConfigError`,
    /// `CreateContainerError` or `RunContainerError`; its message names what is missing.
    ///
    /// # How to fix
    ///
    /// Create what is missing: the kubelet tries again by itself. Or correct the package's
    /// environment, and the operator replaces the pod.
    ///
    /// # Since
    ///
    /// All operators.
    SKY203 "container-not-created" Error needs Pods Jobs
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let executions = cluster.executions();
    for execution in executions.all().iter().filter(|e| e.alive()) {
        let Some((pod, trouble)) = execution.trouble() else {
            continue;
        };
        if trouble.kind != TroubleKind::Config || pod.ended() || pod.metadata.deleting() {
            continue;
        }
        let finding = findings.report(
            Subject::node(execution.node, Some(&execution.skyhook)).package(&execution.package),
            format!(
                "container {} of package {} cannot be created ({}), so stage {} does not go on",
                trouble.container, execution.package, trouble.reason, execution.stage
            ),
        );
        let pod_reference = format!("pod/{}", pod.name());
        finding.since(pod.metadata.creation_timestamp).evidence(
            &pod_reference,
            format!("container {}", trouble.container),
            describe(&trouble),
        );
        if !trouble.message.is_empty() {
            finding.evidence(&pod_reference, "message", trouble.message);
        }
        finding
            .kubectl(
                Grade::B0,
                "See what is missing, and create it",
                ["describe", "pod", "-n", execution.namespace(), pod.name()],
            )
            .kubectl(
                Grade::B2,
                "Or correct the package in the spec",
                ["edit", &cluster.generation().resource(), &execution.skyhook],
            )
            .caveat("the operator then replaces the pod on every node");
    }
}
