use super::{Input, LintFindings, spec_errors};
use crate::model::spec_errors::SpecErrorKind;

lint_rule! {
    /// An entry of `configInterrupts` matches no key of `configMap`.
    ///
    /// # What it means
    ///
    /// The webhook rejects the object. Only `*` is special in the keys of `configInterrupts`.
    ///
    /// # How to fix
    ///
    /// Correct the key, or remove the entry.
    SKY820 "config-interrupt-unmatched" Error
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for (manifest, _, error) in spec_errors(input, SpecErrorKind::ConfigInterrupt) {
        findings.report(manifest, &error.path_with_key(), format!("configInterrupts {}", error.why));
    }
}
