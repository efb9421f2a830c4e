use super::{Input, LintFindings, schema_violations};
use crate::lint::compatibility::{NewerField, newer_fields};
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
    ///
    /// # Since
    ///
    /// All operators. `uninstall` exists since v0.16, `runtimeRequiredCordonAfter` since v0.19.
    SKY806 "unknown-field" Error
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    schema_violations(input, findings, ViolationKind::UnknownField);
    let Some(operator) = &input.operator else {
        return;
    };
    for (manifest, _) in input.skyhooks() {
        for NewerField { path, since: (major, minor) } in newer_fields(&manifest.value, operator) {
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            if !manifest.violates_schema(&path) {
                let field = path.last().copied().unwrap_or_default();
                let message = format!("the operator knows {field} only from v{major}.{minor} on");
                findings.report(manifest, &path, message);
            }
        }
    }
}
