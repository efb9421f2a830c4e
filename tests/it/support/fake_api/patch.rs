//! JSON Patch, merge patch and strategic merge patch.

use serde_json::{Map, Value};

use super::answer::Problem;
use super::kind::Kind;
use super::log::Logged;

/// Applies a patch of a content type to an object.
pub fn apply(kind: &Kind, content_type: &str, object: &mut Value, patch: &Value) -> Result<(), Problem> {
    match content_type.split(';').next().unwrap_or_default().trim() {
        "application/merge-patch+json" => merge(object, patch),
        "application/json-patch+json" => {
            json_patch(object, patch)?;
        }
        "application/strategic-merge-patch+json" if !kind.custom => {
            strategic(object, patch, &mut Vec::new());
        }
        other => {
            let message = format!(
                "the body of the request was in an unknown format - accepted media types include: \
                 application/json-patch+json, application/merge-patch+json (got {other})"
            );
            return Err(Problem::new(415, "UnsupportedMediaType", message));
        }
    }
    Ok(())
}

/// Whether a `test` of the patch fails on every real server: servers compare the text of the value with the
/// object's JSON as Go writes it, where these characters are escaped. An unescaped one never matches.
pub fn test_never_matches(content_type: &str, asked: &Logged) -> bool {
    const ESCAPED: [char; 5] = ['<', '>', '&', '\u{2028}', '\u{2029}'];
    let tests = asked.body.as_array().into_iter().flatten();
    let mut tests = tests.filter(|operation| operation["op"] == "test");
    content_type == "application/json-patch+json"
        && asked.text.contains(ESCAPED)
        && tests.any(|test| test["value"].to_string().contains(ESCAPED))
}

/// JSON Patch (RFC 6902) as the API server applies it: a `test` against null passes for an absent value, but
/// not below an absent parent.
fn json_patch(object: &mut Value, patch: &Value) -> Result<(), Problem> {
    let patch: json_patch::Patch =
        serde_json::from_value(patch.clone()).map_err(|e| Problem::bad_request(e.to_string()))?;
    let mut after = object.clone();
    for operation in patch.0 {
        if let json_patch::PatchOperation::Test(test) = &operation
            && test.value.is_null()
        {
            let pointer = test.path.to_string();
            let parent = pointer.rsplit_once('/').map_or("", |(parent, _)| parent);
            let absent = after.pointer(&pointer).is_none_or(Value::is_null);
            if after.pointer(parent).is_none() || !absent {
                return Err(Problem::rejected_patch());
            }
            continue;
        }
        json_patch::patch(&mut after, &[operation]).map_err(|_| Problem::rejected_patch())?;
    }
    *object = after;
    Ok(())
}

/// JSON Merge Patch (RFC 7386).
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    let target = as_map(target);
    for (key, value) in patch {
        match value {
            Value::Null => {
                target.remove(key);
            }
            value => merge(target.entry(key.as_str()).or_insert(Value::Null), value),
        }
    }
}

/// The paths of lists that are merged by a key of their items, and that key.
const BY_KEY: [(&str, &str); 6] = [
    ("status.conditions", "type"),
    ("status.addresses", "type"),
    ("metadata.ownerReferences", "uid"),
    ("spec.containers", "name"),
    ("spec.initContainers", "name"),
    ("spec.template.spec.containers", "name"),
];

/// Lists of plain values that are merged as sets.
const SETS: [&str; 1] = ["metadata.finalizers"];

/// Strategic merge patch: like a merge patch, but the lists above are merged, and `$patch` directives apply.
///
/// Other lists, such as a node's taints, are replaced as a whole.
fn strategic(target: &mut Value, patch: &Value, path: &mut Vec<String>) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if patch.get("$patch").and_then(Value::as_str) == Some("replace") {
        let mut whole = patch.clone();
        whole.remove("$patch");
        *target = Value::Object(whole);
        return;
    }
    let target = as_map(target);
    for (key, value) in patch {
        if let Some(list) = key.strip_prefix("$deleteFromPrimitiveList/") {
            let gone = value.as_array().cloned().unwrap_or_default();
            if let Some(Value::Array(items)) = target.get_mut(list) {
                items.retain(|item| !gone.contains(item));
            }
            continue;
        }
        if key.starts_with("$setElementOrder/") || key == "$retainKeys" {
            continue;
        }
        path.push(key.clone());
        let here = path.join(".");
        match (value, merge_key(&here)) {
            (Value::Null, _) => {
                target.remove(key);
            }
            (Value::Array(items), Some(by)) => {
                let list = target.entry(key.as_str()).or_insert(Value::Null);
                merge_list(as_list(list), items, by, path);
            }
            (Value::Array(items), None) if SETS.contains(&here.as_str()) => {
                let list = as_list(target.entry(key.as_str()).or_insert(Value::Null));
                for item in items {
                    if !list.contains(item) {
                        list.push(item.clone());
                    }
                }
            }
            (value, _) => {
                let entry = target.entry(key.as_str()).or_insert(Value::Null);
                strategic(entry, value, path);
            }
        }
        path.pop();
    }
}

fn merge_key(path: &str) -> Option<&'static str> {
    BY_KEY.iter().find(|(p, _)| *p == path).map(|(_, key)| *key)
}

fn merge_list(list: &mut Vec<Value>, patch: &[Value], by: &str, path: &mut Vec<String>) {
    for item in patch {
        let at = list.iter().position(|old| old[by] == item[by]);
        match (item["$patch"].as_str(), at) {
            (Some("replace"), _) => {
                *list = patch.iter().filter(|i| i["$patch"].is_null()).cloned().collect();
                return;
            }
            (Some("delete"), Some(at)) => {
                list.remove(at);
            }
            (Some("delete"), None) => {}
            (_, Some(at)) => strategic(&mut list[at], item, path),
            (_, None) => list.push(item.clone()),
        }
    }
}

fn as_map(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("the value is an object")
}

fn as_list(value: &mut Value) -> &mut Vec<Value> {
    if !value.is_array() {
        *value = Value::Array(Vec::new());
    }
    value.as_array_mut().expect("the value is an array")
}
