use super::{Findings, Subject};
use crate::cluster::{Certainty, Cluster, Source};

rule! {
    /// A stage runs much longer than it should.
    ///
    /// # What it means
    ///
    /// The script of a package, its check or an interrupt has started and does not end. The node does
    /// not get past the stage, and depending on the rollout other nodes wait for it. A deletion or an
    /// uninstall waits as well.
    ///
    /// # What causes it
    ///
    /// The script waits for something that never arrives, such as a lock, a network or a response. Up to
    /// v0.17 the operator waits for it without limit; newer ones give each attempt a timeout, an hour unless
    /// the package sets another one.
    ///
    /// # How to confirm
    ///
    /// A container of the pod has been running longer than the stage's timeout, longer than three times
    /// the time that the stage took on other nodes, or longer than an hour.
    ///
    /// # How to fix
    ///
    /// Check the output of the script, and fix what it waits for. Delete the pod to have the stage
    /// started again.
    ///
    /// # Affected versions
    ///
    /// All operators.
    ///
    /// # Severity
    ///
    /// A warning at first, and an error after three times as long.
    SKY219 "stage-running-too-long" Error needs Pods Jobs, also Skyhooks Nodes,
        blocks Install Uninstall
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let package_runs = findings.package_runs();
    // Skip leftover runs of a deleted custom resource: they are not restarted.
    let gone =
        |name: &str| cluster.skyhook(name).is_none() && cluster.skyhooks_absence() == Certainty::Proven;
    for package_run in package_runs.all().iter().filter(|run| run.alive()).filter(|run| !gone(&run.skyhook)) {
        let Some(overtime) = package_run.overtime(cluster, &package_runs) else {
            continue;
        };
        // Another rule reports nodes that are not ready.
        if !package_run.may_progress(cluster) {
            findings.depends_on(Source::Nodes);
            continue;
        }
        let finding = findings.report(
            Subject::package_run(package_run),
            format!(
                "stage {} of package {} has been running for longer than {}",
                package_run.stage,
                package_run.package,
                overtime.limit()
            ),
        );
        finding.warning_if(!overtime.is_hopeless());
        let started = overtime.since.to_string();
        finding.since(Some(overtime.since)).evidence(package_run, "running since", started).read_logs(
            &package_run.skyhook,
            package_run.node,
            &package_run.package,
            &package_run.stage,
        );
        if let Some(pod) = package_run.pods.first() {
            let skyhook = cluster.skyhook(&package_run.skyhook);
            let node = cluster.node(package_run.node);
            let left = skyhook.zip(node).is_some_and(|(s, n)| !s.selects(n));
            let title = if left {
                "Delete the pod; the stage does not start again, because the node is no longer selected"
            } else {
                "Once the cause is gone, delete the pod, so that the stage starts again"
            };
            finding
                .delete_pod(title, pod)
                .caveat("the script is killed, which may leave its work on the host unfinished");
        }
    }
}
