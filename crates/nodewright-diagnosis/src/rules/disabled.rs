use super::{Findings, Severity, Subject};
use crate::cluster::Cluster;

rule! {
    /// A custom resource is disabled.
    ///
    /// # What it means
    ///
    /// Nothing new is started for it on any node, and later custom resources do not wait for it. Running
    /// stages run to completion. The custom resource keeps the runtime-required taint on nodes where it is
    /// not complete.
    ///
    /// # What causes it
    ///
    /// Someone set the disable annotation, with this plugin or another tool.
    ///
    /// # How to confirm
    ///
    /// The annotation `disable` on the custom resource is exactly `true`.
    ///
    /// # How to fix
    ///
    /// Enable it when it may continue. If it is disabled on purpose, there is nothing to do.
    ///
    /// # Affected versions
    ///
    /// Operators v0.8.0 and later.
    ///
    /// # Severity
    ///
    /// A warning while work is unfinished, because it waits until someone intervenes; otherwise a note.
    SKY309 "disabled" Warning needs Skyhooks, also Nodes,
        blocks Install Uninstall, finds LastingWaits
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let skyhooks = cluster.skyhooks.iter();
    let model = findings.model();
    for skyhook in skyhooks.filter(|s| s.disabled() && !s.deleting()) {
        let Some(flavor) = skyhook.flavor() else {
            continue;
        };
        let finding = findings.report(
            Subject::skyhook(skyhook),
            format!("{skyhook} is disabled: the operator starts no new work for it"),
        );
        if model.unfinished(skyhook).next().is_none() {
            finding.severity(Severity::Info);
        }
        finding.annotated(skyhook, flavor, "disable");
        finding.offer_resume(cluster, skyhook, "Enable the custom resource", "enable");
    }
}
