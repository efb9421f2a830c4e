//! Lenient decoding: if the type of a field rejects a value, the field becomes unknown, and the object is
//! kept.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::api::{Object, UnknownField};

/// The fields that identify an object, and must be decoded.
const IDENTITY: [&str; 6] =
    ["apiVersion", "kind", "metadata", "metadata.name", "metadata.namespace", "metadata.uid"];

/// Decodes an object. Rejected nulls count as absent, as in Go; fields with other rejected values become
/// [`Object::unknown_fields`].
///
/// # Errors
///
/// Fails if the identity of the object cannot be read.
pub fn decode<T: Object + DeserializeOwned>(mut value: Value) -> Result<T, String> {
    // Decode from text: every type is then compiled for a single JSON reader.
    let strict = |value: &Value| serde_json::from_str::<T>(&value.to_string());
    let mut unknown = Vec::new();
    let decoded = strict(&value).or_else(|_| {
        drop_nulls(&mut value);
        strict(&value)
    });
    let mut object = match decoded {
        Ok(object) => object,
        Err(error) => {
            let accepts = |text: &str| serde_json::from_str::<T>(text).is_ok();
            let mut search = Search { accepts: &accepts, path: Vec::new(), unknown: Vec::new() };
            let accepted = search.accepted(value).map(|accepted| strict(&accepted));
            unknown = search.unknown;
            accepted.unwrap_or(Err(error)).map_err(|error| without_place(&error))?
        }
    };
    let lost = |field: &&UnknownField| IDENTITY.contains(&field.path.as_str());
    if let Some(UnknownField { path, value, .. }) = unknown.iter().find(lost) {
        return Err(format!("{path} cannot be read ({value})"));
    }
    if object.key().1.is_empty() {
        return Err("it has no name".to_owned());
    }
    object.set_unknown_fields(unknown.into());
    Ok(object)
}

/// Decodes JSON text; faster than [`decode`] if all values are accepted.
///
/// # Errors
///
/// The outer error means that the text is not JSON. The inner error is that of [`decode`].
pub fn decode_text<T: Object + DeserializeOwned>(text: &[u8]) -> serde_json::Result<Result<T, String>> {
    match serde_json::from_slice::<T>(text) {
        Ok(object) if !object.key().1.is_empty() => Ok(Ok(object)),
        _ => Ok(decode(serde_json::from_slice(text)?)),
    }
}

/// The message of an error without its position in the text.
pub fn without_place(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    match message.strip_suffix(&place) {
        Some(message) => message.to_owned(),
        None => message,
    }
}

/// Removes all null members and items.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, v| !v.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => {
            items.retain(|v| !v.is_null());
            items.iter_mut().for_each(drop_nulls);
        }
        _ => {}
    }
}

/// Finds the values that a type rejects, by bisection. Each probe decodes only a part of the value, so that
/// many rejected values cost little more than one.
struct Search<'a> {
    /// Whether the type accepts this JSON.
    accepts: &'a dyn Fn(&str) -> bool,
    /// Path of the current value.
    path: Vec<Step>,
    unknown: Vec<UnknownField>,
}

enum Step {
    Member(String),
    Item(usize),
}

impl Search<'_> {
    /// The value without its rejected parts; `None` if the whole value is rejected.
    fn accepted(&mut self, value: Value) -> Option<Value> {
        match value {
            Value::Object(members) if self.fits("{}") => {
                let parts = members.into_iter();
                let parts = parts.map(|(name, value)| (Step::Member(name), value));
                Some(group(self.accepted_of(parts.collect()), false))
            }
            Value::Array(items) if self.fits("[]") => {
                let parts = items.into_iter().enumerate();
                let parts = parts.map(|(at, value)| (Step::Item(at), value));
                Some(group(self.accepted_of(parts.collect()), true))
            }
            value => {
                self.unknown.push(UnknownField::new(path_text(&self.path), &value));
                // Null keeps the key, which may suffice, as for a node in a batch.
                self.fits("null").then_some(Value::Null)
            }
        }
    }

    /// The accepted members or items.
    fn accepted_of(&mut self, mut parts: Vec<(Step, Value)>) -> Vec<(Step, Value)> {
        if self.fits(&text_of(&parts)) {
            return parts;
        }
        if parts.len() > 1 {
            let second = parts.split_off(parts.len() / 2);
            let mut accepted = self.accepted_of(parts);
            accepted.extend(self.accepted_of(second));
            return accepted;
        }
        let mut accepted = Vec::new();
        for (step, value) in parts {
            self.path.push(step);
            let value = self.accepted(value);
            let step = self.path.pop();
            accepted.extend(step.zip(value));
        }
        accepted
    }

    /// Whether the type accepts an object with only this text at the current path.
    fn fits(&self, text: &str) -> bool {
        let (mut begin, mut end) = (String::new(), String::new());
        for step in &self.path {
            match step {
                Step::Member(name) => {
                    begin += &format!("{{{}:", Value::from(name.as_str()));
                    end.insert(0, '}');
                }
                Step::Item(_) => {
                    begin.push('[');
                    end.insert(0, ']');
                }
            }
        }
        (self.accepts)(&(begin + text + &end))
    }
}

fn text_of(parts: &[(Step, Value)]) -> String {
    let each = parts.iter().map(|(step, value)| match step {
        Step::Member(name) => format!("{}:{value}", Value::from(name.as_str())),
        Step::Item(_) => value.to_string(),
    });
    let each = each.collect::<Vec<String>>().join(",");
    match parts {
        [(Step::Item(_), _), ..] => format!("[{each}]"),
        _ => format!("{{{each}}}"),
    }
}

