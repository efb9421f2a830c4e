use super::{Input, LintFindings};
use crate::api::ApiFlavor;

lint_rule! {
    /// A toleration has no key, and the operator is v0.17 or older.
    ///
    /// # What it means
    ///
    /// Admission, as on AKS, can replace all tolerations of a pod with the toleration that has no key and tolerates
    /// everything. Operators up to v0.17 do not recognize it as a toleration of a cordon, because they compare keys. A
    /// drain then evicts the package's own pods again and again.
    ///
    /// # How to fix
    ///
    /// Replace the toleration with one toleration for each taint, with the key of the taint.
    SKY858 "wildcard-toleration" Warning
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for (manifest, skyhook) in input.skyhooks() {
        let newer =
            input.operator_at_least(0, 18).unwrap_or(manifest.flavor() == Some(ApiFlavor::NodeWright));
        let interrupts = skyhook.packages().any(|(_, p)| p.interrupt.is_some());
        let mut all = skyhook.spec.additional_tolerations.iter();
        let wildcard = all.position(|t| t.key.is_empty() && t.operator == "Exists");
        let Some(index) = wildcard.filter(|_| interrupts && !newer) else {
            continue;
        };
        let path = ["spec", "additionalTolerations", &index.to_string()];
        let message = "with a toleration without a key, drains evict the package's own pods if admission \
            drops the other tolerations, as on AKS (operators up to v0.17)";
        findings.report(manifest, &path, message).fix("Replace it with one toleration per taint key");
    }
}
