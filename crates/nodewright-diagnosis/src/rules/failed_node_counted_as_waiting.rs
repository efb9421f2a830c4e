use super::{Findings, Subject};
use crate::api::{Status, keys};
use crate::cluster::Cluster;

rule! {
    /// A node on which a Job has failed permanently is counted as waiting.
    ///
    /// # What it means
    ///
    /// The operator has recorded the failure of the Job on the node, so it starts nothing there. But it does
    /// not mark the node as erroring. It chooses the node again and again, so under a policy or a budget the
    /// node takes up a slot in the batch forever, and no failure is counted.
    ///
    /// # What causes it
    ///
    /// The custom resource was paused or disabled after the Job had failed permanently, and then resumed:
    /// that changes `erroring` to `waiting`, and a failure that is already recorded is not counted again. A
    /// `reset` or `package rerun` on another node that pauses the custom resource has the same effect.
    ///
    /// # How to confirm
    ///
    /// The entry in the node state is `erroring`, the node's status is `waiting`, and the Job of the
    /// stage has the condition `Failed` and the annotation `state-recorded`.
    ///
    /// # How to fix
    ///
    /// Fix the cause of the Job's failure, then retry the stage on the node. A resume or a reset of the
    /// batches does not help.
    ///
    /// # Affected versions
    ///
    /// Operators v0.20.0 and later.
    SKY218 "failed-node-counted-as-waiting" Error needs Skyhooks Nodes Jobs,
        blocks Install
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let (model, package_runs) = (findings.model(), findings.package_runs());
    for skyhook in cluster.skyhooks.iter().filter(|s| s.is_active()) {
        for node in cluster.selected(skyhook) {
            if cluster.status_on(skyhook, node) != Status::Waiting {
                continue;
            }
            let permanently_failed = package_runs.permanently_failed(cluster, skyhook, node);
            let Some((entry, package_run)) = permanently_failed.first().copied() else {
                continue;
            };
            let finding = findings.report(
                Subject::skyhook_on_node(skyhook, node).package(&entry.name),
                format!(
                    "the job for stage {} of package {} has failed permanently, but the operator counts the \
                     node as waiting, so it starts nothing here and does not count the failure",
                    entry.stage, entry.name
                ),
            );
            // While an earlier custom resource is incomplete, waiting is correct.
            finding.warning_if(model.predecessor_on(skyhook, node).is_some());
            let failed = package_run.job.and_then(|j| j.failed());
            let reason = failed.map_or_else(String::new, |c| c.reason.to_string());
            finding
                .since(failed.and_then(|c| c.last_transition_time))
                .evidence(node, keys::status(cluster.flavor(), skyhook.name()), "waiting")
                .entry(&node.name, entry)
                .evidence(package_run, "condition Failed", reason)
                .effect_of(&["SKY112", "SKY201"]);
            finding.retry_given_up(Some(package_run), skyhook, &node.name, entry);
            // A rerun would make the package count as uninstalled.
            if !entry.stage.is_uninstall() {
                finding.rerun("Or run the package again from the start", skyhook, node, &entry.name);
            }
        }
    }
}
