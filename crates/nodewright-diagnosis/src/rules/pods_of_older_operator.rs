use super::{Findings, Grade, Subject};
use crate::api::{Executor, State};
use crate::cluster::{Certainty, Cluster};

rule! {
    /// A pod of the older operator still runs alongside the newer one.
    ///
    /// # What it means
    ///
    /// The newer operator runs Jobs and ignores bare pods that the older operator left behind. Such a pod
    /// continues its stage, so two pods may modify one host, or one works for a deleted custom resource.
    ///
    /// # What causes it
    ///
    /// The operator was replaced while a stage ran, or while pods were left under a custom resource
    /// that was paused and has been resumed since.
    ///
    /// # How to confirm
    ///
    /// A pod has the label with the older prefix and the custom resource's name, no Job owns it,
    /// and it has not ended.
    ///
    /// # How to fix
    ///
    /// Wait until the pod has ended, or delete it. If a Job runs on the same node, pause first.
    ///
    /// # Affected versions
    ///
    /// Operators v0.18.0 and later. While the operator waits for a rollout of the older one (SKY601),
    /// nothing runs alongside it; for a paused custom resource, SKY604 reports this.
    SKY703 "pods-of-older-operator" Error needs Skyhooks Pods, also Legacy Jobs
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let (new, old) = (cluster.flavor(), cluster.flavor().other());
    let absence = cluster.skyhooks_absence();
    if new.executor() != Executor::Job || absence == Certainty::Unknown {
        return;
    }
    // While the operator waits for the older objects, nothing runs alongside these pods.
    if cluster.migration().holding().next().is_some() {
        return;
    }
    let package_runs = findings.package_runs();
    let bare_runs = cluster.package_runs_of(old);
    for package_run in bare_runs.iter().filter(|run| run.bare() && run.alive()) {
        let name = package_run.skyhook.as_str();
        let skyhook = cluster.skyhook(name);
        if skyhook.is_some_and(|s| !s.is_active()) || (skyhook.is_none() && absence == Certainty::Presumed) {
            continue;
        }
        let concurrent_run = package_runs.of_skyhook_on(name, package_run.node).find(|run| run.alive());
        let of_stage = match package_run.stage.as_str() {
            "" => String::new(),
            stage => format!("stage {stage} of "),
        };
        let what = format!(
            "the older operator's pod for {of_stage}package {} is still running",
            package_run.package
        );
        let message = match (skyhook, concurrent_run) {
            (None, _) => format!("{what}, but {name} is gone"),
            (Some(_), Some(_)) => format!("{what} alongside a job of the newer operator"),
            (Some(_), None) => format!("{what}; a job may be started alongside it"),
        };
        let subject = Subject::package_run(package_run);
        let finding = findings.report(subject, message);
        finding.warning_if(concurrent_run.is_none());
        finding.since(package_run.created()).evidence(
            package_run,
            "label",
            format!("{}={name}", old.key("name")),
        );
        if let Some(concurrent_run) = concurrent_run {
            finding.evidence(concurrent_run, "state", State::InProgress.to_string());
        }
        if let Some(pod) = package_run.pods.first() {
            let namespace = package_run.namespace();
            finding
                .describe_pod("See what the pod is doing, and wait until it ends", pod)
                .kubectl(Grade::B2, "Or delete the pod", ["delete", "pod", "-n", namespace, pod.name()])
                .caveat("the script is killed, which may leave its work on the host unfinished");
        }
    }
}
