use jiff::SignedDuration;

use super::support::overdue::succeeded;
use super::{Blocks, Findings, Grade, Subject};
use crate::cluster::{Certainty, Cluster, PackageRun, Pod};

rule! {
    /// The pod of a package is stuck terminating.
    ///
    /// # What it means
    ///
    /// The pod should have terminated some time ago but still exists. Its name cannot be reused, so the
    /// operator cannot start the stage again, and interrupts on the node wait for it. Up to v0.17, a pod that
    /// the operator itself deletes, because the spec or the node state has changed, ends every reconcile
    /// until it is gone: no custom resource progresses.
    ///
    /// # What causes it
    ///
    /// The node is gone or disconnected, so no kubelet confirms the termination; or a finalizer blocks the
    /// pod; or the script ignores the signal to stop.
    ///
    /// # How to confirm
    ///
    /// The pod's deletion timestamp, which includes the grace period, lies well in the past.
    ///
    /// # How to fix
    ///
    /// Repair the node. If the node is gone permanently, force-delete the pod.
    ///
    /// # Affected versions
    ///
    /// All operators.
    ///
    /// # Severity
    ///
    /// On a node that is ready, a warning at first, and an error after half an hour, or at once if it ends
    /// every reconcile.
    SKY211 "pod-stuck-terminating" Error needs Nodes Pods, also Jobs Operator,
        blocks Install Uninstall
}

const HOPELESS: SignedDuration = SignedDuration::from_mins(30);

fn detect(cluster: &Cluster, findings: &mut Findings) {
    if cluster.nodes.absence() == Certainty::Unknown {
        return;
    }
    for package_run in findings.package_runs().all() {
        // SKY217 reports the pods of a Job that is being deleted.
        if package_run.job.is_some_and(|j| j.metadata.deleting()) {
            continue;
        }
        let ends_reconciles = ends_reconciles(cluster, package_run);
        // A succeeded pod does not block its stage, and a Job replaces a failed pod.
        let is_over = |pod: &&&Pod| {
            !ends_reconciles
                && (pod.status.phase == "Succeeded"
                    || succeeded(pod)
                    || package_run.job.is_some() && pod.status.phase == "Failed")
        };
        let overdue = |pod: &&&Pod| cluster.is_stale(pod.metadata.deletion_timestamp) && !is_over(pod);
        let Some(pod) = package_run.pods.iter().find(overdue) else {
            continue;
        };
        let node = cluster.node(package_run.node);
        let why = match node {
            Some(node) if node.ready() == Some(true) => None,
            Some(_) => Some("is not ready"),
            None if cluster.nodes.absence() == Certainty::Proven => Some("is gone"),
            None => None,
        };
        let is_stuck = why.map_or("is stuck terminating".to_owned(), |why| {
            format!("cannot terminate because its node {why}")
        });
        let until = if ends_reconciles {
            "until the pod is gone, every operator reconcile ends at this node"
        } else if package_run.job.is_some() {
            "its job starts no other attempt until the pod has ended"
        } else {
            "the stage cannot restart until the pod's name is free"
        };
        let finding = findings.report(
            Subject::package_run(package_run),
            format!(
                "the pod for stage {} of package {} {is_stuck}; {until}",
                package_run.stage, package_run.package
            ),
        );
        // A healthy kubelet kills containers that do not stop in time; after `HOPELESS` it will not do so any
        // more.
        let deleted = pod.metadata.deletion_timestamp;
        let overdue = deleted.map(|at| cluster.taken_at.duration_since(at));
        let hopeless = node.is_some() && overdue.is_some_and(|time| time >= HOPELESS);
        if ends_reconciles {
            finding.blocks_only(&[Blocks::Install, Blocks::Uninstall, Blocks::Reconcile]);
        }
        finding.warning_if(!ends_reconciles && why.is_none() && !hopeless);
        finding.since(deleted).evidence(pod, "deletionTimestamp", deleted.unwrap_or_default());
        if let Some(why) = why {
            finding.evidence(format!("node/{}", package_run.node), "node", why);
        }
        // The deletion of the operator's namespace also deletes its pods.
        let mut namespaces = cluster.installation.namespaces.iter();
        let deleted = namespaces.any(|n| n.metadata.deleting() && n.metadata.name == pod.namespace());
        let causes: &[&str] = if deleted { &["SKY409", "SKY501"] } else { &["SKY409"] };
        finding.effect_of(causes).finalizers(pod, &pod.metadata);
        // Kubernetes removes its own finalizer once the pod has ended, and a forced deletion ends it.
        if pod.is_held() {
            finding
                .describe_pod("See who set the finalizers of the pod, and repair that", pod)
                .caveat("a forced deletion does not remove finalizers");
            continue;
        }
        finding
            .describe_pod("See why the pod is stuck terminating", pod)
            .force_delete(Grade::B2, "Force-delete the pod if the node is permanently gone", pod)
            .caveat("if the node is still alive, the script may run there alongside its replacement");
    }
}

/// Whether the operator waits for the pod's end before it does anything else (`ValidateRunningPackages`): it
/// checks the pods of custom resources that are not paused, on selected nodes.
fn ends_reconciles(cluster: &Cluster, package_run: &PackageRun<'_>) -> bool {
    let skyhook = cluster.skyhook(&package_run.skyhook);
    package_run.invalidated
        && crate::model::profile::replaces_changed_pods(cluster)
        && skyhook
            .filter(|s| !s.paused())
            .is_some_and(|skyhook| cluster.selected(skyhook).any(|node| node.name == *package_run.node))
}
