use super::evidence::{forget, no_package_run};
use super::{Findings, Grade, Subject};
use crate::api::{Stage, State};
use crate::cluster::{Certainty, Cluster};

rule! {
    /// An uninstall waits for an interrupt that is no longer in the spec.
    ///
    /// # What it means
    ///
    /// The uninstall of a package has finished on a node and the node state says
    /// `uninstall-interrupt`, but the package no longer has an interrupt. The operator uses the
    /// current spec to decide whether to interrupt, finds nothing to do, and never leaves the stage.
    ///
    /// # What causes it
    ///
    /// The interrupt pod or Job never ran, was deleted or evicted, and then someone removed the
    /// `interrupt` block from the package (or a config change replaced it and requests no interrupt).
    ///
    /// # How to confirm
    ///
    /// The entry is at `uninstall-interrupt` and not `complete`, the package has no `interrupt` in
    /// the spec, and it has no pod or Job labeled `interrupt=True`.
    ///
    /// # How to fix
    ///
    /// Restore the interrupt in the spec: the operator runs it and then finishes the uninstall. Or reset the
    /// package on the node, if the node needs no interrupt; the uninstall script has already run.
    ///
    /// # Since
    ///
    /// Operators with explicit uninstall (v0.16.0).
    SKY102 "uninstall-interrupt-without-interrupt" Error needs Skyhooks Nodes, also Pods Jobs,
        blocks Uninstall
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    if cluster.certainty_of_no_package_run() == Certainty::Unknown {
        return;
    }
    let package_runs = cluster.package_runs();
    for skyhook in cluster.skyhooks.items() {
        for node in cluster.selected(skyhook) {
            let entries = cluster
                .on_node(node, skyhook.name())
                .map_or(&[][..], |on| on.entries());
            for entry in entries {
                let stranded = entry.stage == Stage::UninstallInterrupt
                    && entry.state != State::Complete
                    && skyhook
                        .package(&entry.name)
                        .is_none_or(|p| skyhook.pending_interrupt(&entry.name, p).is_none());
                // Interrupts of several packages are merged into one, which names the winner only.
                let interrupted = package_runs
                    .on(skyhook.name(), &node.name)
                    .any(|e| e.stage == Stage::UninstallInterrupt && e.alive());
                if !stranded || interrupted {
                    continue;
                }
                let resource = cluster.flavor().resource();
                let finding = findings.report(
                    Subject::node(&node.name, Some(skyhook.name())).package(&entry.name),
                    format!(
                        "the uninstall of package {} waits for an interrupt that is no longer in the spec",
                        entry.name
                    ),
                );
                finding.entry(&node.name, entry).evidence(
                    skyhook.reference(),
                    format!("spec.packages.{}.interrupt", entry.name),
                    "absent",
                );
                no_package_run(finding, cluster, "interrupt pods and jobs");
                finding
                    .kubectl(Grade::B3, "Add the interrupt back to the spec", ["edit", &resource, skyhook.name()])
                    .caveat("the interrupt runs: services restart or the node reboots, depending on its type");
                forget(finding, Grade::B4, skyhook.name(), &node.name, entry)
                    .caveat("the interrupt does not run");
            }
        }
    }
}
