use super::{Input, LintFindings, schema_violations};
use crate::lint::schema::ViolationKind;

lint_rule! {
    /// A required field is missing.
    ///
    /// # What it means
    ///
    /// The API server rejects the object.
    ///
    /// # How to fix
    ///
    /// Add the field.
    SKY808 "missing-field" Error
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    schema_violations(input, findings, ViolationKind::MissingField);
}
