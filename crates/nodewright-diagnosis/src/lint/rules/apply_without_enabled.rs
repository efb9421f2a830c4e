use super::{Input, LintFindings, spec_errors};
use crate::model::spec_errors::SpecErrorKind;

lint_rule! {
    /// `uninstall.apply` is set without `uninstall.enabled`.
    ///
    /// # What it means
    ///
    /// The webhook rejects the object.
    ///
    /// # How to fix
    ///
    /// Set `uninstall.enabled: true` as well if the package should be uninstalled. Otherwise remove `apply`.
    SKY819 "apply-without-enabled" Error
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for (manifest, _, error) in spec_errors(input, SpecErrorKind::ApplyWithoutEnabled) {
        findings
            .report(manifest, &error.path_with_key(), "uninstall.apply requires uninstall.enabled: true")
            .fix("Set uninstall.enabled: true, or remove uninstall.apply");
    }
}
