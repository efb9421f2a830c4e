use super::{Findings, Grade, Severity, Subject};
use crate::api::{Executor, Stage, State};
use crate::cluster::{Cluster, Execution};

rule! {
    /// A pod that has ended blocks its stage.
    ///
    /// # What it means
    ///
    /// The pod of a stage has ended without the stage being recorded as done. The operator only
    /// looks whether such a pod exists, not how it is, so it never makes another one. Interrupts of
    /// other custom resources on the node wait for it, too.
    ///
    /// # How it comes about
    ///
    /// The kubelet turned the pod away (`OutOfcpu`, `OutOfpods`, `NodeAffinity`), it was evicted, or
    /// the node shut down.
    ///
    /// # How to confirm
    ///
    /// A package's pod in phase `Failed` or `Succeeded`, not being deleted, and an entry that is not
    /// complete.
    ///
    /// # How to fix
    ///
    /// Remove the cause, such as a full node, then delete the pod: the operator makes it again. At
    /// stage `post-interrupt` the package starts over from `apply`.
    ///
    /// # Since
    ///
    /// Operators up to v0.17, which run bare pods.
    SKY204 "ended-pod-blocks-stage" Error needs Skyhooks Nodes Pods
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    if cluster.generation().executor() != Executor::Pod {
        return;
    }
    let executions = cluster.executions();
    for execution in executions.all() {
        let [pod] = execution.pods.as_slice() else {
            continue;
        };
        let ended = pod.ended() && !pod.metadata.deleting() && !execution.condemned;
        if !ended || !is_due(cluster, execution) {
            continue;
        }
        let Some(skyhook) = cluster.skyhook(&execution.skyhook) else {
            continue;
        };
        let reason = match pod.status.reason.as_str() {
            "" => pod.status.phase.clone(),
            reason => format!("{}, {reason}", pod.status.phase),
        };
        let finding = findings.report(
            Subject::node(execution.node, Some(&execution.skyhook)).package(&execution.package),
            format!(
                "the pod for stage {} of package {} has ended ({reason}) and blocks a new one",
                execution.stage, execution.package
            ),
        );
        if !skyhook.runs() {
            finding.severity(Severity::Warning);
        }
        finding
            .since(execution.created())
            .evidence(execution.reference(), "status.phase", reason);
        if !pod.status.message.is_empty() {
            finding.evidence(execution.reference(), "status.message", &pod.status.message);
        }
        finding
            .kubectl(
                Grade::B0,
                "See why it ended, and remove the cause",
                ["describe", "pod", "-n", execution.namespace(), pod.name()],
            )
            .kubectl(
                Grade::B2,
                "Delete the pod; the operator makes it again",
                ["delete", "pod", "-n", execution.namespace(), pod.name()],
            );
        if execution.stage == Stage::PostInterrupt {
            finding.caveat("the package starts over from apply, its interrupt included");
        }
    }
}

/// Whether the node state says that the stage of this pod is yet to be done.
fn is_due(cluster: &Cluster, execution: &Execution<'_>) -> bool {
    let Some(node) = cluster.node(execution.node) else {
        return false;
    };
    let key = format!("{}|{}", execution.package, execution.version);
    cluster
        .on_node(node, &execution.skyhook)
        .and_then(|on| on.entry(&key))
        .is_some_and(|e| e.stage == execution.stage && e.state != State::Complete)
}
