//! Object metadata and conditions, read leniently.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, IgnoredAny, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::name::Name;

/// The part of `ObjectMeta` that we look at.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Meta {
    pub name: String,
    pub namespace: Option<String>,
    pub uid: Option<String>,
    /// Counts the writes to `spec` (and, in the older generation, the operator's own first write).
    pub generation: i64,
    pub resource_version: Option<String>,
    pub creation_timestamp: Option<Timestamp>,
    /// Set once deletion was asked for.
    pub deletion_timestamp: Option<Timestamp>,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub finalizers: Vec<String>,
    pub owner_references: Vec<OwnerReference>,
    pub managed_fields: Vec<ManagedFields>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct OwnerReference {
    pub kind: String,
    pub name: String,
    pub uid: String,
    pub controller: bool,
}

/// Who last wrote which fields, and when.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ManagedFields {
    pub manager: String,
    pub operation: String,
    pub time: Option<Timestamp>,
    pub subresource: String,
    /// Without those of the status: of a custom resource these are most of all that is read.
    #[serde(rename = "fieldsV1", deserialize_with = "without_status")]
    pub fields: Value,
}

/// Reads `fieldsV1`, and passes over what stands under `f:status`.
///
/// # Errors
///
/// It is neither an object nor null.
pub(super) fn without_status<'de, D: Deserializer<'de>>(from: D) -> Result<Value, D::Error> {
    struct Fields;

    impl<'de> Visitor<'de> for Fields {
        type Value = Value;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map")
        }

        fn visit_unit<E>(self) -> Result<Value, E> {
            Ok(Value::Null)
        }

        fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
            let mut kept = Map::new();
            while let Some(name) = fields.next_key::<String>()? {
                if name == "f:status" {
                    fields.next_value::<IgnoredAny>()?;
                } else {
                    kept.insert(name, fields.next_value()?);
                }
            }
            Ok(kept.into())
        }
    }
    from.deserialize_any(Fields)
}

/// Reads metadata without `managedFields`: no rule asks for those of pods and Jobs, and they are most of a pod.
///
/// # Errors
///
/// It is not metadata.
pub fn without_managers<'de, D: Deserializer<'de>>(from: D) -> Result<Meta, D::Error> {
    struct Fields;

    impl<'de> Visitor<'de> for Fields {
        type Value = Meta;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map")
        }

        fn visit_unit<E>(self) -> Result<Meta, E> {
            Ok(Meta::default())
        }

        fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Meta, A::Error> {
            Meta::deserialize(MapAccessDeserializer::new(WithoutManagers(fields)))
        }
    }
    from.deserialize_any(Fields)
}

struct WithoutManagers<A>(A);

impl<'de, A: MapAccess<'de>> MapAccess<'de> for WithoutManagers<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        while let Some(key) = self.0.next_key::<Cow<'de, str>>()? {
            if key != "managedFields" {
                return seed.deserialize(key.into_deserializer()).map(Some);
            }
            self.0.next_value::<IgnoredAny>()?;
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.0.next_value_seed(seed)
    }
}

impl Meta {
    /// Whether deletion was asked for.
    pub fn deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// The uid of the controlling owner.
    pub fn controller_uid(&self) -> Option<&str> {
        self.owner_references
            .iter()
            .find(|o| o.controller)
            .map(|o| o.uid.as_str())
    }

    /// Whether a Job controls it.
    pub fn is_of_job(&self) -> bool {
        let mut owners = self.owner_references.iter();
        owners.any(|o| o.controller && o.kind == "Job")
    }
}

/// A condition of any object.
#[derive(Debug, Clone, Default, Deserialize, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: Name,
    pub status: Name,
    pub reason: Name,
    pub message: Name,
    pub last_transition_time: Option<Timestamp>,
    pub observed_generation: Option<i64>,
}

impl Condition {
    /// Whether the condition's status is `True`.
    pub fn is_true(&self) -> bool {
        self.status == "True"
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_but_managed_fields_is_read() {
        let metadata = json!({
            "name": "pod",
            "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:spec": {}}}],
            "labels": {"a": "1"},
            "ownerReferences": [{"kind": "Job", "name": "job", "uid": "u", "controller": true}],
        });
        let whole: Meta = serde_json::from_value(metadata.clone()).expect("metadata");
        assert_eq!(whole.managed_fields.len(), 1);
        let without = without_managers(metadata).expect("metadata");
        assert_eq!(without.managed_fields.len(), 0);
        assert_eq!((&*without.name, &without.labels), ("pod", &whole.labels));
        assert_eq!(without.controller_uid(), Some("u"));
    }

    #[test]
    fn metadata_that_is_null_is_empty_and_a_text_is_refused() {
        assert_eq!(without_managers(Value::Null).expect("empty").name, "");
        let refused = without_managers(json!("pod")).expect_err("it is a text");
        assert_eq!(
            refused.to_string(),
            "invalid type: string \"pod\", expected a map"
        );
    }
}
