//! ConfigMaps that the operator makes: the files of packages, and what packages are told of a node.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::api::{ApiFlavor, Meta};

#[derive(Debug, Clone, Default)]
pub struct ConfigMap {
    pub metadata: Meta,
    /// As the server has it, to be made again.
    pub whole: Value,
}

/// The labels by which the operator finds its ConfigMaps; each names the custom resource.
pub fn labels(flavor: ApiFlavor) -> [String; 2] {
    // The newer API kept the old word in the second.
    ["name", "skyhook-node-meta"].map(|suffix| flavor.key(suffix))
}

impl ConfigMap {
    /// The API whose operator made it, and the custom resource that it is for.
    pub fn owner(&self) -> Option<(ApiFlavor, &str)> {
        ApiFlavor::ALL.into_iter().find_map(|flavor| {
            let mut keys = labels(flavor).into_iter();
            let name = keys.find_map(|key| self.metadata.labels.get(&key))?;
            Some((flavor, name.as_str()))
        })
    }
}

impl<'de> Deserialize<'de> for ConfigMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ConfigMap, D::Error> {
        let mut whole = Value::deserialize(deserializer)?;
        let metadata = Meta::deserialize(&whole["metadata"]).map_err(D::Error::custom)?;
        // Items of a list leave out what the list says.
        whole["apiVersion"] = json!("v1");
        whole["kind"] = json!("ConfigMap");
        Ok(ConfigMap { metadata, whole })
    }
}
