use super::{Input, LintFindings, Severity, schema_violations};
use crate::lint::violation::ViolationKind;

lint_rule! {
    /// A required field is missing.
    ///
    /// # What it means
    ///
    /// The API server rejects the object. A compartment without `selector` is a warning: the webhook adds an empty
    /// selector, which matches every node.
    ///
    /// # How to fix
    ///
    /// Add the field.
    SKY808 "missing-field" Error
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    schema_violations(input, findings, ViolationKind::MissingField);
    for finding in findings.iter_mut() {
        if finding.subject.compartment.is_some() && finding.path.ends_with(".selector") {
            finding.severity(Severity::Warning);
            finding.message += "; the webhook adds an empty selector, which matches every node";
        }
    }
}
