use super::{Input, LintFindings};
use crate::api::ApiFlavor;
use crate::rules::Severity;

lint_rule! {
    /// `serial: true` is set, and the operator is v0.17 or older.
    ///
    /// # What it means
    ///
    /// The operator ends its reconcile as soon as it has started a pod, before it records the stage. The next reconcile removes
    /// the pod and starts over: no package completes.
    ///
    /// # How to fix
    ///
    /// Remove `serial`. `dependsOn` orders packages, and `interruptionBudget` limits the nodes at once.
    SKY831 "serial-never-completes" Error
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for (manifest, _) in input.skyhooks().filter(|(_, skyhook)| skyhook.spec.serial) {
        let newer = input.operator_at_least(0, 18);
        if newer.unwrap_or(manifest.flavor() == Some(ApiFlavor::NodeWright)) {
            continue;
        }
        let message =
            "with serial: true, operators up to v0.17 start each stage over and over: no package completes";
        let finding = findings.report(manifest, &["spec", "serial"], message);
        finding.fix("Remove serial, and order packages with dependsOn");
        if newer.is_none() {
            finding.severity(Severity::Warning);
        }
    }
}
