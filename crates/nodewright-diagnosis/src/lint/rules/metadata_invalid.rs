use super::{Input, LintFindings};
use crate::api::object_name::is_object_name;
use crate::api::syntax::{label_value_error, qualified_name_error};

lint_rule! {
    /// The name, a label or an annotation key is not valid.
    ///
    /// # What it means
    ///
    /// The API server rejects the object. Names consist of lower-case letters, digits, `-` and `.`, at most 253
    /// characters; label values have at most 63 characters.
    ///
    /// # How to fix
    ///
    /// Correct the name, key or value.
    SKY810 "metadata-invalid" Error
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for manifest in input.manifests().filter(|m| m.is_known_kind()) {
        let name = manifest.name.as_str();
        if name.is_empty() {
            let generated = manifest.has(&["metadata", "generateName"]);
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
