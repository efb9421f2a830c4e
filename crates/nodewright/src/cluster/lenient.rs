//! Lenient decoding: a field with a value that its type rejects becomes unknown, and the object is kept.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::api::{Object, UnknownField, meta};

/// The fields that identify an object, and must be decoded.
const IDENTITY: [&str; 6] =
    ["apiVersion", "kind", "metadata", "metadata.name", "metadata.namespace", "metadata.uid"];

/// Decodes an object. Rejected nulls count as absent, as in Go; times beyond our range become its nearest
/// end. API servers store no other values that our types reject: fields with such values, from files or from
/// a definition with another schema, become [`Object::unknown_fields`].
///
/// # Errors
///
/// Fails if the identity of the object cannot be read.
pub fn decode<T: Object + DeserializeOwned>(mut value: Value) -> Result<T, String> {
    // Decode from text: every type is then compiled for a single JSON reader.
    let strict = |value: &Value| serde_json::from_str::<T>(&value.to_string());
    let mut unknown = Vec::new();
    let decoded = strict(&value).or_else(|_| {
        normalize(&mut value);
        strict(&value)
    });
    let mut object = match decoded {
        Ok(object) => object,
        Err(error) => {
            let accepts = |text: &str| serde_json::from_str::<T>(text).is_ok();
            let mut search = Search::new(&accepts);
            let accepted = search.accepted(value).map(|accepted| strict(&accepted));
            unknown = search.unknown;
            accepted.unwrap_or(Err(error)).map_err(|error| without_place(&error))?
        }
    };
    let lost = |field: &&UnknownField| IDENTITY.contains(&field.path.as_str());
    if let Some(UnknownField { path, value }) = unknown.iter().find(lost) {
        return Err(format!("{path} cannot be read ({value})"));
    }
    if object.key().1.is_empty() {
        return Err("it has no name".to_owned());
    }
    object.set_unknown_fields(unknown);
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

/// Removes all null members and items, and replaces times beyond our range by its nearest end.
fn normalize(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, value| !value.is_null());
            // Users' texts: a time in an annotation must be compared as it is.
            members
                .iter_mut()
                .filter(|(name, _)| !matches!(name.as_str(), "annotations" | "data"))
                .for_each(|(_, value)| normalize(value));
        }
        Value::Array(items) => {
            items.retain(|item| !item.is_null());
            items.iter_mut().for_each(normalize);
        }
        Value::String(text) => {
            if let Some(time) = meta::repaired(text) {
                *text = time.to_string();
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Finds the values that a type rejects. Each value is tried alone, and its parts if it is rejected, so that
/// the search takes as long as decoding the object once for each level.
struct Search<'a> {
    /// Whether the type accepts this JSON.
    accepts: &'a dyn Fn(&str) -> bool,
    /// Path of the current value: `status.conditions[3].lastTransitionTime`, `metadata.labels["example.com/a"]`
    path: String,
    /// JSON of an object with only the current value: the text before the value, and the closing brackets in
    /// reverse order.
    begin: String,
    end: String,
    unknown: Vec<UnknownField>,
}

impl<'a> Search<'a> {
    fn new(accepts: &'a dyn Fn(&str) -> bool) -> Search<'a> {
        Search { accepts, path: String::new(), begin: String::new(), end: String::new(), unknown: Vec::new() }
    }

    /// The value without its rejected parts; `None` if the whole value is rejected.
    fn accepted(&mut self, value: Value) -> Option<Value> {
        if self.fits(&value.to_string()) {
            return Some(value);
        }
        match value {
            Value::Object(members) if self.fits("{}") => {
                let member = |(name, value): (String, Value)| {
                    let step = match name.contains(['.', '/']) {
                        true => format!("[{name:?}]"),
                        false if self.path.is_empty() => name.clone(),
                        false => format!(".{name}"),
                    };
                    let begin = format!("{{{}:", Value::from(name.as_str()));
                    Some((name, self.part(&step, &begin, '}', value)?))
                };
                Some(Value::Object(members.into_iter().filter_map(member).collect()))
            }
            Value::Array(items) if self.fits("[]") => {
                let items = items.into_iter().enumerate();
                let item = |(at, value)| self.part(&format!("[{at}]"), "[", ']', value);
                Some(Value::Array(items.filter_map(item).collect()))
            }
            value => {
                self.unknown.push(UnknownField::new(self.path.clone(), &value));
                // Null keeps the key, which may suffice, as for a node in a batch.
                self.fits("null").then_some(Value::Null)
            }
        }
    }

    fn part(&mut self, step: &str, begin: &str, end: char, value: Value) -> Option<Value> {
        let (path, before) = (self.path.len(), self.begin.len());
        self.path += step;
        self.begin += begin;
        self.end.push(end);
        let accepted = self.accepted(value);
        self.path.truncate(path);
        self.begin.truncate(before);
        self.end.pop();
        accepted
    }

    /// Whether the type accepts an object with only this text at the current path.
    fn fits(&self, text: &str) -> bool {
        let end: String = self.end.chars().rev().collect();
        (self.accepts)(&[&self.begin, text, &end].concat())
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::{Map, json};

    use super::*;
    use crate::api::Skyhook;
    use crate::cluster::{ConfigMap, Event, Node, Pod};

    fn unknown<T: Object + DeserializeOwned>(value: Value) -> (T, Vec<String>) {
        let object: T = decode(value).expect("an object");
        let fields = object.unknown_fields().iter().map(|field| format!("{} = {}", field.path, field.value));
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
                condition("Ready", json!(true)),
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
                "status.conditions[0].lastTransitionTime = true",
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

    /// API servers store times that our type cannot hold.
    #[test]
    fn times_beyond_our_range_become_its_end() {
        let text = "9999-12-31T23:59:59Z";
        let node = json!({
            "metadata": {"name": "n", "creationTimestamp": text, "annotations": {"until": text}},
            "status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": text}]},
        });
        let (node, fields) = unknown::<Node>(node);
        assert_eq!(fields, [""; 0]);
        assert_eq!(node.created, Some(Timestamp::MAX));
        let ready = node.condition("Ready").expect("a condition");
        assert_eq!(ready.last_transition_time, Some(Timestamp::MAX));
        let pod =
            json!({"metadata": {"name": "p", "annotations": {"until": text}}, "status": {"startTime": text}});
        let (pod, fields) = unknown::<Pod>(pod);
        assert_eq!((fields, pod.status.start_time), (vec![], Some(Timestamp::MAX)));
        assert_eq!(pod.metadata.annotations["until"], text);
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
        let mut search = Search::new(&accepts);
        search.accepted(text);
        assert_eq!(search.unknown.len(), 2000);
        assert!(probed.get() < 30 * length, "{} of {length}", probed.get());
    }
}
