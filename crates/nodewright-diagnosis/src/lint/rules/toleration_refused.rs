use serde_json::Value;

use super::syntax::{label_value_error, qualified_name_error};
use super::{Input, LintFindings};

lint_rule! {
    /// Kubernetes refuses a toleration of the custom resource.
    ///
    /// # What it means
    ///
    /// The webhook accepts the custom resource, but the API server rejects every pod of its packages, so nothing runs.
    /// `Exists` takes no `value`; an empty `key` requires `Exists`; `tolerationSeconds` requires the effect `NoExecute`.
    ///
    /// # How to fix
    ///
    /// Correct the toleration.
    SKY871 "toleration-refused" Error
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for (manifest, _) in input.skyhooks() {
        let path = ["spec", "additionalTolerations"];
        let tolerations = manifest.get(&path).and_then(Value::as_array);
        for (index, toleration) in tolerations.into_iter().flatten().enumerate() {
            let path = ["spec", "additionalTolerations", &index.to_string()];
            if manifest.violates_schema(&path) {
                continue;
            }
            if let Some((field, why)) = refusal(toleration) {
                findings
                    .report(
                        manifest,
                        &[&path[..], &[field]].concat(),
                        format!("no pod can be created: {why}"),
                    )
                    .fix("Correct the toleration");
            }
        }
    }
}

/// The field that makes the API server refuse a pod with this toleration, and why (Kubernetes `ValidateTolerations`).
fn refusal(toleration: &Value) -> Option<(&'static str, String)> {
    let text = |field: &str| toleration[field].as_str().unwrap_or_default();
    let (key, operator, value, effect) = (text("key"), text("operator"), text("value"), text("effect"));
    let key_error = qualified_name_error(key).filter(|_| !key.is_empty());
    if let Some(why) = key_error {
        return Some(("key", format!("the key {key:?} {why}")));
    }
    match operator {
        "Exists" if !value.is_empty() => {
            let why = format!("operator Exists takes no value, but value is {value:?}");
            return Some(("value", why));
        }
        "Exists" => {}
        "" | "Equal" | "Gt" | "Lt" => {
            if key.is_empty() {
                let why = "a toleration without a key must have operator Exists".to_owned();
                return Some(("operator", why));
            }
            if let Some(why) = label_value_error(value) {
                return Some(("value", format!("the value {value:?} {why}")));
            }
        }
        other => {
            let why = format!("the operator must be Exists or Equal, but is {other:?}");
            return Some(("operator", why));
        }
    }
    if !["", "NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect) {
        let why = format!("the effect must be NoSchedule, PreferNoSchedule or NoExecute, but is {effect:?}");
        return Some(("effect", why));
    }
    if !toleration["tolerationSeconds"].is_null() && effect != "NoExecute" {
        let why = "tolerationSeconds requires effect NoExecute".to_owned();
        return Some(("tolerationSeconds", why));
    }
    None
}
