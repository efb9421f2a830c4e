use jiff::SignedDuration;

use super::{Findings, Grade, Subject};
use crate::cluster::{Certainty, Cluster};

rule! {
    /// The pod of a package is stuck terminating.
    ///
    /// # What it means
    ///
    /// The pod should have terminated some time ago but still exists. Its name cannot be reused, so the
    /// operator cannot start the stage again, and interrupts on the node wait for it.
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
    /// # Since
    ///
    /// All operators. On a node that is ready it is a warning at first, and an error after half an hour.
    SKY211 "pod-stuck-terminating" Error needs Nodes Pods, also Jobs,
        blocks Install Uninstall
}

const HOPELESS: SignedDuration = SignedDuration::from_mins(30);

fn detect(cluster: &Cluster, findings: &mut Findings) {
    if cluster.nodes.absence() == Certainty::Unknown {
        return;
    }
    for package_run in cluster.package_runs().all() {
        // Its pods are reported with the deleted Job, which waits for them (SKY217).
        if package_run.job.is_some_and(|j| j.metadata.deleting()) {
            continue;
        }
        let overdue =
            |pod: &&&crate::cluster::Pod| cluster.is_stale(pod.metadata.deletion_timestamp);
        let Some(pod) = package_run.pods.iter().find(overdue) else {
            continue;
        };
        let node = cluster.node(package_run.node);
        let why = match node {
            Some(node) if node.ready() => None,
            Some(_) => Some("is not ready"),
            None if cluster.nodes.absence() == Certainty::Proven => Some("is gone"),
            None => None,
        };
        let finding = findings.report(
            Subject::package_run(package_run),
            match why {
                Some(why) => format!(
                    "the pod for stage {} of package {} cannot terminate because its node {why}; the stage cannot restart until the pod's name is free",
                    package_run.stage, package_run.package
                ),
                None => format!(
                    "the pod for stage {} of package {} is stuck terminating; the stage cannot restart until the pod's name is free",
                    package_run.stage, package_run.package
                ),
            },
        );
        // A kubelet that is well kills what does not stop in time: after so long it will not any more.
        let overdue = pod.metadata.deletion_timestamp;
        let overdue = overdue.map(|at| cluster.taken_at.duration_since(at));
        let hopeless = node.is_some() && overdue.is_some_and(|time| time >= HOPELESS);
        finding.warning_if(why.is_none() && !hopeless);
        let reference = pod.reference();
        finding.since(pod.metadata.deletion_timestamp).evidence(
            &reference,
            "deletionTimestamp",
            pod.metadata
                .deletion_timestamp
                .map(|at| at.to_string())
                .unwrap_or_default(),
        );
        if let Some(why) = why {
            finding.evidence(format!("node/{}", package_run.node), "node", why);
        }
        finding
            .finalizers(&reference, &pod.metadata)
            .describe_pod("See why the pod is stuck terminating", pod)
            .force_delete(
                Grade::B2,
                "Force-delete the pod if the node is gone for good",
                pod,
            )
            .caveat(
                "if the node is still alive, the script may run there alongside its replacement",
            );
    }
}
