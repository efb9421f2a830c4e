use super::{Input, LintFindings, spec_errors};
use crate::model::spec_errors::SpecErrorKind;

lint_rule! {
    /// A package depends on a package or version that is not in the spec.
    ///
    /// # What it means
    ///
    /// The webhook rejects the object. `dependsOn` names a package of the same custom resource with exactly its version.
    ///
    /// # How to fix
    ///
    /// Add the package, or write its version.
    SKY818 "dependency-missing" Error
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for (manifest, _, error) in spec_errors(input, SpecErrorKind::Dependency) {
        findings.report(manifest, &error.path_with_key(), format!("dependsOn {}", error.why));
    }
}
