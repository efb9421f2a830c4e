use super::{Findings, Subject};
use crate::cluster::Cluster;
use crate::text::count;

rule! {
    /// A custom resource is almost too large to be stored.
    ///
    /// # What it means
    ///
    /// The status of a custom resource repeats the state of every package on every node. Once the object is
    /// larger than the limit of etcd, 1.5 MiB by default, the operator can no longer write the status: each
    /// reconcile ends with that error, and nothing progresses.
    ///
    /// # What causes it
    ///
    /// Many nodes times many packages in one custom resource: a thousand nodes with ten packages are
    /// about 1.7 MiB.
    ///
    /// # How to confirm
    ///
    /// Check the size of the object as JSON, and the number of nodes in its status.
    ///
    /// # How to fix
    ///
    /// Split it into several custom resources, by node selector or by package.
    ///
    /// # Affected versions
    ///
    /// All operators.
    ///
    /// # Severity
    ///
    /// A warning from 80% of the limit on.
    SKY506 "status-too-large" Error needs Skyhooks
}

/// etcd's default limit for the size of a request, in bytes.
pub const LIMIT: usize = 1536 * 1024;

fn detect(cluster: &Cluster, findings: &mut Findings) {
    for skyhook in &cluster.skyhooks {
        let size = skyhook.size;
        if size < LIMIT / 5 * 4 {
            continue;
        }
        let finding = findings.report(
            Subject::skyhook(skyhook),
            format!(
                "{skyhook} is at {}% of etcd's default object size limit (1.5 MiB); above the limit, the operator cannot write \
                 the status",
                size * 100 / LIMIT
            ),
        );
        finding.warning_if(size < LIMIT);
        let nodes = skyhook.status.node_state.nodes();
        finding
            .evidence(skyhook, "size as JSON", format!("{} KiB", size / 1024))
            .evidence(skyhook, "nodes in status.nodeState", count(nodes))
            .evidence(skyhook, "packages in the spec", skyhook.spec.packages.len())
            .show_manifest("Inspect the custom resource, and plan how to split it", skyhook);
    }
}
