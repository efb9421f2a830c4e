//! Builders for the custom resources of scenarios.

use std::collections::BTreeMap;

use serde_json::{Value, json};

#[derive(Clone)]
pub struct Skyhook {
    pub name: String,
    pub spec: Value,
    pub annotations: BTreeMap<String, String>,
}

#[derive(Clone)]
pub struct Package {
    name: String,
    body: Value,
}

pub fn skyhook(name: &str) -> Skyhook {
    Skyhook { name: name.to_owned(), spec: json!({"packages": {}}), annotations: BTreeMap::new() }
}

pub fn package(name: &str, version: &str) -> Package {
    let body = json!({"version": version, "image": format!("ghcr.io/nvidia/skyhook-packages/{name}")});
    Package { name: name.to_owned(), body }
}

impl Skyhook {
    #[must_use]
    pub fn with(mut self, package: Package) -> Self {
        self.spec["packages"][&package.name] = package.body;
        self
    }

    /// Sets any other field of the spec.
    #[must_use]
    pub fn set(mut self, field: &str, value: Value) -> Self {
        self.spec[field] = value;
        self
    }

    /// Adds an annotation with the operator's prefix.
    #[must_use]
    pub fn annotated(mut self, key: &str, value: &str) -> Self {
        let key = format!("skyhook.nvidia.com/{key}");
        self.annotations.insert(key, value.to_owned());
        self
    }

    pub fn body(&self) -> Value {
        json!({
            "apiVersion": "skyhook.nvidia.com/v1alpha1", "kind": "Skyhook",
            "metadata": {"name": self.name, "annotations": self.annotations},
            "spec": self.spec,
        })
    }
}

impl Package {
    /// Enables the uninstall, so that deletions and removals wait for the uninstall scripts.
    #[must_use]
    pub fn uninstallable(self) -> Self {
        self.set("uninstall", json!({"enabled": true, "apply": false}))
    }

    #[must_use]
    pub fn uninstalling(self) -> Self {
        self.set("uninstall", json!({"enabled": true, "apply": true}))
    }

    #[must_use]
    pub fn interrupts(self, kind: &str) -> Self {
        let services = if kind == "service" { json!(["containerd"]) } else { json!([]) };
        self.set("interrupt", json!({"type": kind, "services": services}))
    }

    #[must_use]
    pub fn after(self, name: &str, version: &str) -> Self {
        self.set("dependsOn", json!({name: version}))
    }

    #[must_use]
    pub fn set(mut self, field: &str, value: Value) -> Self {
        self.body[field] = value;
        self
    }
}
