use std::collections::BTreeMap;

use super::{Findings, Subject};
use crate::api::{Executor, Stage, State};
use crate::cluster::{Cluster, Node, PackageRun};

rule! {
    /// An uninstall was canceled, but still runs on a node.
    ///
    /// # What it means
    ///
    /// `uninstall.apply` was set back to false, but an uninstall pod or Job of the package is still
    /// running. If it finishes, the package is uninstalled and then installed again from the start.
    /// An interrupt that follows an uninstall cannot be canceled at all.
    ///
    /// # What causes it
    ///
    /// Canceling resets the node state but does not stop the running pod; the result depends on whether the
    /// pod ends before the operator's next reconcile. If the operator deletes the pod first and the pod does
    /// not terminate, every node of the custom resource waits for it.
    ///
    /// # How to confirm
    ///
    /// `apply: false` in the spec, and an entry, or an unfinished pod or Job, of the package at stage
    /// `uninstall` or `uninstall-interrupt`.
    ///
    /// # How to fix
    ///
    /// Wait: the package ends up installed either way. If it cannot handle an uninstall followed by an install,
    /// check the node afterwards.
    ///
    /// # Affected versions
    ///
    /// Operators with explicit uninstall (v0.16.0), up to v0.17.
    SKY105 "cancelled-uninstall-still-running" Warning needs Skyhooks Nodes Pods Jobs
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    // Newer operators end the Job of a cancelled uninstall and install again within seconds.
    if cluster.flavor().executor() == Executor::Job {
        return;
    }
    let package_runs = findings.package_runs();
    for skyhook in cluster.skyhooks.iter().filter(|s| !s.deleting()) {
        let tracked = cluster.tracked(skyhook.name()).map(|(node, _)| node);
        let at_work = package_runs.of(skyhook.name());
        let nodes: BTreeMap<&str, &Node> = tracked
            .chain(at_work.filter_map(|run| cluster.node(run.node)))
            .map(|n| (n.name.as_str(), n))
            .collect();
        for node in nodes.into_values() {
            let on = cluster.on_node(node, skyhook.name());
            let here: Vec<&PackageRun> = package_runs.of_skyhook_on(skyhook.name(), &node.name).collect();
            for (name, package) in skyhook.packages().filter(|(_, p)| !skyhook.uninstalls(p)) {
                // Versions that have left the spec follow other rules.
                let entry = on
                    .and_then(|on| on.entry(&package.entry_key(name)))
                    // A skipped stage, as in a downgrade, uninstalls nothing.
                    .filter(|e| e.stage.is_uninstall() && e.state != State::Skipped);
                let package_run = here.iter().copied().find(|run| {
                    let same = run.package == name && run.version == package.version;
                    same && run.stage.is_uninstall() && !run.finished()
                });
                let Some(stage) = entry.map(|e| &e.stage).or(package_run.map(|run| &run.stage)) else {
                    continue;
                };
                let finding = findings.report(
                    Subject::skyhook_on_node(skyhook, node).package(name),
                    format!(
                        "the uninstall of package {name} was canceled but is still in progress: {}",
                        outcome(stage, package_run)
                    ),
                );
                finding.package_field(skyhook, name, "uninstall.apply", "false");
                if let Some(entry) = entry {
                    finding.entry(&node.name, entry);
                }
                if let Some(package_run) = package_run {
                    let going = if package_run.alive() { "running" } else { "terminating" };
                    finding.since(package_run.created()).evidence(
                        package_run,
                        format!("stage {}", package_run.stage),
                        going,
                    );
                }
                finding.remedy(
                    "Watch the canceled uninstall: the package ends up installed, whether or not it finishes",
                    ["status", skyhook.name()],
                );
            }
        }
    }
}

fn outcome(stage: &Stage, package_run: Option<&PackageRun<'_>>) -> &'static str {
    match package_run {
        _ if *stage == Stage::UninstallInterrupt => {
            "its interrupt can no longer be canceled, and the package is installed again afterwards"
        }
        Some(package_run) if !package_run.alive() => "nothing else happens until its pod has terminated",
        Some(_) => "if the uninstall still finishes, the package is then installed again from the start",
        None => "the operator has not processed the cancellation yet",
    }
}
