use super::support::evidence::{failing_since, restarted_by_its_own_reboot};
use super::support::overdue::{exceeds_usual_attempts, operator_retries, retry_reason};
use super::support::reason::with_attempts;
use super::{Findings, Subject};
use crate::api::State;
use crate::cluster::{Cluster, PackageRun};

rule! {
    /// The uninstall of a package fails on a node.
    ///
    /// # What it means
    ///
    /// `uninstall.sh`, its check, or the interrupt that follows ends with an error. The package
    /// stays on the node, it cannot be removed from the spec, and a deletion waits for it.
    ///
    /// # What causes it
    ///
    /// The script fails on this host, or its container is killed. Older operators retry forever;
    /// newer ones give up after a few attempts.
    ///
    /// # How to confirm
    ///
    /// The entry is at `uninstall` or `uninstall-interrupt` and `erroring`; the condition
    /// `UninstallFailed` is true.
    ///
    /// # How to fix
    ///
    /// Read the logs and fix the host or the package. A change to the environment, image or
    /// resources restarts the uninstall; a change to the configMap alone does not. If a Job has
    /// given up, `package retry` deletes it, and the operator runs the uninstall again. If it cannot
    /// be repaired, reset the package on the node: the operator then treats the package as uninstalled.
    ///
    /// # Affected versions
    ///
    /// Operators with explicit uninstall (v0.16.0).
    ///
    /// # Severity
    ///
    /// A warning while a Job has attempts left, after the first failure of a bare pod, which the kubelet
    /// restarts at once, and on a node that the custom resource no longer selects.
    SKY112 "uninstall-failing" Error needs Skyhooks Nodes, also Pods Jobs,
        blocks Uninstall, retried true
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let package_runs = findings.package_runs();
    for skyhook in &cluster.skyhooks {
        for (node, on) in cluster.tracked(skyhook.name()) {
            for entry in on.entries() {
                let failing = entry.stage.is_uninstall() && entry.state == State::Erroring;
                if !failing || restarted_by_its_own_reboot(skyhook, entry) {
                    continue;
                }
                let consequence = if skyhook.deleting() && skyhook.has_finalizer() {
                    ", and the deletion waits for the uninstall"
                } else {
                    ""
                };
                let package_run = package_runs.newest(skyhook.name(), &node.name, entry);
                let retries = operator_retries(cluster, package_run, on);
                let what = format!("the uninstall of package {} fails at stage {}", entry.name, entry.stage);
                let tried = with_attempts(what.clone(), cluster, entry, package_run, retries);
                let finding = findings.report(
                    Subject::skyhook_on_node(skyhook, node).package(&entry.name),
                    format!("{tried}{consequence}"),
                );
                // Findings are grouped regardless of their attempts.
                finding.group_message(format!("{what}{consequence}"));
                let passes = retry_reason(cluster, package_run).is_some()
                    || retries && !exceeds_usual_attempts(cluster, entry, package_run);
                finding.warning_if(passes);
                finding.set_failing_since(failing_since(cluster, skyhook, node));
                finding.since(package_run.and_then(PackageRun::created));
                finding.entry(&node.name, entry);
                finding.warning_unless_selected(skyhook, node);
                if let Some(package_run) = package_run {
                    finding.package_run_trouble(cluster, package_run);
                }
                finding.reruns_wait(skyhook);
                finding.read_logs(skyhook.name(), &node.name, &entry.name, &entry.stage);
                finding.retry_given_up(package_run, skyhook, &node.name, entry);
                if passes {
                    continue;
                }
                finding.reset_record(skyhook.name(), &node.name, entry).caveat(
                    "the package then counts as uninstalled, though its files may still be on the host",
                );
            }
        }
    }
}
