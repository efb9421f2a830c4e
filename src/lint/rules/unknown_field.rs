use super::{Input, LintFindings, schema_violations};
use crate::lint::violation::ViolationKind;

lint_rule! {
    /// A field does not exist.
    ///
    /// # What it means
    ///
    /// kubectl refuses the manifest; clients that do not validate fields, such as Helm, drop the field silently.
    ///
    /// # How to fix
    ///
    /// Correct the spelling, the case or the place of the field. `kubectl explain skyhook.spec` lists the fields.
    SKY806 "unknown-field" Error
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    schema_violations(input, findings, ViolationKind::UnknownField);
}
