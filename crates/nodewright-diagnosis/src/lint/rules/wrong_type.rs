use super::{Input, LintFindings, schema_violations};
use crate::lint::violation::ViolationKind;

lint_rule! {
    /// A value has the wrong type.
    ///
    /// # What it means
    ///
    /// The API server rejects the object. YAML reads `1.10` as a number and `yes` as a boolean.
    ///
    /// # How to fix
    ///
    /// Quote strings that look like numbers or booleans.
    SKY807 "wrong-type" Error
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    schema_violations(input, findings, ViolationKind::WrongType);
}
