use super::evidence::{describe, warn_while_young};
use super::{Findings, Grade, Subject};
use crate::cluster::Cluster;
use crate::cluster::pod::TroubleKind;

rule! {
    /// The image of a package cannot be pulled on a node.
    ///
    /// # What it means
    ///
    /// The container runtime cannot get the image. The operator does not look at this: the node
    /// state goes on saying `in_progress`.
    ///
    /// # How it comes about
    ///
    /// A wrong image or version, a missing pull secret, a registry that is down or out of reach. A
    /// node that has just run its interrupt can fail here too, when the image for the closing
    /// container is not cached.
    ///
    /// # How to confirm
    ///
    /// A container of the package's pod waits with `ErrImagePull`, `ImagePullBackOff` or
    /// `InvalidImageName`. `ErrImagePull` on a pod younger than ten minutes is a warning: the first
    /// attempt failed, and the next may succeed.
    ///
    /// # How to fix
    ///
    /// Correct the image, version or pull secret; the operator then replaces the pod. If the
    /// registry was down the kubelet tries again by itself.
    ///
    /// # Since
    ///
    /// All operators (upstream issue 306).
    SKY202 "image-not-pulled" Error needs Pods Jobs,
        blocks Install Uninstall, retried true
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let executions = cluster.executions();
    for execution in executions.all().iter().filter(|e| e.alive()) {
        let Some((pod, trouble)) = execution.trouble() else {
            continue;
        };
        if trouble.kind != TroubleKind::Image || pod.ended() || pod.metadata.deleting() {
            continue;
        }
        let finding = findings.report(
            Subject::node(execution.node, Some(&execution.skyhook)).package(&execution.package),
            format!(
                "image {} of package {} cannot be pulled, so stage {} does not start",
                trouble.image, execution.package, execution.stage
            ),
        );
        // The very first attempts; the kubelet has not yet begun to hold back.
        if matches!(trouble.reason, "ErrImagePull" | "RegistryUnavailable") {
            warn_while_young(finding, cluster, pod);
        }
        finding
            .failing_since(pod.metadata.creation_timestamp)
            .since(pod.metadata.creation_timestamp)
            .evidence(
                format!("pod/{}", pod.name()),
                format!("container {}", trouble.container),
                describe(&trouble),
            );
        if !trouble.message.is_empty() {
            finding.evidence(format!("pod/{}", pod.name()), "message", trouble.message);
        }
        finding
            .kubectl(
                Grade::B0,
                "See what the registry answers",
                ["describe", "pod", "-n", execution.namespace(), pod.name()],
            )
            .kubectl(
                Grade::B2,
                "Correct the image or the version",
                ["edit", &cluster.generation().resource(), &execution.skyhook],
            )
            .caveat("the operator then replaces the pod on every node");
    }
}
