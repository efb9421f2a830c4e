use super::{Input, LintFindings, spec_errors};
use crate::model::spec_errors::SpecErrorKind;

lint_rule! {
    /// The version of a package is not a semantic version.
    ///
    /// # What it means
    ///
    /// The webhook rejects the object. The version is also the tag of the image.
    ///
    /// # How to fix
    ///
    /// Use a version such as `1.2.3`, and tag the image with it. Tags such as `latest` are not possible.
    SKY812 "version-invalid" Error
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for (manifest, _, error) in spec_errors(input, SpecErrorKind::Version) {
        findings
            .report(manifest, &error.path_with_key(), "the version must be a semantic version such as 1.2.3")
            .fix("Tag the image with a semantic version, and use it here");
    }
}
