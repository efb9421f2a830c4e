use super::{Input, LintFindings, spec_errors};
use crate::model::spec_errors::SpecErrorKind;

lint_rule! {
    /// The resources of a package are incomplete or contradictory.
    ///
    /// # What it means
    ///
    /// The webhook rejects the object. If one of `cpuRequest`, `cpuLimit`, `memoryRequest` and `memoryLimit` is set,
    /// all four must be; they are positive, and no limit is below its request.
    ///
    /// # How to fix
    ///
    /// Set all four, or none.
    SKY814 "resources-invalid" Error
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for (manifest, _, error) in spec_errors(input, SpecErrorKind::Resources) {
        findings
            .report(manifest, &error.path_with_key(), format!("resources {}", error.why))
            .fix("Set all four fields, or none; limits must not be below requests");
    }
}