fn group(parts: Vec<(Step, Value)>, is_list: bool) -> Value {
    if is_list {
        return parts.into_iter().map(|(_, value)| value).collect();
    }
    let mut members = Map::new();
    for (step, value) in parts {
        if let Step::Member(name) = step {
            members.insert(name, value);
        }
    }
    members.into()
}

/// Formats a path: `status.conditions[3].lastTransitionTime`, `metadata.labels["example.com/a"]`
fn path_text(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Item(at) => text += &format!("[{at}]"),
            Step::Member(name) if name.contains(['.', '/']) => text += &format!("[{name:?}]"),
            Step::Member(name) => {
                if !text.is_empty() {
                    text.push('.');
                }
                text += name;
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::Skyhook;
    use crate::cluster::{ConfigMap, Event, Node, Pod};

    fn unknown<T: Object + DeserializeOwned>(value: Value) -> (T, Vec<String>) {
        let object: T = decode(value).expect("an object");
        let fields = object.unknown_fields().iter();
        let fields = fields.map(|field| format!("{} = {}", field.path, field.value));
        let fields = fields.collect();
        (object, fields)
    }

    #[test]
    fn null_counts_as_absent() {
        let pod = json!({"metadata": {"name": "a", "labels": null}, "spec": null, "status": {"conditions": [null]}});
        let (pod, fields) = unknown::<Pod>(pod);
        assert_eq!((pod.name(), fields), ("a", vec![]));
    }

    #[test]
    fn rejected_values_cost_their_fields_alone() {
        let condition =
            |kind: &str, at: Value| json!({"type": kind, "status": "True", "lastTransitionTime": at});
        let node = json!({
            "metadata": {"name": "n", "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"a.b/c": 7, "d": "e"}},
            "spec": {"taints": "none", "unschedulable": true},
            "status": {"conditions": [
                condition("Ready", json!("9999-12-31T23:59:59Z")),
                condition("Other", json!(7)),
                condition("Last", json!("2026-01-01T00:00:00Z")),
            ]},
        });
        let (node, fields) = unknown::<Node>(node);
        assert!(node.ready() == Some(true) && node.cordoned() == Some(true) && node.created.is_some());
        assert_eq!(node.labels.get("d").map(|v| v.as_str()), Some("e"));
        assert_eq!(
            fields,
            [
                "metadata.labels[\"a.b/c\"] = 7",
                "spec.taints = a string",
                "status.conditions[0].lastTransitionTime = 9999-12-31T23:59:59Z",
                "status.conditions[1].lastTransitionTime = 7",
            ]
        );
    }

    #[test]
    fn a_custom_resource_keeps_what_is_readable() {
        let skyhook = json!({
            "metadata": {"name": "a"},
            "spec": {"packages": {"good": {"version": "1"}, "bad": 7}, "priority": "high"},
            "status": {"nodePriority": {"n1": "2026-01-01T00:00:00Z", "n2": {}}, "nodeState": {"n1": 7}},
        });
        let (skyhook, fields) = unknown::<Skyhook>(skyhook);
        assert!(skyhook.package("good").is_some());
        assert_eq!(skyhook.status.node_priority.len(), 2);
        assert_eq!(
            fields,
            [
                "spec.packages.bad = 7",
                "spec.priority = a string",
                "status.nodePriority.n2 = an object",
                "status.nodeState.n1 = 7",
            ]
        );
    }

    #[test]
    fn without_identity_it_is_no_object() {
        let pod = |metadata: Value| decode::<Pod>(json!({"metadata": metadata})).map(|_| ());
        let refused = |why: &str| Err(why.to_owned());
        assert_eq!(pod(json!({"name": "a"})), Ok(()));
        assert_eq!(pod(json!("a")), refused("metadata cannot be read (a string)"));
        assert_eq!(pod(json!({"name": 7})), refused("metadata.name cannot be read (7)"));
        assert_eq!(pod(json!({"name": "a", "uid": {}})), refused("metadata.uid cannot be read (an object)"));
        for nameless in [json!(null), json!({}), json!({"name": null}), json!({"name": ""})] {
            assert_eq!(pod(nameless.clone()), refused("it has no name"), "{nameless}");
        }
        for odd in [json!(7), json!([]), json!("a")] {
            assert!(decode::<Pod>(odd.clone()).is_err(), "{odd}");
            assert!(decode::<ConfigMap>(odd.clone()).is_err(), "{odd}");
            assert!(decode::<Event>(odd.clone()).is_err(), "{odd}");
        }
    }

    #[test]
    fn many_rejected_values_take_no_longer_than_the_object_is_long() {
        let nodes: Map<String, Value> = (0..2000).map(|n| (format!("node-{n}"), json!(7))).collect();
        let text = json!({"metadata": {"name": "a"}, "status": {"nodePriority": nodes}});
        let length = text.to_string().len();
        let probed = std::cell::Cell::new(0);
        let accepts = |text: &str| {
            probed.set(probed.get() + text.len());
            serde_json::from_str::<Skyhook>(text).is_ok()
        };
        let mut search = Search { accepts: &accepts, path: Vec::new(), unknown: Vec::new() };
        search.accepted(text);
        assert_eq!(search.unknown.len(), 2000);
        assert!(probed.get() < 30 * length, "{} of {length}", probed.get());
    }
}
