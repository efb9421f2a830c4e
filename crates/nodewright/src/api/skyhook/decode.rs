//! Decodes a custom resource, unknown fields included.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::{Skyhook, SkyhookStatus};
use crate::api::meta::without_status;

impl<'de> Deserialize<'de> for Skyhook {
    /// Decodes the status directly from its text, without an intermediate JSON value: the status is most of
    /// the object, over a megabyte on a thousand nodes.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Skyhook, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        Skyhook::read(text.get()).map_err(D::Error::custom)
    }
}

impl Skyhook {
    fn read(text: &str) -> serde_json::Result<Skyhook> {
        let mut members: BTreeMap<String, &RawValue> = serde_json::from_str(text)?;
        let status = members.remove("status");
        let mut whole = Map::new();
        for (name, value) in members {
            let value = match name.as_str() {
                "metadata" => read_metadata(value.get())?,
                _ => serde_json::from_str(value.get())?,
            };
            whole.insert(name, value);
        }
        let mut whole = Value::Object(whole);
        let mut skyhook = Skyhook::deserialize(&whole)?;
        if let Some(status) = status {
            (skyhook.status, whole["status"]) = read_status(status.get())?;
        }
        Ok(Skyhook { whole, size: compact_len(text), ..skyhook })
    }
}

/// Decodes the metadata. Drops the status fields in `managedFields`, which name every node and every package.
fn read_metadata(text: &str) -> serde_json::Result<Value> {
    #[derive(Serialize, Deserialize)]
    struct Entry {
        #[serde(rename = "fieldsV1", default, deserialize_with = "without_status")]
        fields: Value,
        #[serde(flatten)]
        rest: Map<String, Value>,
    }
    let Ok(members) = serde_json::from_str::<BTreeMap<String, &RawValue>>(text) else {
        return serde_json::from_str(text);
    };
    let mut metadata = Map::new();
    for (name, value) in members {
        let value = value.get();
        let entries = (name == "managedFields").then(|| serde_json::from_str::<Vec<Entry>>(value));
        let value = match entries {
            Some(Ok(entries)) => serde_json::to_value(entries)?,
            _ => serde_json::from_str(value)?,
        };
        metadata.insert(name, value);
    }
    Ok(metadata.into())
}

/// Decodes the status, and returns the part of it to keep as JSON.
fn read_status(text: &str) -> serde_json::Result<(SkyhookStatus, Value)> {
    let status: SkyhookStatus = serde_json::from_str(text).or_else(|_| {
        // Decode from a value, so that the error has no text position, which would not help the user.
        let value: Value = serde_json::from_str(text)?;
        SkyhookStatus::deserialize(&value)
    })?;
    let mut kept = Map::new();
    if !status.config_updates.is_empty() {
        let updates = serde_json::to_value(&status.config_updates)?;
        kept.insert("configUpdates".to_owned(), updates);
    }
    Ok((status, kept.into()))
}

/// Length of a JSON text without the whitespace between tokens, in bytes.
fn compact_len(text: &str) -> usize {
    // Fast path for compact JSON, as servers write it: examining every byte takes as long as decoding.
    let bytes = text.as_bytes();
    let separates = |blank: usize| {
        let before = &bytes[..blank];
        before.ends_with(b"\":") || before.ends_with(b",")
    };
    let is_compact =
        memchr::memchr2(b'\n', b'\t', bytes).is_none() && !memchr::memchr_iter(b' ', bytes).any(separates);
    if is_compact {
        return text.len();
    }
    let (mut length, mut inside, mut escaped) = (0, false, false);
    for byte in text.bytes() {
        length += usize::from(inside || !byte.is_ascii_whitespace());
        (inside, escaped) = match byte {
            _ if escaped => (inside, false),
            b'"' => (!inside, false),
            b'\\' => (inside, inside),
            _ => (inside, false),
        };
    }
    length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_does_not_count() {
        let value = serde_json::json!({"a b": ["c \" d", {"e\\": " "}], "f": null});
        let compact = value.to_string();
        let pretty = serde_json::to_string_pretty(&value).expect("JSON");
        assert_eq!(compact_len(&pretty), compact.len());
        assert_eq!(compact_len(&compact), compact.len());
    }

    #[test]
    fn of_the_status_what_only_the_operator_knows_is_kept_as_it_was() {
        let object = serde_json::json!({
            "metadata": {"name": "a"},
            "status": {
                "nodeState": {"n": {"b|1": {"state": "complete", "stage": "apply"}}},
                "configUpdates": {"b": ["k"]},
            },
        });
        let skyhook: Skyhook = serde_json::from_value(object.clone()).expect("an object");
        assert_eq!(skyhook.size, object.to_string().len());
        assert_eq!(skyhook.status.config_updates["b"], ["k"]);
        assert_eq!(skyhook.status.node_state.of("n").expect("a node")["b|1"]["stage"], "apply");
        let kept = serde_json::json!({"configUpdates": {"b": ["k"]}});
        assert_eq!(skyhook.whole["status"], kept);
    }

    #[test]
    fn who_wrote_the_status_is_known_and_not_what_of_it() {
        let fields = serde_json::json!({"f:metadata": {"f:annotations": {"f:a": {}}}});
        let mut read = fields.clone();
        read["f:status"] = serde_json::json!({"f:nodeState": {"f:n": {"f:b|1": {}}}});
        let entry = |fields| serde_json::json!({"fieldsV1": fields, "manager": "manager"});
        let object = serde_json::json!({"metadata": {"managedFields": [entry(read)], "name": "a"}});
        let skyhook: Skyhook = serde_json::from_value(object).expect("an object");
        let metadata = serde_json::json!({"managedFields": [entry(fields.clone())], "name": "a"});
        assert_eq!(skyhook.whole["metadata"], metadata);
        assert_eq!(skyhook.metadata.managed_fields[0].fields, fields);
        assert_eq!(skyhook.metadata.managed_fields[0].manager, "manager");
    }

    #[test]
    fn a_status_of_another_type_is_said_without_a_place() {
        let object = serde_json::json!({"metadata": {"name": "a"}, "status": {"nodeState": {"n": 7}}});
        let why = serde_json::from_value::<Skyhook>(object).expect_err("a number is not a map");
        let wanted = "invalid type: integer `7`, expected a map";
        assert_eq!(why.to_string(), wanted);
    }
}
