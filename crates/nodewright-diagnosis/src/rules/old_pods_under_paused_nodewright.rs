use super::support::evidence::some_of;
use super::{Findings, Grade, Subject};
use crate::cluster::Cluster;
use crate::text::plural;

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
    let package_runs = cluster.package_runs_of(old);
    for skyhook in cluster.skyhooks.iter().filter(|s| !s.is_active() && s.mirrored_from().is_some()) {
        let own = package_runs.iter().filter(|run| run.skyhook == skyhook.name());
        let alive: Vec<String> =
            own.flat_map(|run| &run.pods).filter(|p| !p.ended()).map(|p| p.path()).collect();
        if alive.is_empty() {
            continue;
        }
        let (state, verb) = if skyhook.paused() { ("paused", "resume") } else { ("disabled", "enable") };
        let selector = format!("{}={}", old.key("name"), skyhook.name());
        findings
            .report(
                Subject::skyhook(skyhook),
                format!(
                    "{} of the older operator {} still running: if {skyhook} is {verb}d, the newer operator \
                     starts jobs for the same nodes",
                    plural(alive.len(), "pod"),
                    if alive.len() == 1 { "is" } else { "are" }
                ),
            )
            .evidence("pods", format!("with {selector}"), some_of(&alive))
            .evidence(skyhook, "state", state)
            .kubectl(
                Grade::B0,
                format!("Wait until the pods end before you {verb} the custom resource"),
                ["get", "pods", "-A", "-l", &selector],
            );
    }
}
