//! Object metadata and conditions, read leniently.

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

    /// Whether the object's controller is a Job.
    pub fn is_of_job(&self) -> bool {
        self.controller().is_some_and(|owner| owner.kind == "Job")
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
}
