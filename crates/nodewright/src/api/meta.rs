//! Identity, metadata and conditions of objects, read leniently, and their fields that could not be decoded.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

use super::name::Name;

/// The fields of `ObjectMeta` that we use.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Meta {
    pub name: String,
    pub namespace: Option<String>,
    pub uid: Option<String>,
    /// Number of writes to `spec`. In the older API the operator's own first write counts as well.
    pub generation: i64,
    pub resource_version: Option<String>,
    pub creation_timestamp: Option<Timestamp>,
    /// Set once deletion is requested.
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

/// An entry of `managedFields`: a manager, its fields, and the time of its last write.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ManagedFields {
    pub manager: String,
    pub operation: String,
    pub time: Option<Timestamp>,
    pub subresource: String,
    /// The manager's fields without `f:status`, which makes up most of a custom resource.
    #[serde(rename = "fieldsV1", deserialize_with = "without_status")]
    pub fields: Value,
}

/// Decodes `fieldsV1` without `f:status`.
///
/// # Errors
///
/// Fails if the value is neither an object nor null.
pub(super) fn without_status<'de, D: Deserializer<'de>>(from: D) -> Result<Value, D::Error> {
    #[derive(Deserialize)]
    #[serde(expecting = "a map")]
    struct Fields {
        #[serde(rename = "f:status", default)]
        _status: IgnoredAny,
        #[serde(flatten)]
        kept: Map<String, Value>,
    }
    let fields = Option::<Fields>::deserialize(from)?;
    Ok(fields.map_or(Value::Null, |fields| fields.kept.into()))
}

/// Decodes [`Meta`] without `managedFields`, which make up most of a pod, except the owners of a Job's
/// `spec.suspend`.
#[derive(Default, Deserialize)]
#[serde(remote = "Meta", default, rename_all = "camelCase", expecting = "a map")]
pub struct WithoutManagers {
    name: String,
    namespace: Option<String>,
    uid: Option<String>,
    generation: i64,
    resource_version: Option<String>,
    creation_timestamp: Option<Timestamp>,
    deletion_timestamp: Option<Timestamp>,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    finalizers: Vec<String>,
    owner_references: Vec<OwnerReference>,
    #[serde(deserialize_with = "owners_of_suspend")]
    managed_fields: Vec<ManagedFields>,
}

/// Decodes the managers of a Job's `spec.suspend`, and whether they also own its template.
///
/// # Errors
///
/// Fails if the value is not a list of managers.
fn owners_of_suspend<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<ManagedFields>, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Owner {
        manager: String,
        time: Option<Timestamp>,
        #[serde(rename = "fieldsV1")]
        fields: Option<Fields>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Fields {
        #[serde(rename = "f:spec")]
        spec: Option<Spec>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Spec {
        #[serde(rename = "f:suspend")]
        suspend: Option<IgnoredAny>,
        #[serde(rename = "f:template")]
        template: Option<IgnoredAny>,
    }
    let owners = Option::<Vec<Owner>>::deserialize(from)?.unwrap_or_default().into_iter();
    let owners = owners.filter_map(|owner| {
        let spec = owner.fields?.spec?;
        spec.suspend?;
        let template = spec.template.map(|_| json!({"f:template": {}}));
        let fields = json!({"f:spec": template});
        Some(ManagedFields { manager: owner.manager, time: owner.time, fields, ..ManagedFields::default() })
    });
    Ok(owners.collect())
}

impl Meta {
    /// Whether deletion is requested.
    pub fn deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// `NAMESPACE/NAME`, or `NAME` for an object without namespace.
    pub fn path(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{namespace}/{}", self.name),
            None => self.name.clone(),
        }
    }

    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references.iter().find(|o| o.controller)
    }

    pub fn controller_uid(&self) -> Option<&str> {
        self.controller().map(|owner| owner.uid.as_str())
    }
}

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

/// The nearest end of the range of [`Timestamp`] for a time beyond it, as API servers store; `None` for all other texts.
pub fn repaired(text: &str) -> Option<Timestamp> {
    // Years beyond four digits come from an offset: Go prints UTC.
    let end = if text.starts_with("9999-12-3") || text.starts_with("10000-01-01T") {
        Timestamp::MAX
    } else if text.starts_with("-0001-12-31T") {
        Timestamp::MIN
    } else {
        return None;
    };
    text.parse::<Timestamp>().is_err().then_some(end)
}

