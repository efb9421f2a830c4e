use serde_json::Value;

use super::{Input, LintFindings};

lint_rule! {
    /// Kubernetes refuses pods with an environment variable of a package.
    ///
    /// # What it means
    ///
    /// The webhook accepts the custom resource, but the API server rejects every pod of the package, so it never runs. A
    /// variable has a name without `=`, and either `value` or exactly one source in `valueFrom`.
    ///
    /// # How to fix
    ///
    /// Correct the variable.
    SKY873 "env-refused" Error
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for (manifest, skyhook) in input.skyhooks() {
        for (name, _) in skyhook.packages() {
            let env = manifest.get(&["spec", "packages", name, "env"]).and_then(Value::as_array);
            for (index, variable) in env.into_iter().flatten().enumerate() {
                let path = ["spec", "packages", name, "env", &index.to_string()];
                if manifest.violates_schema(&path) {
                    continue;
                }
                if let Some(why) = refusal(variable) {
                    findings
                        .report(manifest, &path, format!("no pod can be created: {why}"))
                        .fix("Correct the variable");
                }
            }
        }
    }
}

/// Why the API server refuses a pod with this variable (Kubernetes `ValidateEnv`).
fn refusal(variable: &Value) -> Option<String> {
    let name = variable["name"].as_str().unwrap_or_default();
    if name.is_empty() {
        return Some("the variable has an empty name".to_owned());
    }
    if !name.bytes().all(|b| (b' '..=b'~').contains(&b) && b != b'=') {
        return Some(format!("the name {name:?} contains '=' or a character that cannot be printed"));
    }
    let source = variable["valueFrom"].as_object()?;
    let sources = source.values().filter(|source| !source.is_null()).count();
    let has_value = variable["value"].as_str().is_some_and(|v| !v.is_empty());
    match sources {
        0 => Some(format!("valueFrom of {name} has no source")),
        1 if has_value => Some(format!("{name} sets both value and valueFrom")),
        1 => None,
        _ => Some(format!("valueFrom of {name} has {sources} sources")),
    }
}
