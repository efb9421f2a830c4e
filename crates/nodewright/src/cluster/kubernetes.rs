//! The version of Kubernetes, and the features that the operator loses on older versions without an error.

use std::collections::BTreeMap;
use std::ops::Deref;

use k8s_openapi::Metadata;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

use super::{Cluster, Job, Pod};
use crate::api::keys::NodeKey;
use crate::api::{
    ApiFlavor, Executor, Meta, Object, Package, Skyhook, UnknownFields, Version, objects_with_metadata, visit,
};

/// A feature of Kubernetes on which the operator relies.
#[derive(Debug)]
pub struct Feature {
    pub name: &'static str,
    /// The minor version of Kubernetes 1 from which on the feature is enabled by default.
    pub since: u64,
    /// What happens without the feature.
    pub loss: &'static str,
    /// The page that names the version.
    pub source: &'static str,
}

/// Sorted by version.
#[rustfmt::skip]
const FEATURES: [Feature; 4] = [
    Feature { name: "pod failure policy", since: 26, loss: "evictions and other disruptions count as failed attempts of a stage",
        source: "https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-failure-policy" },
    Feature { name: "unhealthyPodEvictionPolicy", since: 27, loss: "a disruption budget also protects pods that are not ready from a drain",
        source: "https://kubernetes.io/docs/tasks/run-application/configure-pdb/" },
    Feature { name: "podReplacementPolicy", since: 29, loss: "the next attempt of a stage may start while the last one is still ending",
        source: "https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-replacement-policy" },
    Feature { name: "sidecar containers", since: 29, loss: "an injected sidecar keeps the pod of a finished stage running",
        source: "https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/" },
];

/// The version of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kubernetes {
    pub version: Version,
}

impl Cluster {
    /// The version of the API server, or else of the newest kubelet, which is never newer than the API server.
    pub fn kubernetes(&self) -> Option<Kubernetes> {
        let server = self.installation.server.ok().and_then(|text| Version::parse(text));
        let newest = || {
            let systems = self.nodes.indexed().iter().filter_map(|node| Some(&node.body()?.system));
            systems.filter_map(|system| Version::parse(&system.kubelet_version)).max()
        };
        Some(Kubernetes { version: server.or_else(newest)? })
    }

    /// The features that this version of Kubernetes lacks. Only operators that run Jobs rely on them.
    pub fn missing_features(&self) -> Vec<&'static Feature> {
        let version = self.kubernetes().filter(|_| self.flavor().executor() == Executor::Job);
        let missing =
            |feature: &&Feature| version.as_ref().is_some_and(|v| !v.version.at_least(1, feature.since));
        FEATURES.iter().filter(missing).collect()
    }
}

impl Job {
    /// Whether the Job has failed and remains, so that the operator does not retry its stage.
    pub fn gave_up(&self) -> bool {
        self.failed().is_some() && !self.metadata.deleting()
    }

    /// The newest pod of a failed Job, if the kubelet evicted or rejected the pods of all attempts.
    pub fn failed_by_kubelet<'p>(&self, pods: &[&'p Pod]) -> Option<&'p Pod> {
        let mut failed = pods.iter().copied().filter(|pod| pod.status.phase == "Failed");
        let all = failed.clone().all(|pod| pod.evicted() || pod.rejected());
        failed.next().filter(|_| all && self.failed().is_some())
    }
}

impl Pod {
    /// Whether the kubelet evicted the pod because the node is short of a resource.
    pub fn evicted(&self) -> bool {
        self.status.phase == "Failed" && self.status.reason == "Evicted"
    }

    /// Whether the kubelet rejected the pod before it created a container: `OutOfcpu`, `NodeShutdown`.
    pub fn rejected(&self) -> bool {
        let status = &self.status;
        status.phase == "Failed"
            && status.init_container_statuses.is_empty()
            && status.container_statuses.is_empty()
            && !status.reason.is_empty()
            && !self.disrupted()
            && !self.metadata.deleting()
    }
}

/// An object, with its fields that could not be decoded.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(transparent)]
pub struct Standard<T> {
    object: T,
    #[serde(skip)]
    unknown_fields: UnknownFields,
}

impl<T> Deref for Standard<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.object
    }
}

impl<T: Metadata<Ty = ObjectMeta>> Object for Standard<T> {
    fn key(&self) -> (&str, &str) {
        let metadata = self.object.metadata();
        let [namespace, name] = [&metadata.namespace, &metadata.name].map(Option::as_deref);
        (namespace.unwrap_or_default(), name.unwrap_or_default())
    }

    fn unknown_fields(&self) -> &UnknownFields {
        &self.unknown_fields
    }

    fn set_unknown_fields(&mut self, fields: UnknownFields) {
        self.unknown_fields = fields;
    }
}

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

impl Cluster {
    /// The ConfigMap that the operator created from the `configMap` of a package.
    pub fn config_map_of(&self, skyhook: &Skyhook, name: &str, package: &Package) -> Option<&ConfigMap> {
        let wanted = self::name(skyhook, name, package);
        let owner = (self.flavor(), skyhook.name());
        let is_own = |map: &&ConfigMap| {
            let metadata = &map.metadata;
            metadata.name == wanted && map.owner() == Some(owner) && !self.operator().is_elsewhere(metadata)
        };
        self.config_maps.iter().find(is_own).filter(|_| !package.config_map.is_empty())
    }
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
        self.whole["data"].as_object().into_iter().flatten().map(|(key, _)| key.as_str())
    }

    /// The API whose operator created the ConfigMap, and the name of the custom resource.
    pub fn owner(&self) -> Option<(ApiFlavor, &str)> {
        ApiFlavor::ALL.into_iter().find_map(|flavor| {
            let name = [package_label(flavor), node_label(flavor)]
                .into_iter()
                .find_map(|key| self.metadata.labels.get(&key))?;
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

/// Annotations of a node by key. Unused annotations, which are the majority, are dropped.
#[derive(Default)]
pub struct Annotations {
    /// The operator's annotations, of either API.
    pub operator: BTreeMap<String, String>,
    /// Annotations of other tools that may hold the cordon.
    pub cordon_marks: BTreeMap<String, String>,
}

impl<'de> Deserialize<'de> for Annotations {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Annotations, D::Error> {
        let mut all = Annotations::default();
        for (key, value) in visit::entries::<_, String, String>(deserializer, "a map")? {
            if NodeKey::is_ours(&key) {
                all.operator.insert(key, value);
            } else if super::cordon::is_annotation(&key) {
                all.cordon_marks.insert(key, value);
            }
        }
        Ok(all)
    }
}
