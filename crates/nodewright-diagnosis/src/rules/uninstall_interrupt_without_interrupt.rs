use serde_json::json;

use super::{Findings, Grade, Subject};
use crate::api::{Stage, State};
use crate::cluster::{Certainty, Cluster};

rule! {
    /// An uninstall waits for an interrupt that the spec does not request.
    ///
    /// # What it means
    ///
    /// The uninstall of a package has finished on a node and the node state shows `uninstall-interrupt`, but
    /// the package no longer has an interrupt. The operator uses the current spec to decide whether to
    /// interrupt, finds nothing to do, and never leaves the stage. While `status.configUpdates` lists changed
    /// keys of the package, only `configInterrupts` that match one of them count, and the package's
    /// `interrupt` does not.
    ///
    /// # What causes it
    ///
    /// The interrupt pod or Job never ran, was deleted or evicted, and then someone removed the
    /// `interrupt` block from the package (or a config change replaced it and requests no interrupt).
    ///
    /// # How to confirm
    ///
    /// The entry is at `uninstall-interrupt` and not `complete`, the package has no pod or Job labeled
    /// `interrupt=True`, and it has no `interrupt` in the spec; or `status.configUpdates` lists keys of the
    /// package and none of its `configInterrupts` matches one.
    ///
    /// # How to fix
    ///
    /// Restore the interrupt in the spec: the operator runs it and then finishes the uninstall. If
    /// `status.configUpdates` prevents the interrupt, remove the package from it, or add `configInterrupts`
    /// that match. Or reset the package on the node, if the node needs no interrupt; the uninstall script has
    /// already run.
    ///
    /// # Affected versions
    ///
    /// Operators with explicit uninstall (v0.16.0).
    SKY102 "uninstall-interrupt-without-interrupt" Error needs Skyhooks Nodes, also Pods Jobs,
        blocks Uninstall
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    if cluster.certainty_of_no_package_run() == Certainty::Unknown {
        return;
    }
    let package_runs = findings.package_runs();
    for skyhook in &cluster.skyhooks {
        for node in cluster.selected(skyhook) {
            let entries = cluster.on_node(node, skyhook.name()).map_or(&[][..], |on| on.entries());
            for entry in entries {
                let stranded = entry.stage == Stage::UninstallInterrupt
                    && entry.state != State::Complete
                    && skyhook
                        .package(&entry.name)
                        .is_none_or(|p| skyhook.pending_interrupt(&entry.name, p).is_none());
                // The interrupts of several packages are merged into one run, which names only one of the
                // packages.
                let interrupted = package_runs
                    .of_skyhook_on(skyhook.name(), &node.name)
                    .any(|run| run.stage == Stage::UninstallInterrupt && run.alive());
                if !stranded || interrupted {
                    continue;
                }
                let name = &entry.name;
                let package = skyhook.package(name);
                let updates = package.map_or(&[][..], |_| skyhook.config_updates(name));
                let own = package.is_some_and(|p| p.interrupt.is_some());
                let finding = findings.report(
                    Subject::skyhook_on_node(skyhook, node).package(name),
                    if updates.is_empty() {
                        format!(
                            "the uninstall of package {name} waits for an interrupt that is no longer \
                             in the spec"
                        )
                    } else {
                        format!(
                            "the uninstall of package {name} waits for an interrupt, but none is requested for its changed \
                             configuration"
                        )
                    },
                );
                finding.entry(&node.name, entry);
                if !updates.is_empty() {
                    finding
                        .evidence(skyhook, format!("status.configUpdates.{name}"), updates.join(", "))
                        .evidence(
                            skyhook,
                            format!("spec.packages.{name}.configInterrupts"),
                            "no pattern matches these keys",
                        );
                }
                if !own {
                    finding.package_field(skyhook, name, "interrupt", "absent");
                }
                finding.no_package_run(cluster, "interrupt pods and jobs");
                let runs = "the interrupt runs: services restart or the node reboots, depending on its type";
                if updates.is_empty() {
                    finding.edit(Grade::B3, "Add the interrupt back to the spec", skyhook).caveat(runs);
                } else {
                    if own {
                        let patch =
                            json!([{"op": "remove", "path": format!("/status/configUpdates/{name}")}]);
                        let patch = patch.to_string();
                        finding
                            .patch(
                                Grade::B3,
                                "Remove the package from status.configUpdates, so that the operator runs the interrupt that the package's spec sets",
                                skyhook,
                                &["--subresource=status", "--type=json", "-p", &patch],
                            )
                            .caveat(runs);
                    }
                    finding
                        .edit(
                            Grade::B3,
                            "Add configInterrupts that match one of these keys to the spec",
                            skyhook,
                        )
                        .caveat(runs);
                }
                finding
                    .reset_record(skyhook.name(), &node.name, entry)
                    .caveat("the interrupt after the uninstall is then skipped");
            }
        }
    }
}
