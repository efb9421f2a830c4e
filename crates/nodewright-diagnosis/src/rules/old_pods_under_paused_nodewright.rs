use std::collections::HashMap;

use super::support::evidence::some_of;
use super::{Findings, Grade, Subject};
use crate::cluster::Cluster;
use crate::view::plural;

rule! {
    /// Pods of the older operator still run for a paused or disabled NodeWright.
    ///
    /// # What it means
    ///
    /// The NodeWright was taken over while paused or disabled, and pods that the older operator started still
    /// exist. The newer operator does not know them. Once the NodeWright is resumed, a Job would run
    /// alongside such a pod and modify the same files on the host.
    ///
    /// # What causes it
    ///
    /// The operator was upgraded to v0.18 or later while the custom resource was paused or disabled
    /// and pods were running.
    ///
    /// # How to confirm
    ///
    /// Pods with the older label `name` that have not ended, and a paused or disabled NodeWright with the
    /// annotation `mirrored-from`.
    ///
    /// # How to fix
    ///
    /// Let the pods end, or delete them, before resuming or enabling the NodeWright.
    ///
    /// # Affected versions
    ///
    /// Operators v0.18.0 and later.
    SKY604 "old-pods-under-paused-nodewright" Warning needs Skyhooks Pods
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let (new, old) = (cluster.flavor(), cluster.flavor().other());
    if new.executor() != crate::api::Executor::Job {
        return;
    }
    let label = old.key("name");
    let mut alive: HashMap<&str, Vec<String>> = HashMap::new();
    for pod in cluster.pods.iter().filter(|p| !p.ended()) {
        if let Some(name) = pod.metadata.labels.get(&label) {
            alive.entry(name).or_default().push(pod.path());
        }
    }
    for skyhook in cluster.skyhooks.iter().filter(|s| !s.is_active()) {
        if skyhook.mirrored_from().is_none() {
            continue;
        }
        let Some(paths) = alive.get(skyhook.name()) else {
            continue;
        };
        let selector = format!("{label}={}", skyhook.name());
        findings
            .report(
                Subject::skyhook(skyhook),
                format!(
                    "{} of the older operator {} still running: if {skyhook} is {}, the newer operator \
                     starts jobs for the same nodes",
                    plural(paths.len(), "pod"),
                    if paths.len() == 1 { "is" } else { "are" },
                    if skyhook.paused() { "resumed" } else { "enabled" }
                ),
            )
            .evidence("pods", format!("with {selector}"), some_of(paths))
            .evidence(skyhook, "state", if skyhook.paused() { "paused" } else { "disabled" })
            .kubectl(
                Grade::B0,
                if skyhook.paused() {
                    "Wait until the pods end before you resume the custom resource"
                } else {
                    "Wait until the pods end before you enable the custom resource"
                },
                ["get", "pods", "-A", "-l", &selector],
            );
    }
}
