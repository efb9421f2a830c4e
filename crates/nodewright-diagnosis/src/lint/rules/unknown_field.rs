use super::{Input, LintFindings, schema_violations};
use crate::lint::Manifest;
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
    for (manifest, skyhook) in input.skyhooks() {
        for (name, _) in skyhook.packages() {
            let path = ["spec", "packages", name, "uninstall"];
            since(input, findings, manifest, &path, (0, 16));
        }
        let path = ["spec", "runtimeRequiredCordonAfter"];
        since(input, findings, manifest, &path, (0, 19));
    }
}

/// Reports a field that requires a newer operator, unless the field already violates the schema.
fn since(
    input: &Input<'_>,
    findings: &mut LintFindings,
    manifest: &Manifest,
    path: &[&str],
    (major, minor): (u64, u64),
) {
    if input.operator_at_least(major, minor) == Some(false)
        && manifest.has(path)
        && !manifest.violates_schema(path)
    {
        let field = path.last().copied().unwrap_or_default();
        let message = format!("the operator knows {field} only from v{major}.{minor} on");
        findings.report(manifest, path, message);
    }
}
