//! Keys of the older API group in objects of the newer one. Pure.

use serde_json::Value;

use crate::api::ApiFlavor;

/// Paths of all keys and string values in spec, labels and annotations that equal the older API group or
/// start with `GROUP/`.
pub fn legacy_keys(object: &Value) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let parts = [vec!["metadata", "labels"], vec!["metadata", "annotations"], vec!["spec"]];
    for part in parts {
        let value = part.iter().fold(object, |value, key| &value[*key]);
        let path: Vec<String> = part.into_iter().map(str::to_owned).collect();
        collect(value, &path, &mut found);
    }
    found
}

fn collect(value: &Value, path: &[String], found: &mut Vec<Vec<String>>) {
    let below = |key: String| [path, &[key]].concat();
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                let path = below(key.clone());
                if names_group(key) {
                    found.push(path);
                } else {
                    collect(value, &path, found);
                }
            }
        }
        Value::Array(items) => {
            for (at, value) in items.iter().enumerate() {
                collect(value, &below(at.to_string()), found);
            }
        }
        Value::String(text) if names_group(text) => found.push(path.to_owned()),
        _ => {}
    }
}

/// Whether a text is the older API group, or a key in this group.
fn names_group(text: &str) -> bool {
    let rest = text.strip_prefix(ApiFlavor::Skyhook.group());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
