use super::{Findings, Severity, Subject};
use crate::cluster::{Cluster, Pod};

rule! {
    /// The kubelet evicts the pods of a package.
    ///
    /// # What it means
    ///
    /// The node is short of disk space or memory, and the kubelet evicts package pods. The Job starts another pod, without
    /// counting the evicted one as a failed attempt, and the script starts from the beginning each time: the stage may
    /// never end, and no package is shown as failing.
    ///
    /// # What causes it
    ///
    /// Images, logs or files of the package fill the disk of the node, or pods use more memory than the node has.
    ///
    /// # How to confirm
    ///
    /// Pods of the package in phase `Failed` with the reason `Evicted`, while its Job still runs. The node's
    /// conditions `DiskPressure` and `MemoryPressure` are only true for as long as the shortage lasts.
    ///
    /// # How to fix
    ///
    /// Free space on the node. The Job continues by itself.
    ///
    /// # Since
    ///
    /// Operators v0.18.0 and later. Up to v0.17 an evicted pod blocks its stage, which is another finding.
    SKY413 "package-pods-evicted" Warning needs Skyhooks Pods Jobs, also Nodes,
        blocks Install Uninstall, retried true
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let package_runs = findings.package_runs();
    for package_run in package_runs.all() {
        if package_run.job.is_none() || package_run.finished() {
            continue;
        }
        let evicted: Vec<&Pod> = package_run.pods.iter().copied().filter(|pod| pod.evicted()).collect();
        let Some(newest) = evicted.first() else {
            continue;
        };
        let finding = findings.report(
            Subject::package_run(package_run),
            format!(
                "the kubelet evicts the pods for stage {} of package {}: {}",
                package_run.stage,
                package_run.package,
                eviction_cause(&newest.status.message)
            ),
        );
        finding
            .severity(Severity::Warning)
            .mark_transient()
            .since(evicted.iter().filter_map(|pod| pod.metadata.creation_timestamp).min())
            .evidence(package_run, "evicted pods", evicted.len())
            .evidence(newest, "status.message", &newest.status.message);
        if let Some(node) = cluster.node(package_run.node) {
            let pressure = node.conditions().iter();
            let pressure = pressure.filter(|c| c.kind.ends_with("Pressure"));
            for condition in pressure.filter(|c| c.is_true()) {
                finding.evidence(node, format!("condition {}", condition.kind), "True");
            }
        }
        finding.describe_node(
            "See which resource the node is short of, and free some; the job continues automatically",
            package_run.node,
        );
    }
}

/// The first sentence of the kubelet's message: `The node was low on resource: ephemeral-storage`.
pub(super) fn eviction_cause(message: &str) -> &str {
    let first = message.split(". ").next().unwrap_or_default();
    match first.trim_end_matches('.') {
        "" => "the node is short of a resource",
        cause => cause,
    }
}
