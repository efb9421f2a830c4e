use jiff::SignedDuration;

use super::remedies::usual::CHANGES_REMAIN;
use super::{Findings, Subject};
use crate::cluster::Cluster;
use crate::cluster::node::READY;
use crate::cluster::placement::Pending;

rule! {
    /// A node does not start the pod of a package.
    ///
    /// # What it means
    ///
    /// The pod is assigned to the node, but the kubelet there has not acknowledged it. No
    /// timeout of the operator covers this: the node state continues to show `in_progress`.
    ///
    /// # What causes it
    ///
    /// The node is down or disconnected, or its kubelet hangs. Package pods bypass the scheduler, so a
    /// lack of resources is not the cause.
    ///
    /// # How to confirm
    ///
    /// The pod is pending with a node name and without a start time or container statuses.
    /// Nothing is reported for the first ten minutes, unless the node has not been ready for ten minutes. On a node that
    /// is ready, this is then a warning until half an hour after the pod was created, and an error from then on.
    ///
    /// # How to fix
    ///
    /// Repair the node; the pod starts by itself. Ignore the node if it will not come back soon. A deletion waits for
    /// ignored nodes, too: if the node will never come back, reset the package there.
    ///
    /// # Affected versions
    ///
    /// All operators.
    SKY205 "pod-not-started" Error needs Nodes Pods, also Skyhooks Jobs,
        blocks Install Uninstall
}

/// Time within which a healthy kubelet starts a pod.
const HOPELESS: SignedDuration = SignedDuration::from_mins(30);

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let package_runs = findings.package_runs();
    for package_run in package_runs.all().iter().filter(|run| run.alive()) {
        let Some(pod) = package_run.unacknowledged() else {
            continue;
        };
        let Some(node) = cluster.node(package_run.node) else {
            continue;
        };
        // During a reboot the node is not ready for a while, too.
        let down = match node.condition(READY) {
            None => true,
            Some(ready) => !ready.is_true() && cluster.is_stale(ready.last_transition_time),
        };
        if !down && !cluster.is_stale(pod.metadata.creation_timestamp) {
            continue;
        }
        let finding = findings.report(
            Subject::package_run(package_run),
            format!(
                "the node{} does not start the pod for stage {} of package {}",
                if down { " is not ready and" } else { "" },
                package_run.stage,
                package_run.package
            ),
        );
        let age = pod.metadata.creation_timestamp.map(|at| cluster.taken_at.duration_since(at));
        finding
            .warning_if(!down && age.is_none_or(|age| age < HOPELESS))
            .since(pod.metadata.creation_timestamp)
            .evidence(pod, "status.startTime", "absent")
            .evidence(
                node,
                "condition Ready",
                match (node.ready(), node.kubelet_message()) {
                    (Some(true), _) => "True".to_owned(),
                    (_, None) => "not True".to_owned(),
                    (_, Some(message)) => format!("not True (kubelet: {message})"),
                },
            )
            .describe_node("See the state of the node, and repair it", &node.name);
        // A deletion waits for every node with a pending uninstall, even if the node is ignored.
        let skyhook = cluster.skyhook(&package_run.skyhook);
        let pending =
            skyhook.filter(|s| s.deleting()).map_or_else(Vec::new, |s| cluster.pending_uninstalls(s));
        let here = |p: &&Pending<'_>| p.node.name == node.name && p.name == package_run.package;
        if let Some(pending) = pending.iter().find(here) {
            finding
                .skip_uninstall(&package_run.skyhook, &node.name, pending.entry)
                .caveat(format!("{CHANGES_REMAIN}; use only for a node that will not come back"));
            continue;
        }
        if node.ignored(cluster.flavor()) {
            continue;
        }
        if let Some(skyhook) = skyhook {
            finding.ignore_nodes(cluster, skyhook, &[&node.name], "Or ignore the node until it is back");
        }
    }
}
