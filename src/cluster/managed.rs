//! Who wrote what on a node, and when, from the node's `managedFields`.

use std::fmt;

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, Visitor};

use super::hold::FIELD_MANAGER;
use crate::api::Name;
use crate::api::keys::NodeKey;

/// Who wrote which labels, annotations and taints and the cordon, and when; all else in them is passed over.
#[derive(Default, Deserialize)]
#[serde(transparent)]
pub struct ManagedFields(Vec<Manager>);

#[derive(Default, Deserialize)]
#[serde(default)]
struct Manager {
    manager: Name,
    time: Option<Timestamp>,
    #[serde(rename = "fieldsV1")]
    fields: Fields,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Fields {
    #[serde(rename = "f:metadata")]
    metadata: MetadataFields,
    #[serde(rename = "f:spec")]
    spec: SpecFields,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SpecFields {
    #[serde(rename = "f:unschedulable")]
    unschedulable: Option<IgnoredAny>,
    #[serde(rename = "f:taints")]
    taints: Option<IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct MetadataFields {
    #[serde(rename = "f:annotations")]
    annotations: Annotations,
    #[serde(rename = "f:labels")]
    labels: Option<IgnoredAny>,
}

/// Whether the operator's are among the annotations.
#[derive(Default)]
struct Annotations {
    ours: bool,
}

impl<'de> Deserialize<'de> for Annotations {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Annotations, D::Error> {
        struct Map;

        impl<'de> Visitor<'de> for Map {
            type Value = Annotations;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Annotations, A::Error> {
                let mut ours = false;
                while let Some((Ours(key), IgnoredAny)) = map.next_entry()? {
                    ours |= key;
                }
                Ok(Annotations { ours })
            }
        }

        deserializer.deserialize_map(Map)
    }
}

/// Whether the field of an annotation is the operator's.
struct Ours(bool);

impl<'de> Deserialize<'de> for Ours {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Ours, D::Error> {
        struct Field;

        impl Visitor<'_> for Field {
            type Value = Ours;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E: Error>(self, field: &str) -> Result<Ours, E> {
                Ok(Ours(field.strip_prefix("f:").is_some_and(NodeKey::is_ours)))
            }
        }

        deserializer.deserialize_str(Field)
    }
}

impl ManagedFields {
    /// When somebody who owns annotations of the operator last wrote to the node.
    pub fn annotated(&self) -> Option<Timestamp> {
        let owners = self.0.iter().filter(|m| m.is_of_operator());
        owners.filter_map(|m| m.time).max()
    }

    /// When somebody who owns labels, taints or the cordon last wrote to the node: what selects it or keeps work from it
    /// may have changed then.
    pub fn selectable(&self) -> Option<Timestamp> {
        let owners = self.0.iter().filter(|m| {
            let (metadata, spec) = (&m.fields.metadata, &m.fields.spec);
            metadata.labels.is_some() || spec.taints.is_some() || spec.unschedulable.is_some()
        });
        owners.filter_map(|m| m.time).max()
    }

    /// Who cordoned the node, if it was neither the operator nor this program.
    pub fn cordoned_by(&self) -> Option<&str> {
        let known = |name: &str| {
            let mut named = self.0.iter().filter(|m| m.manager == name);
            // People edit the operator's annotations with kubectl, too.
            let by_hand = name.starts_with("kubectl");
            name == FIELD_MANAGER || !by_hand && named.any(Manager::is_of_operator)
        };
        let mut owners = self
            .0
            .iter()
            .filter(|m| m.fields.spec.unschedulable.is_some());
        let other = owners.find(|m| !m.manager.is_empty() && !known(&m.manager))?;
        Some(&other.manager)
    }
}

impl Manager {
    /// Whether it owns annotations that the operator alone writes.
    fn is_of_operator(&self) -> bool {
        self.fields.metadata.annotations.ours
    }
}
