//! Removes secrets from objects: values become placeholders, keys and names stay.

use std::collections::BTreeSet;
use std::sync::Mutex;

use jiff::Timestamp;
use serde_json::Value;

use crate::api::ApiFlavor;
use crate::redact::{Placeholders, names_a_secret};

/// Environment variables of the operator that rules use; their values are not masked.
const SETTINGS: [&str; 4] =
    ["RUNTIME_REQUIRED_TAINT", "LEGACY_CLEANUP_DELAY", "AGENT_LOG_ROOT", "SKYHOOK_DIR"];
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Maximum number of values to remember for masking logs.
const REMEMBERED: usize = 2_000;
/// Minimum length of a configuration line to mask in logs. Shorter lines may occur in any log.
const SHORTEST_LINE: usize = 12;

/// Masks the secrets of one capture.
#[derive(Default)]
pub struct Masks {
    placeholders: Placeholders,
    /// Values of environment variables and configurations, which logs may repeat.
    known: Mutex<BTreeSet<String>>,
}

impl Masks {
    /// Masks an object of this kind, and remembers its secrets for logs.
    pub fn object(&self, kind: &str, object: &mut Value) {
        let mut own = BTreeSet::new();
        self.structure(kind, object, &mut own);
        self.texts("", object, &own);
        let mut known = self.known.lock().expect("no thread panics while it holds the lock");
        let room = REMEMBERED.saturating_sub(known.len());
        known.extend(own.into_iter().take(room));
    }

    /// Masks a log, including secrets found in objects.
    pub fn log(&self, text: &str) -> String {
        let known = self.known.lock().expect("no thread panics while it holds the lock");
        self.placeholders.log(text, &known)
    }

    /// Masks the message of a server.
    pub fn words(&self, text: &str) -> String {
        self.placeholders.text(text).into_owned()
    }

    /// Masks secrets by their path in the object.
    fn structure(&self, kind: &str, object: &mut Value, own: &mut BTreeSet<String>) {
        if kind == "ConfigMap" || kind == "Secret" {
            for field in ["data", "binaryData", "stringData"] {
                self.values(object.get_mut(field), own);
            }
        }
        if ApiFlavor::ALL.iter().any(|flavor| flavor.kind() == kind) {
            let packages = object.pointer_mut("/spec/packages");
            for (_, package) in packages.and_then(Value::as_object_mut).into_iter().flatten() {
                self.values(package.get_mut("configMap"), own);
            }
        }
        let applied = object.pointer_mut("/metadata/annotations");
        if let Some(Value::String(text)) = applied.and_then(|all| all.get_mut(LAST_APPLIED)) {
            *text = match serde_json::from_str::<Value>(text) {
                Ok(mut applied) if applied.is_object() => {
                    self.structure(kind, &mut applied, own);
                    self.texts("", &mut applied, own);
                    applied.to_string()
                }
                _ => self.placeholders.of(text),
            };
        }
        self.environments(object, own);
    }

    /// Masks every string value of a map, and adds its lines of at least [`SHORTEST_LINE`] to the known
    /// secrets.
    fn values(&self, map: Option<&mut Value>, own: &mut BTreeSet<String>) {
        let map = map.and_then(Value::as_object_mut);
        for (_, value) in map.into_iter().flatten() {
            if let Value::String(text) = value {
                let lines = text.lines().map(str::trim);
                own.extend(lines.filter(|l| l.len() >= SHORTEST_LINE).map(str::to_owned));
                *text = self.placeholders.of(text);
            }
        }
    }

