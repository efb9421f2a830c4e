use super::{Findings, Grade, Subject};
use crate::api::ApiFlavor;
use crate::cluster::Cluster;

rule! {
    /// A pod that looks like a package pod crashes the operator's reconcile.
    ///
    /// # What it means
    ///
    /// The pod has the label that marks package pods, but not the annotation that describes its package.
    /// Older operators expect the annotation, panic in every reconcile, and do nothing for this custom
    /// resource and those that come after it.
    ///
    /// # What causes it
    ///
    /// Labels were copied onto another pod or its template, by hand or by a tool.
    ///
    /// # How to confirm
    ///
    /// A pod in any namespace with the label `name` of a custom resource, on a node that it selects,
    /// and without the annotation `package`. The operator's log shows a recovered panic.
    ///
    /// # How to fix
    ///
    /// Remove the label from the pod, or delete the pod.
    ///
    /// # Affected versions
    ///
    /// Operators up to v0.17.
    SKY504 "pod-missing-package-annotation" Error needs Skyhooks Nodes Pods,
        blocks Reconcile
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let flavor = cluster.flavor();
    if flavor != ApiFlavor::Skyhook {
        return;
    }
    let (label, note) = (flavor.key("name"), flavor.key("package"));
    for pod in &cluster.pods {
        let meta = &pod.metadata;
        let Some(skyhook) = meta.labels.get(&label).and_then(|name| cluster.skyhook(name)) else {
            continue;
        };
        if meta.annotations.contains_key(&note) || skyhook.paused() {
            continue;
        }
        let selected = cluster.node(&pod.spec.node_name).is_some_and(|n| skyhook.selects(n));
        if !selected {
            continue;
        }
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        findings
            .report(
                Subject::node(&pod.spec.node_name, Some(skyhook.name())),
                format!(
                    "pod {} has the label of {skyhook} but no package annotation, which makes every reconcile of the operator fail",
                    pod.path()
                ),
            )
            .since(meta.creation_timestamp)
            .evidence(pod, &label, skyhook.name())
            .evidence(pod, format!("annotation {note}"), "absent")
            .kubectl(
                Grade::B1,
                "Remove the label",
                ["label", "pod", "-n", namespace, pod.name(), &format!("{label}-")],
            )
            .caveat("if a pod template has the label, such pods are created again");
    }
}
