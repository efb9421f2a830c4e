use super::{Input, LintFindings, schema_violations};
use crate::lint::violation::ViolationKind;

lint_rule! {
    /// A value is outside its allowed values, range, length or pattern.
    ///
    /// # What it means
    ///
    /// The API server rejects the object.
    ///
    /// # How to fix
    ///
    /// Use an allowed value.
    SKY809 "value-not-allowed" Error
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    schema_violations(input, findings, ViolationKind::Value);
}
