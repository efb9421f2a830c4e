use jiff::Timestamp;

use super::{Findings, Grade, Subject};
use crate::cluster::pod::ContainerStatus;
use crate::cluster::{Cluster, Pod, owners};

rule! {
    /// A container that is not the operator's keeps the pod of a finished stage running.
    ///
    /// # What it means
    ///
    /// The scripts of the stage and the container `done` have ended, but another container of the pod still runs. The Job
    /// is complete only once all containers have ended, so the operator never records the stage as done.
    ///
    /// # What causes it
    ///
    /// An admission webhook injected a sidecar that does not end, such as the proxy of a service mesh.
    ///
    /// # How to confirm
    ///
    /// In the pod's status, the init containers and `done` are terminated with exit code 0, and another container is
    /// running. In the first minutes this is a warning: the container may be ending.
    ///
    /// # How to fix
    ///
    /// Exclude the operator's namespace from the injector, then delete the pod, so that the Job creates another one
    /// without the container. The stage runs again.
    ///
    /// # Affected versions
    ///
    /// Operators v0.18.0 and later, which run Jobs.
    SKY231 "foreign-container-running" Error needs Skyhooks Pods Jobs,
        blocks Install Uninstall
}

/// The operator's only container that is not an init container.
const DONE: &str = "done";

fn detect(cluster: &Cluster, findings: &mut Findings) {
    for package_run in findings.package_runs().all().iter().filter(|run| run.job.is_some() && run.alive()) {
        let pods = package_run.pods.iter().filter(|pod| !pod.ended() && !pod.metadata.deleting());
        let found = pods.filter_map(|pod| Some((*pod, foreign(pod)?))).next();
        let Some((pod, (container, since))) = found else {
            continue;
        };
        let (stage, package, name) = (&package_run.stage, &package_run.package, &container.name);
        let finding = findings.report(
            Subject::package_run(package_run),
            format!(
                "stage {stage} of package {package} has ended, but container {name}, which is not the operator's, keeps \
                 its pod running"
            ),
        );
        finding
            .warning_if(!cluster.is_stale(since))
            .since(since)
            .evidence(pod, "containers of the package", "all ended with exit code 0")
            .evidence(pod, format!("container {name}"), format!("running, image {}", container.image));
        let namespace = package_run.namespace();
        match owners::exclusion_from_injector(name, namespace) {
            Some(words) => {
                finding.kubectl(Grade::B1, "Exclude the operator's namespace from the injector", words);
            }
            None => {
                finding.kubectl(
                    Grade::B0,
                    "Find the webhook that injects the container, and exclude the operator's namespace from it",
                    ["get", "mutatingwebhookconfigurations"],
                );
            }
        }
        finding
            .delete_pod("Then delete the pod, so that the job creates another one without the container", pod)
            .caveat(
                "the stage runs again; until the namespace is excluded, the next pod gets the container, too",
            );
    }
}

/// A running container of a pod whose own container has ended successfully, and the time of that end.
fn foreign(pod: &Pod) -> Option<(&ContainerStatus, Option<Timestamp>)> {
    let mut containers = pod.status.container_statuses.iter();
    let done = containers.clone().find(|status| status.name == DONE)?.state.terminated.as_ref()?;
    let other = containers.find(|status| status.name != DONE && status.state.running.is_some())?;
    (done.exit_code == 0).then_some((other, done.finished_at))
}
