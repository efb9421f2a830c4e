//! ConfigMaps that the operator creates: with the files of packages, and with the metadata of nodes for
//! packages.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

use crate::api::{ApiFlavor, Meta, Package, Skyhook, UnknownFields, objects_with_metadata};

#[derive(Debug, Clone, Default)]
pub struct ConfigMap {
    pub metadata: Meta,
    /// The ConfigMap as JSON, for recreating it.
    pub whole: Value,
    pub unknown_fields: UnknownFields,
}

objects_with_metadata!(ConfigMap);

/// Name of the ConfigMap that the operator creates from a package's `configMap`.
pub fn name(skyhook: &Skyhook, package: &str, spec: &Package) -> String {
    format!("{}-{package}-{}", skyhook.name(), spec.version).to_lowercase()
}

/// Names of ConfigMaps that packages of several custom resources need, with these packages. The operator can
/// create each ConfigMap only for one of them.
pub fn contested<'a>(
    skyhooks: impl Iterator<Item = &'a Skyhook>,
) -> BTreeMap<String, Vec<(&'a Skyhook, &'a str)>> {
    let mut users: BTreeMap<String, Vec<(&Skyhook, &str)>> = BTreeMap::new();
    for skyhook in skyhooks {
        for (package, spec) in skyhook.packages().filter(|(_, spec)| !spec.config_map.is_empty()) {
            users.entry(name(skyhook, package, spec)).or_default().push((skyhook, package));
        }
    }
    users.retain(|_, all| all.iter().any(|(skyhook, _)| skyhook.name() != all[0].0.name()));
    users
}

/// The ConfigMap that the operator creates from a package's `configMap`.
pub fn of_package(flavor: ApiFlavor, skyhook: &Skyhook, package: &str, spec: &Package) -> ConfigMap {
    ConfigMap {
        metadata: Meta {
            name: name(skyhook, package, spec),
            labels: [(package_label(flavor), skyhook.name().to_owned())].into(),
            ..Meta::default()
        },
        whole: json!({"data": spec.config_map}),
        ..ConfigMap::default()
    }
}

/// Label by which the operator finds the ConfigMaps of packages. Its value is the name of the custom
/// resource.
pub fn package_label(flavor: ApiFlavor) -> String {
    flavor.key("name")
}

/// Label by which the operator finds the ConfigMaps of nodes. Its value is the name of the custom resource.
pub fn node_label(flavor: ApiFlavor) -> String {
    // The newer API kept `skyhook` in this key.
    flavor.key("skyhook-node-meta")
}

impl ConfigMap {
    /// Whether the ConfigMap contains the metadata of a node.
    pub fn is_of_a_node(&self) -> bool {
        let labels = &self.metadata.labels;
        ApiFlavor::ALL.into_iter().any(|flavor| labels.contains_key(&node_label(flavor)))
    }

    pub fn value(&self, key: &str) -> Option<&str> {
        self.whole["data"].get(key)?.as_str()
    }

    pub fn keys(&self) -> impl Iterator<Item = &str> {
        let data = self.whole["data"].as_object();
        data.into_iter().flatten().map(|(key, _)| key.as_str())
    }

    /// The API whose operator created the ConfigMap, and the name of the custom resource.
    pub fn owner(&self) -> Option<(ApiFlavor, &str)> {
        ApiFlavor::ALL.into_iter().find_map(|flavor| {
            let mut keys = [package_label(flavor), node_label(flavor)].into_iter();
            let name = keys.find_map(|key| self.metadata.labels.get(&key))?;
            Some((flavor, name.as_str()))
        })
    }
}

impl<'de> Deserialize<'de> for ConfigMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ConfigMap, D::Error> {
        let mut whole = Value::Object(Map::deserialize(deserializer)?);
        let metadata = Option::deserialize(&whole["metadata"]).map_err(D::Error::custom)?;
        // List items omit apiVersion and kind.
        whole["apiVersion"] = json!("v1");
        whole["kind"] = json!("ConfigMap");
        Ok(ConfigMap { metadata: metadata.unwrap_or_default(), whole, ..ConfigMap::default() })
    }
}
