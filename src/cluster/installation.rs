//! What is read of an installation beside what it works on.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1 as coordination;
use serde::Deserialize;
use serde_json::Value;

use super::Read;
use crate::api::{ApiFlavor, Condition, Meta};

/// The server, the definitions of the operator's kinds, and who leads.
#[derive(Debug, Clone, Default)]
pub struct Installation {
    pub server: Read<String>,
    /// Of both APIs, as far as they are there.
    pub definitions: Read<Vec<Definition>>,
    /// Those in the operator's namespaces.
    pub leases: Read<Vec<Lease>>,
}

/// A `CustomResourceDefinition`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Definition {
    pub metadata: Meta,
    pub spec: DefinitionSpec,
    pub status: DefinitionStatus,
}

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

/// By which the replicas of an operator agree on who works.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(transparent)]
pub struct Lease(coordination::Lease);

impl Definition {
    /// The names of the definitions of an API: the main kind, and its deployment policies.
    pub fn names(flavor: ApiFlavor) -> [String; 2] {
        [flavor.plural(), "deploymentpolicies"].map(|plural| format!("{plural}.{}", flavor.group()))
    }

    pub fn established(&self) -> bool {
        let mut conditions = self.status.conditions.iter();
        conditions.any(|c| c.kind == "Established" && c.is_true())
    }

    /// The versions that are served.
    pub fn served(&self) -> Vec<&str> {
        let served = self.spec.versions.iter().filter(|v| v.served);
        served.map(|v| v.name.as_str()).collect()
    }

    /// Whether packages have an `uninstall` in it; without it the server drops what is asked for there. Nothing where it
    /// has no schema of packages.
    pub fn knows_uninstall(&self) -> Option<bool> {
        let packages =
            "/openAPIV3Schema/properties/spec/properties/packages/additionalProperties/properties";
        let mut versions = self.spec.versions.iter().filter(|v| v.served);
        let packages = versions.find_map(|v| v.schema.pointer(packages))?;
        Some(packages.get("uninstall").is_some())
    }
}

impl Lease {
    pub fn name(&self) -> &str {
        self.0.metadata.name.as_deref().unwrap_or_default()
    }

    /// The replica that leads; empty where none does.
    pub fn holder(&self) -> &str {
        let spec = self.0.spec.as_ref();
        let holder = spec.and_then(|spec| spec.holder_identity.as_deref());
        holder.unwrap_or_default()
    }

    pub fn renewed(&self) -> Option<Timestamp> {
        Some(self.0.spec.as_ref()?.renew_time.as_ref()?.0)
    }

    /// Whether it is one of the operator's: named after its group's owner, or held by a pod of its Deployment.
    pub fn is_operators(&self, deployments: &[super::Deployment]) -> bool {
        let held = |d: &super::Deployment| self.holder().starts_with(&format!("{}-", d.name()));
        self.name().ends_with(".nvidia.com") || deployments.iter().any(held)
    }

    /// How long ago it was renewed.
    pub fn age(&self, now: Timestamp) -> Option<SignedDuration> {
        Some(now.duration_since(self.renewed()?))
    }

    /// How old it may be; a replica that leads renews it every few seconds.
    pub fn patience(&self) -> SignedDuration {
        let spec = self.0.spec.as_ref();
        let seconds = spec
            .and_then(|spec| spec.lease_duration_seconds)
            .unwrap_or(15);
        SignedDuration::from_secs(4 * i64::from(seconds)).max(SignedDuration::from_mins(1))
    }
}
