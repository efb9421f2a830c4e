use jiff::Timestamp;

use super::support::evidence::due_entry;
use super::support::overdue::succeeded;
use super::{ENDED_RECONCILE, Findings, Subject};
use crate::cluster::{Cluster, PackageRun};

rule! {
    /// A stage has succeeded, but the operator has not recorded it.
    ///
    /// # What it means
    ///
    /// All scripts of the package's pod have succeeded, or its Job is complete, but in the node state, the
    /// stage is still in progress. The operator normally records this within seconds. Until it does, no
    /// further stage starts.
    ///
    /// # What causes it
    ///
    /// The operator is not running, no replica is the leader, or something else stops it for all custom
    /// resources.
    ///
    /// # How to confirm
    ///
    /// The last init container of the pod has terminated with exit code 0, or the Job has the condition
    /// `Complete` and no annotation `state-recorded`, more than a minute ago. After ten minutes this is an
    /// error.
    ///
    /// # How to fix
    ///
    /// Make sure that the operator is running, and check its log. The operator then continues: the stage does
    /// not run again.
    ///
    /// # Affected versions
    ///
    /// All operators.
    SKY224 "result-not-recorded" Error needs Skyhooks Nodes Pods Jobs, also Operator,
        blocks Install Uninstall
}

/// Seconds allowed for the operator to record a result. The operator watches pods and Jobs, but may be
/// restarting.
const NOTED_WITHIN: i64 = 60;

fn detect(cluster: &Cluster, findings: &mut Findings) {
    for package_run in findings.package_runs().all() {
        let Some(ended) = succeeded_at(cluster, package_run) else {
            continue;
        };
        let age = cluster.seconds_from(ended);
        if age < NOTED_WITHIN || !is_under_way(cluster, package_run) {
            continue;
        }
        let name = package_run.skyhook.as_str();
        let finding = findings.report(
            Subject::package_run(package_run),
            format!(
                "stage {} of package {} has succeeded, but the operator has not recorded the result",
                package_run.stage, package_run.package
            ),
        );
        finding.warning_if(!cluster.is_stale(Some(ended)));
        let state = cluster.flavor().key(&format!("nodeState_{name}"));
        finding
            .since(Some(ended))
            .effect_of(&[ENDED_RECONCILE])
            .evidence(package_run, "succeeded", ended)
            .evidence(
                format!("node/{}", package_run.node),
                state,
                format!("{} is not complete", package_run.stage),
            )
            .list_operators("Check whether the operator is running")
            .operator_log(cluster, "Check the operator's log for the cause");
    }
}

/// The time at which a Job without a recorded result completed, or at which all scripts of a bare pod had
/// succeeded.
fn succeeded_at(cluster: &Cluster, package_run: &PackageRun<'_>) -> Option<Timestamp> {
    if let Some(job) = package_run.job {
        let recorded = cluster.flavor().key("state-recorded");
        let unnoted = !job.metadata.annotations.contains_key(&recorded)
            && !job.metadata.deleting()
            && job.finished().is_some_and(|c| c.kind == "Complete");
        return job.status.completion_time.filter(|_| unnoted);
    }
    let [pod] = package_run.pods.as_slice() else {
        return None;
    };
    if !package_run.bare() || pod.metadata.deleting() || package_run.invalidated {
        return None;
    }
    let containers = pod.status.init_container_statuses.iter();
    containers.filter_map(|c| c.state.terminated.as_ref()?.finished_at).max().filter(|_| succeeded(pod))
}

/// Whether the custom resource selects the node, and the stage is recorded as not complete.
fn is_under_way(cluster: &Cluster, package_run: &PackageRun<'_>) -> bool {
    let (Some(skyhook), Some(node)) = (cluster.skyhook(&package_run.skyhook), cluster.node(package_run.node))
    else {
        return false;
    };
    skyhook.selects(node) && due_entry(cluster, package_run).is_some()
}
