use super::{Input, LintFindings};
use crate::api::Skyhook;

lint_rule! {
    /// Pods of a DaemonSet match the labels that forbid interrupts.
    ///
    /// # What it means
    ///
    /// An interrupt waits while such a pod is pending or running on the node. Pods of a DaemonSet run all the time, so
    /// the interrupt never starts, and the node stays cordoned.
    ///
    /// # How to fix
    ///
    /// Choose labels that only the workload has.
    SKY859 "non-interrupt-labels-on-daemon-sets" Warning
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for (manifest, skyhook) in input.skyhooks() {
        if skyhook.spec.pod_non_interrupt_labels.is_empty() {
            continue;
        }
        let found = in_manifests(input, skyhook).or_else(|| in_cluster(input, skyhook));
        if let Some(daemon_set) = found {
            let message = format!(
                "podNonInterruptLabels match pods of DaemonSet {daemon_set}, which always run: interrupts never start"
            );
            findings
                .report(manifest, &["spec", "podNonInterruptLabels"], message)
                .fix("Choose labels that only the workload has");
        }
    }
}

/// Name of a DaemonSet among the manifests whose pods match.
fn in_manifests(input: &Input<'_>, skyhook: &Skyhook) -> Option<String> {
    let selector = &skyhook.spec.pod_non_interrupt_labels;
    let found = input.others().filter(|m| m.kind == "DaemonSet").find(|m| {
        let labels = m.get(&["spec", "template", "metadata", "labels"]).cloned();
        let labels: Option<std::collections::BTreeMap<String, String>> =
            labels.and_then(|labels| serde_json::from_value(labels).ok());
        labels.is_some_and(|labels| selector.matches(&labels))
    });
    Some(found?.name.clone())
}

/// Name of the DaemonSet of a matching pod on a selected node.
fn in_cluster(input: &Input<'_>, skyhook: &Skyhook) -> Option<String> {
    let selector = &skyhook.spec.pod_non_interrupt_labels;
    let cluster = input.cluster?;
    cluster.workloads.iter().find_map(|pod| {
        let owner = pod.metadata.owner_references.iter().find(|owner| owner.kind == "DaemonSet")?;
        let node = cluster.node(&pod.spec.node_name)?;
        let waits = selector.matches(&pod.metadata.labels) && skyhook.selects(node);
        waits.then(|| owner.name.clone())
    })
}
