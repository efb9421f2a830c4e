use super::{Input, LintFindings, spec_errors};
use crate::model::spec_errors::SpecErrorKind;

lint_rule! {
    /// The name of a package is not valid.
    ///
    /// # What it means
    ///
    /// The webhook rejects the object. A package name has 2 to 43 lower-case letters, digits and hyphens; it begins and
    /// ends with a letter. The field `name` of a package may only repeat the key.
    ///
    /// # How to fix
    ///
    /// Rename the package, or remove its field `name`.
    SKY811 "package-name-invalid" Error
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for (manifest, _, error) in spec_errors(input, SpecErrorKind::PackageName) {
        let path = error.path_with_key();
        if let ["spec", "packages", key, "name"] = path[..] {
            let message = format!("the field name must be {key}, the key of the package");
            findings.report(manifest, &path, message).fix("Remove the field name");
        } else {
            let message = "the name must have 2 to 43 lower-case letters, digits and hyphens, and begin and end with a \
                           letter";
            findings.report(manifest, &path, message).fix("Rename the package");
        }
    }
}