/// The time of a number of seconds since 1970, or the nearest end of our range.
pub fn nearest(seconds: i64) -> Timestamp {
    let end = if seconds < 0 { Timestamp::MIN } else { Timestamp::MAX };
    Timestamp::from_second(seconds).unwrap_or(end)
}

/// A Kubernetes object of any kind.
pub trait Object {
    /// Namespace and name; the namespace is empty for cluster-scoped objects.
    fn key(&self) -> (&str, &str);

    fn unknown_fields(&self) -> &UnknownFields;

    fn set_unknown_fields(&mut self, fields: UnknownFields);

    /// Describes the first undecodable field.
    fn undecoded(&self) -> Option<String> {
        let UnknownField { path, value } = self.unknown_fields().first()?;
        Some(format!("{path} cannot be read ({value})"))
    }
}

/// Implements [`Object`] for types with the fields `metadata` and `unknown_fields`.
macro_rules! objects_with_metadata {
    ($($kind:ty),+ $(,)?) => {$(
        impl $crate::api::Object for $kind {
            fn key(&self) -> (&str, &str) {
                let namespace = self.metadata.namespace.as_deref();
                (namespace.unwrap_or_default(), &self.metadata.name)
            }

            fn unknown_fields(&self) -> &$crate::api::UnknownFields {
                &self.unknown_fields
            }

            fn set_unknown_fields(&mut self, fields: $crate::api::UnknownFields) {
                self.unknown_fields = fields;
            }
        }
    )+};
}

pub(crate) use objects_with_metadata;

objects_with_metadata!(super::Skyhook, super::DeploymentPolicy);

/// Fields of an object with values that their types reject. Hardly any object has one.
pub type UnknownFields = Vec<UnknownField>;

/// A field whose value its type rejects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownField {
    /// Path of the field: `status.conditions[3].lastTransitionTime`
    pub path: String,
    /// The value if it is a bool or a number; otherwise its type, because the value may be a secret.
    pub value: String,
}

impl UnknownField {
    pub fn new(path: String, value: &Value) -> UnknownField {
        let value = match value {
            Value::Bool(_) | Value::Number(_) => value.to_string(),
            Value::Null => "null".to_owned(),
            Value::String(_) => "a string".to_owned(),
            Value::Array(_) => "a list".to_owned(),
            Value::Object(_) => "an object".to_owned(),
        };
        UnknownField { path, value }
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
        let without = WithoutManagers::deserialize(metadata).expect("metadata");
        assert_eq!(without.managed_fields.len(), 0);
        assert_eq!((&*without.name, &without.labels), ("pod", &whole.labels));
        assert_eq!(without.controller_uid(), Some("u"));
    }

    #[test]
    fn metadata_that_is_a_text_is_refused() {
        let refused = WithoutManagers::deserialize(json!("pod")).expect_err("a string is not metadata");
        assert_eq!(refused.to_string(), "invalid type: string \"pod\", expected a map");
    }

    #[test]
    fn times_within_our_range_and_other_texts_stay() {
        for text in [
            "2026-11-28T09:00:00Z",
            "9999-12-30T22:00:00Z",
            "-0001-12",
            "",
            "driverT",
            "2026-13-28T09:00:00Z",
        ] {
            assert_eq!(repaired(text), None, "{text}");
        }
    }

    #[test]
    fn times_beyond_our_range_become_its_end() {
        for text in [
            "9999-12-31T23:59:59Z",
            "9999-12-31T23:59:59.999999Z",
            "9999-12-31T23:59:59-12:00",
            "10000-01-01T11:59:59Z",
        ] {
            assert_eq!(repaired(text), Some(Timestamp::MAX), "{text}");
        }
        assert_eq!(repaired("-0001-12-31T23:00:00Z"), Some(Timestamp::MIN));
    }

    #[test]
    fn only_numbers_and_flags_are_quoted() {
        let quoted = |value: Value| UnknownField::new("spec.a".to_owned(), &value).value;
        assert_eq!(quoted(json!("hunter2")), "a string");
        assert_eq!(quoted(json!(7)), "7");
        assert_eq!(quoted(json!({"a": "hunter2"})), "an object");
    }
}
