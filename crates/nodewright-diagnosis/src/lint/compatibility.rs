//! Fields and keys that some versions of the operator do not know. Pure.

use serde_json::Value;

use crate::api::{ApiFlavor, Version};

/// A field that operators know only since a later version.
#[derive(Debug)]
pub struct NewerField {
    pub path: Vec<String>,
    /// The first version that knows the field: major and minor number.
    pub since: (u64, u64),
}

/// The fields of a custom resource that this version of the operator does not know.
pub fn newer_fields(object: &Value, operator: &Version) -> Vec<NewerField> {
    let packages = object["spec"]["packages"].as_object().into_iter().flatten();
    let uninstalls = packages.map(|(name, _)| (vec!["spec", "packages", name, "uninstall"], (0, 16)));
    let cordon = (vec!["spec", "runtimeRequiredCordonAfter"], (0, 19));
    let newer = uninstalls.chain([cordon]).filter(|(path, (major, minor))| {
        let value = path.iter().try_fold(object, |value, key| value.get(*key));
        value.is_some() && !operator.at_least(*major, *minor)
    });
    let owned = |path: Vec<&str>| path.into_iter().map(str::to_owned).collect();
    newer.map(|(path, since)| NewerField { path: owned(path), since }).collect()
}

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
