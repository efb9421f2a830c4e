use super::support::evidence::failing_since;
use super::support::overdue::{exceeds_usual_attempts, operator_retries, retry_reason};
use super::{Findings, Subject};
use crate::api::State;
use crate::cluster::Cluster;

rule! {
    /// Deletion waits for a package whose installation fails.
    ///
    /// # What it means
    ///
    /// The custom resource is being deleted and its finalizer waits for the uninstall of a package
    /// with `uninstall.enabled: true`. The operator starts an uninstall only once the installation
    /// has reached `complete`, and this installation is erroring. Neither can proceed, so the deletion
    /// hangs forever and no uninstall pod or Job is ever created.
    ///
    /// # What causes it
    ///
    /// A package crash-loops, or its Job has failed permanently, in an installing stage (apply, upgrade,
    /// config, interrupt or post-interrupt) on a node, and then the custom resource is deleted.
    ///
    /// # How to confirm
    ///
    /// The custom resource has a deletion timestamp, and the node state of the package is `erroring` at a
    /// stage that is not an uninstall stage.
    ///
    /// # How to fix
    ///
    /// Repair the installation. A pod that still restarts then continues by itself, and so does the deletion,
    /// unless other nodes have been uninstalled already: then the operator works only on nodes whose status
    /// is `in_progress`. A Job that has failed permanently is not retried at all. `package retry` deletes
    /// such a Job and sets the node to `in_progress`; the operator then continues. If a repair is not
    /// possible, reset the package on the node: the operator then no longer waits for it, but its uninstall
    /// script never runs and its changes to the host remain. The last resort is `finalizer strip`, which
    /// removes cordons, labels, annotations and conditions from the nodes as the operator would. It keeps the
    /// record of installed packages, and their changes to the hosts remain. Removing the finalizer by hand
    /// cleans up nothing.
    ///
    /// # Affected versions
    ///
    /// Operators with explicit uninstall (v0.16.0); not fixed as of v0.20.0.
    ///
    /// # Severity
    ///
    /// A warning while a Job has attempts left.
    SKY101 "deletion-waits-for-erroring-install" Error needs Skyhooks Nodes, also Pods Jobs,
        blocks Deletion Uninstall, retried true
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let package_runs = findings.package_runs();
    for skyhook in cluster.skyhooks.iter().filter(|s| s.deleting() && s.has_finalizer()) {
        for pending in cluster.pending_uninstalls(skyhook) {
            let (entry, node) = (pending.entry, pending.node.name.as_str());
            if entry.state != State::Erroring || entry.stage.is_uninstall() {
                continue;
            }
            let message = format!(
                "deletion of {skyhook} waits for package {}, whose installation fails at stage {}",
                pending.name, entry.stage
            );
            let finding = findings
                .report(Subject::node(node, Some(skyhook.name())).package(pending.name), message.as_str());
            finding
                // Findings are grouped regardless of their attempts.
                .group_message(message)
                .waits_for_node(skyhook.name(), node)
                .since_deletion(skyhook)
                .set_failing_since(failing_since(cluster, skyhook, pending.node))
                .entry(node, entry);
            let package_run = package_runs.newest(skyhook.name(), node, entry);
            let again = retry_reason(cluster, package_run).is_some();
            let retries = again || operator_retries(cluster, package_run, pending.on);
            finding.warning_if(again || retries && !exceeds_usual_attempts(cluster, entry, package_run));
            if let Some(package_run) = package_run {
                finding.package_run_trouble(cluster, package_run);
            }
            finding.other_finalizers(skyhook);
            finding.read_logs(skyhook.name(), node, pending.name, &entry.stage);
            finding.caveat("once the installation completes, the deletion continues");
            if !finding.retry_given_up(package_run, skyhook, node, entry) && !retries {
                finding
                    .set_in_progress(
                        "If the operator still skips the node once the package is fixed, set the node's status to in_progress",
                        skyhook,
                        node,
                        pending.name,
                    )
                    .by_choice();
            }
            finding
                .skip_uninstall(skyhook.name(), node, entry)
                .strip_finalizer("Strip the finalizer", skyhook);
        }
    }
}