    /// Masks values of environment variables at any depth, except those of [`SETTINGS`].
    fn environments(&self, value: &mut Value, own: &mut BTreeSet<String>) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|v| self.environments(v, own)),
            Value::Object(object) => {
                for (key, value) in object.iter_mut().filter(|(key, _)| *key != "managedFields") {
                    match value {
                        Value::Array(variables) if key == "env" => {
                            variables.iter_mut().for_each(|v| self.variable(v, own));
                        }
                        value => self.environments(value, own),
                    }
                }
            }
            _ => {}
        }
    }

    fn variable(&self, variable: &mut Value, own: &mut BTreeSet<String>) {
        let is_setting = variable["name"].as_str().is_some_and(|n| SETTINGS.contains(&n));
        if let Some(Value::String(text)) = variable.get_mut("value").filter(|_| !is_setting) {
            own.insert(text.clone());
            *text = self.placeholders.of(text);
        }
    }

    /// Masks secrets by their key or pattern.
    fn texts(&self, key: &str, value: &mut Value, own: &BTreeSet<String>) {
        match value {
            Value::String(text) => self.text(key, text, own),
            Value::Array(items) => {
                let mut flag = false;
                for item in items {
                    if let (true, Value::String(text)) = (flag, &mut *item) {
                        *text = self.placeholders.of(text);
                    }
                    // A flag such as `--token` is followed by its value.
                    let word = item.as_str().filter(|w| w.starts_with('-'));
                    flag = word.is_some_and(names_a_secret);
                    self.texts("", item, own);
                }
            }
            Value::Object(object) => {
                for (key, value) in object.iter_mut().filter(|(key, _)| *key != "managedFields") {
                    // Termination messages of containers contain log lines.
                    if key == "terminated"
                        && let Some(Value::String(text)) = value.get_mut("message")
                    {
                        *text = self.placeholders.log(text, own);
                    }
                    self.texts(key, value, own);
                }
            }
            _ => {}
        }
    }

    fn text(&self, key: &str, text: &mut String, own: &BTreeSet<String>) {
        if names_a_secret(key) && text.parse::<Timestamp>().is_err() {
            *text = self.placeholders.of(text);
        } else if key.ends_with("/last-logs") {
            *text = self.placeholders.log(text, own);
        } else if let std::borrow::Cow::Owned(masked) = self.placeholders.text(text) {
            *text = masked;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn masked(kind: &str, mut object: Value) -> String {
        Masks::default().object(kind, &mut object);
        object.to_string()
    }

    #[test]
    fn values_go_and_names_stay() {
        for (kind, object) in [
            ("ConfigMap", json!({"data": {"file.conf": "canary"}, "metadata": {"name": "kept"}})),
            (
                "Skyhook",
                json!({"metadata": {"name": "kept"}, "spec": {"packages": {"kept": {
                    "env": [{"name": "KEPT", "value": "canary"}],
                    "configMap": {"kept": "canary"},
                }}}}),
            ),
            (
                "Pod",
                json!({"metadata": {"annotations": {LAST_APPLIED: json!({"spec": {"containers": [
                    {"name": "kept", "env": [{"name": "A", "value": "canary"}]}
                ]}}).to_string()}}}),
            ),
            ("Pod", json!({"metadata": {"name": "kept", "annotations": {LAST_APPLIED: "canary"}}})),
            ("Pod", json!({"spec": {"args": ["kept", "--api-token", "canary"], "token": "canary"}})),
            (
                "Job",
                json!({
                    "metadata": {"annotations": {"x/last-logs": "kept\npassword: canary\n+ canary-canary\n"}},
                    "spec": {"env": [{"name": "A", "value": "canary-canary"}]},
                }),
            ),
            ("Pod", json!({"status": {"kept": {"terminated": {"message": "secret: canary"}}}})),
            ("Event", json!({"kept": "Authorization: Bearer canary-canary"})),
        ] {
            let text = masked(kind, object);
            assert!(!text.contains("canary"), "{text}");
            assert!(text.contains("kept"), "{text}");
        }
    }

    #[test]
    fn keeps_fields_read_by_rules() {
        let object = json!({
            "metadata": {"name": "a", "annotations": {"x/nodeState": r#"{"token|1":{"name":"token"}}"#}},
            "spec": {"env": [{"name": "SKYHOOK_DIR", "value": "/root/skyhook"}]},
            "status": {"nodePriority": {"the-secret": "2026-11-20T10:00:00Z"}},
        });
        assert_eq!(masked("Pod", object.clone()), object.to_string());
    }

    #[test]
    fn logs_lose_what_objects_held() {
        let masks = Masks::default();
        let mut pod = json!({"spec": {"env": [{"name": "A", "value": "correct horse"}]}});
        masks.object("Pod", &mut pod);
        let log = masks.log("+ run 'correct horse' now\n");
        assert!(!log.contains("horse") && log.contains(" now"), "{log}");
    }
}
