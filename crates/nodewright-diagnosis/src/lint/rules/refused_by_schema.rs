use super::{Input, LintFindings, Severity};
use crate::api::name::{is_object_name, label_value_error, qualified_name_error};
use crate::lint::schema::newer_fields;

lint_rule! {
    /// The schema of the kind refuses the object.
    ///
    /// # What it means
    ///
    /// A field does not exist or is missing, or a value has the wrong type, or is outside its allowed values, range, length
    /// or pattern; or a name, label or annotation key is not valid. The API server rejects the object. Clients that do not
    /// validate fields, such as Helm, drop unknown fields silently. A compartment without `selector` is a warning: the
    /// webhook adds an empty selector, which matches every node.
    ///
    /// # How to fix
    ///
    /// Correct the spelling, the case or the place of the field, or the value. `kubectl explain skyhook.spec` lists the
    /// fields. Quote strings that look like numbers or booleans: YAML reads `1.10` as a number and `yes` as a boolean.
    ///
    /// # Affected versions
    ///
    /// All operators. `uninstall` was added in v0.16, `runtimeRequiredCordonAfter` in v0.19.
    SKY806 "refused-by-schema" Error
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for manifest in input.manifests() {
        for violation in &manifest.violations {
            let finding = findings.report(manifest, &violation.path, &violation.message);
            finding.fix.clone_from(&violation.fix);
            if violation.missing
                && finding.subject.compartment.is_some()
                && finding.path.ends_with(".selector")
            {
                finding.severity(Severity::Warning);
                finding.message += "; the webhook adds an empty selector, which matches every node";
            }
        }
    }
    newer(input, findings);
    metadata(input, findings);
}

/// Reports fields that the operator does not know yet.
fn newer(input: &Input<'_>, findings: &mut LintFindings) {
    let Some(operator) = &input.operator else {
        return;
    };
    for (manifest, _) in input.skyhooks() {
        for (path, (major, minor)) in newer_fields(&manifest.value, operator) {
            if !manifest.violates_schema(&path) {
                let field = path.last().copied().unwrap_or_default();
                let message = format!("the operator knows {field} only from v{major}.{minor} on");
                findings.report(manifest, &path, message);
            }
        }
    }
}

fn metadata(input: &Input<'_>, findings: &mut LintFindings) {
    for manifest in input.manifests().filter(|m| m.is_known_kind()) {
        let name = manifest.name.as_str();
        if name.is_empty() {
            let generated = manifest.get(&["metadata", "generateName"]).is_some();
            if !generated && !manifest.violates_schema(&["metadata", "name"]) {
                findings.report(manifest, &["metadata"], "metadata.name is required");
            }
        } else if !is_object_name(name) {
            let message = format!(
                "the name {name:?} must consist of lower-case letters, digits, '-' and '.', and begin and end with a \
                 letter or digit"
            );
            findings.report(manifest, &["metadata", "name"], message);
        }
        for (field, has_values) in [("labels", true), ("annotations", false)] {
            let members = manifest.get(&["metadata", field]).and_then(|value| value.as_object());
            for (key, value) in members.into_iter().flatten() {
                let lower = if has_values { key.clone() } else { key.to_lowercase() };
                let key_error = qualified_name_error(&lower).map(|why| format!("the key {key:?} {why}"));
                let value = value.as_str().filter(|_| has_values);
                let value_error =
                    value.and_then(label_value_error).map(|why| format!("the value of {key} {why}"));
                for why in [key_error, value_error].into_iter().flatten() {
                    findings.report(manifest, &["metadata", field, key], format!("metadata.{field}: {why}"));
                }
            }
        }
    }
}
