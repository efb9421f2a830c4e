//! Objects of the operator's installation, as opposed to the objects that the operator works on.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1 as coordination;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::Read;
use super::rbac::RbacObject;
use super::restrictions::{LimitRange, ResourceQuota};
use super::standard::Standard;
use crate::api::{ApiFlavor, Condition, Meta, UnknownFields, objects_with_metadata};

/// The server, and the operator's CRDs, Leases, namespaces and roles.
#[derive(Debug, Clone, Default)]
pub struct Installation {
    pub server: Read<String>,
    /// The existing CRDs of both APIs.
    pub definitions: Read<Vec<Definition>>,
    /// Leases in the operator's namespaces.
    pub leases: Read<Vec<Lease>>,
    /// Namespaces that may contain the operator. Read from a server only if no operator is ready.
    pub namespaces: Read<Vec<Namespace>>,
    /// Roles and their bindings. Read from a server only for leftovers, and while the operator may be late.
    pub roles: Read<Vec<RbacObject>>,
    /// Limit ranges of the operator's namespace. Read from a server only while the operator may be late.
    pub limit_ranges: Read<Vec<LimitRange>>,
    /// Quotas of the operator's namespace. Read from a server only while the operator may be late.
    pub quotas: Read<Vec<ResourceQuota>>,
    /// Secrets and ConfigMaps of files, except the operator's. Never read from a server.
    pub key_maps: Read<Vec<KeyMap>>,
}

/// A Secret or ConfigMap, without its values.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct KeyMap {
    pub kind: String,
    pub metadata: Meta,
    data: BTreeMap<String, IgnoredAny>,
    binary_data: BTreeMap<String, IgnoredAny>,
    string_data: BTreeMap<String, IgnoredAny>,
    #[serde(skip)]
    pub unknown_fields: UnknownFields,
}

impl KeyMap {
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        [&self.data, &self.binary_data, &self.string_data]
            .into_iter()
            .flat_map(|map| map.keys().map(String::as_str))
    }
}

impl Installation {
    /// Objects that may remain after the operator is removed but could not be read, with the reasons.
    pub fn unread_remains(&self) -> Vec<String> {
        let definitions = self.definitions.unread();
        let definitions = definitions.map(|why| format!("CRDs were not checked: {why}"));
        let roles = self.roles.unread();
        let roles = roles.map(|why| format!("cluster roles were not checked: {why}"));
        definitions.into_iter().chain(roles).collect()
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Namespace {
    pub metadata: Meta,
    pub status: NamespaceStatus,
    #[serde(skip)]
    pub unknown_fields: UnknownFields,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct NamespaceStatus {
    pub conditions: Vec<Condition>,
}

/// A `CustomResourceDefinition`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Definition {
    pub metadata: Meta,
    pub spec: DefinitionSpec,
    pub status: DefinitionStatus,
    #[serde(skip)]
    pub unknown_fields: UnknownFields,
}

objects_with_metadata!(Definition, Namespace, KeyMap);

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct DefinitionSpec {
    pub versions: Vec<DefinitionVersion>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct DefinitionVersion {
    pub name: String,
    pub served: bool,
    pub storage: bool,
    pub schema: Value,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct DefinitionStatus {
    pub conditions: Vec<Condition>,
}

/// The Lease by which the replicas of an operator elect a leader.
pub type Lease = Standard<coordination::Lease>;

impl Namespace {
    /// Conditions that prevent the namespace's deletion, with the messages of the namespace controller.
    pub fn remaining(&self) -> impl Iterator<Item = &Condition> {
        let conditions = self.status.conditions.iter();
        conditions.filter(|c| c.is_true() && !c.message.is_empty())
    }
}

impl super::Cluster {
    /// The CRD of the custom resources of the active API, if it was read and is being deleted.
    pub fn deleted_definition(&self) -> Option<&Definition> {
        let [name, _] = Definition::names(self.flavor());
        let mut all = self.installation.definitions.items().iter();
        all.find(|found| found.metadata.name == name && found.metadata.deleting())
    }
}

impl Definition {
    /// Names of the CRDs of an API: the main kind, and its deployment policies.
    pub fn names(flavor: ApiFlavor) -> [String; 2] {
        [flavor.plural(), "deploymentpolicies"].map(|plural| format!("{plural}.{}", flavor.group()))
    }

    pub fn established(&self) -> bool {
        let mut conditions = self.status.conditions.iter();
        conditions.any(|c| c.kind == "Established" && c.is_true())
    }

    /// Names of the served versions.
    pub fn served(&self) -> Vec<&str> {
        let served = self.spec.versions.iter().filter(|v| v.served);
        served.map(|v| v.name.as_str()).collect()
    }

    /// Whether the schema of packages has `uninstall`; otherwise the server drops the field. `None` if no
    /// served version has a schema of packages.
    pub fn knows_uninstall(&self) -> Option<bool> {
        let packages = "/openAPIV3Schema/properties/spec/properties/packages/additionalProperties/properties";
        let mut versions = self.spec.versions.iter().filter(|v| v.served);
        let packages = versions.find_map(|v| v.schema.pointer(packages))?;
        Some(packages.get("uninstall").is_some())
    }
}

impl Lease {
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// Identity of the leading replica; empty without a leader.
    pub fn holder(&self) -> &str {
        let spec = self.spec.as_ref();
        let holder = spec.and_then(|spec| spec.holder_identity.as_deref());
        holder.unwrap_or_default()
    }

    pub fn renewed(&self) -> Option<Timestamp> {
        Some(self.spec.as_ref()?.renew_time.as_ref()?.0)
    }

    /// Whether a pod of the Deployment holds the Lease and renewed it recently.
    pub fn is_held_by(&self, deployment: &super::Deployment, now: Timestamp) -> bool {
        let namespace = self.metadata.namespace.as_deref();
        let lives = self.age(now).is_some_and(|age| age <= self.patience());
        namespace == Some(deployment.namespace()) && lives && self.holds(deployment)
    }

    fn holds(&self, deployment: &super::Deployment) -> bool {
        self.holder().starts_with(&format!("{}-", deployment.name()))
    }

    /// Whether the Lease is the operator's: its name ends with the operator's domain, or a pod of the
    /// operator's Deployment holds it.
    pub fn is_operators(&self, deployments: &[&super::Deployment]) -> bool {
        self.name().ends_with(".nvidia.com") || deployments.iter().any(|d| self.holds(d))
    }

    /// Time since the last renewal.
    pub fn age(&self, now: Timestamp) -> Option<SignedDuration> {
        Some(now.duration_since(self.renewed()?))
    }

    /// Age up to which a Lease is valid. A leader renews its Lease every few seconds.
    pub fn patience(&self) -> SignedDuration {
        let spec = self.spec.as_ref();
        let seconds = spec.and_then(|spec| spec.lease_duration_seconds).unwrap_or(15);
        SignedDuration::from_secs(4 * i64::from(seconds)).max(SignedDuration::from_mins(1))
    }
}
