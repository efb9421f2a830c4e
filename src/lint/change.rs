//! The change that applying a manifest makes to an object in the cluster.

use serde_json::{Map, Value};

use super::Manifest;
use crate::api::Skyhook;

/// The object after `kubectl apply` or a Helm upgrade: the fields of the manifest replace those of the live object,
/// fields that an earlier apply set and the manifest lacks are removed, and all others are kept.
///
/// Without the annotation of an earlier apply, the keys of `spec.packages` that the manifest lacks are removed, as
/// Helm and server-side apply do.
pub fn applied(live: &Skyhook, manifest: &Manifest) -> Value {
    let last = live.last_applied();
    let mut object = live.whole.clone();
    for field in ["spec", "metadata"] {
        let Some(wanted) = manifest.get(&[field]) else {
            continue;
        };
        let earlier = last.as_ref().map_or(&Value::Null, |last| &last[field]);
        overlay(&mut object[field], wanted, earlier);
    }
    if last.is_none()
        && let Some(Value::Object(packages)) = object.pointer_mut("/spec/packages")
    {
        packages.retain(|name, _| manifest.has(&["spec", "packages", name]));
    }
    object
}

/// Lays a manifest over a live value, key by key; lists are replaced.
fn overlay(live: &mut Value, wanted: &Value, earlier: &Value) {
    let Value::Object(wanted) = wanted else {
        *live = wanted.clone();
        return;
    };
    if !live.is_object() {
        *live = Value::Object(Map::new());
    }
    let members = live.as_object_mut().expect("it is an object");
    for key in earlier.as_object().into_iter().flat_map(Map::keys) {
        if !wanted.contains_key(key) {
            members.remove(key);
        }
    }
    for (key, value) in wanted {
        if value.is_null() {
            members.remove(key);
            continue;
        }
        let at = members.entry(key).or_insert(Value::Null);
        overlay(at, value, &earlier[key]);
    }
}

/// The part of an object that a manifest can change: labels, annotations and spec, in the order of their keys.
pub fn changeable(object: &Value) -> Value {
    let mut kept = Map::new();
    for field in ["labels", "annotations"] {
        let mut members = object["metadata"][field]
            .as_object()
            .cloned()
            .unwrap_or_default();
        // A copy of the whole object, by kubectl.
        members.retain(|key, _| key != "kubectl.kubernetes.io/last-applied-configuration");
        if !members.is_empty() {
            kept.insert(field.to_owned(), sorted(&Value::Object(members)));
        }
    }
    kept.insert("spec".to_owned(), sorted(&object["spec"]));
    kept.into()
}

/// A value with all keys in order, so that only changes differ.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(key, _)| *key);
            members
                .into_iter()
                .map(|(key, value)| (key.clone(), sorted(value)))
                .collect()
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        value => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_fields_of_an_earlier_apply_are_removed() {
        let mut live = json!({"a": 1, "b": {"c": 1, "d": 2}, "e": [1], "f": "default"});
        let wanted = json!({"b": {"c": 3}, "e": [2, 3]});
        overlay(
            &mut live,
            &wanted,
            &json!({"a": 1, "b": {"c": 1}, "e": [1]}),
        );
        assert_eq!(
            live,
            json!({"b": {"c": 3, "d": 2}, "e": [2, 3], "f": "default"})
        );
    }
}
