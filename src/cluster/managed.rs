//! When the operator last wrote its annotations on a node, from the node's `managedFields`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::api::Generation;
use crate::api::keys::NodeKey;

/// Who wrote which annotations, and when; all else in them is passed over.
#[derive(Default, Deserialize)]
#[serde(transparent)]
pub struct ManagedFields(Vec<Manager>);

#[derive(Default, Deserialize)]
#[serde(default)]
struct Manager {
    time: Option<Timestamp>,
    #[serde(rename = "fieldsV1")]
    fields: Fields,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Fields {
    #[serde(rename = "f:metadata")]
    metadata: MetadataFields,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct MetadataFields {
    #[serde(rename = "f:annotations")]
    annotations: BTreeMap<String, IgnoredAny>,
}

impl ManagedFields {
    /// When somebody who owns annotations of the operator last wrote to the node.
    pub fn annotated(&self) -> Option<Timestamp> {
        let ours = |field: &String| {
            let key = field.strip_prefix("f:").unwrap_or_default();
            let mut generations = Generation::ALL.iter();
            generations.any(|g| NodeKey::parse(*g, key).is_some())
        };
        let owners = self.0.iter();
        let owners = owners.filter(|m| m.fields.metadata.annotations.keys().any(ours));
        owners.filter_map(|m| m.time).max()
    }
}
