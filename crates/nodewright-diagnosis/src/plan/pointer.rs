//! JSON pointers, and the operations of a JSON Patch.

use serde_json::{Map, Value, json};

/// Formats a path as a JSON pointer: `["metadata", "annotations", "a/b"]` becomes
/// `/metadata/annotations/a~1b`.
pub fn pointer<S: AsRef<str>>(path: &[S]) -> String {
    path.iter().fold(String::new(), |so_far, step| {
        let step = step.as_ref().replace('~', "~0").replace('/', "~1");
        format!("{so_far}/{step}")
    })
}

/// The value at a path; `None` if absent or null, which a server does not distinguish.
pub fn lookup<'a>(object: &'a Value, pointer: &str) -> Option<&'a Value> {
    object.pointer(pointer).filter(|v| !v.is_null())
}

/// Sets or removes a member, and creates missing maps on the path.
pub fn set<S: AsRef<str>>(object: &mut Value, path: &[S], value: Option<Value>) {
    let Some((last, parents)) = path.split_last() else {
        return;
    };
    let mut at = object;
    for step in parents {
        if !at.is_object() {
            *at = Value::Object(Map::new());
        }
        let map = at.as_object_mut().expect("the value is a map");
        at = map.entry(step.as_ref()).or_insert_with(|| json!({}));
    }
    if !at.is_object() {
        *at = Value::Object(Map::new());
    }
    let map = at.as_object_mut().expect("the value is a map");
    match value {
        Some(value) => {
            map.insert(last.as_ref().to_owned(), value);
        }
        None => {
            map.shift_remove(last.as_ref());
        }
    }
}

/// Removes empty annotations, labels and finalizers, which the server does not store.
pub fn normalise(object: &mut Value) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    for member in ["annotations", "labels", "finalizers"] {
        let empty = match metadata.get(member) {
            Some(Value::Object(map)) => map.is_empty(),
            Some(Value::Array(list)) => list.is_empty(),
            Some(Value::Null) => true,
            _ => false,
        };
        if empty {
            metadata.shift_remove(member);
        }
    }
}

pub fn test(pointer: &str, value: Value) -> Value {
    json!({"op": "test", "path": pointer, "value": value})
}

/// The operation that turns one value into another; `None` if they are equal.
pub fn change(pointer: &str, from: Option<&Value>, to: Option<&Value>) -> Option<Value> {
    match (from, to) {
        (from, to) if from == to => None,
        (_, None) => Some(json!({"op": "remove", "path": pointer})),
        (Some(_), Some(to)) => Some(json!({"op": "replace", "path": pointer, "value": to})),
        (None, Some(to)) => Some(json!({"op": "add", "path": pointer, "value": to})),
    }
}
