//! Clusters with few objects, for tests of the model.

use nodewright::api::ApiFlavor;
use nodewright::cluster::Cluster;
use nodewright::dump;
use serde_json::{Value, json};

/// Builds a cluster with an operator of a given version.
pub struct Setting {
    flavor: ApiFlavor,
    objects: Vec<Value>,
}

impl Setting {
    pub fn new(version: &str) -> Setting {
        let mut numbers =
            version.trim_start_matches('v').split('.').map(|n| n.parse::<u64>().expect("a number"));
        let newer = (numbers.next(), numbers.next()) >= (Some(0), Some(18));
        let flavor = if newer { ApiFlavor::NodeWright } else { ApiFlavor::Skyhook };
        let operator = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {
                "name": "operator", "namespace": "system",
                "labels": {"control-plane": "controller-manager"},
            },
            "spec": {"replicas": 1, "template": {"spec": {"containers": [
                {"name": "manager", "image": format!("example.com/{}-operator:{version}", flavor.name())},
            ]}}},
            "status": {"availableReplicas": 1, "replicas": 1, "readyReplicas": 1},
        });
        Setting { flavor, objects: vec![operator] }
    }

    pub fn skyhook(mut self, name: &str, spec: Value, status: Value) -> Setting {
        self.objects.push(json!({
            "apiVersion": self.flavor.api_version(), "kind": self.flavor.kind(),
            "metadata": {"name": name, "generation": 1}, "spec": spec, "status": status,
        }));
        self
    }

    pub fn deleted(mut self) -> Setting {
        let last = self.objects.last_mut().expect("an object");
        last["metadata"]["deletionTimestamp"] = json!("2026-11-25T12:00:00Z");
        last["metadata"]["finalizers"] = json!([self.flavor.finalizer()]);
        self
    }

    pub fn paused(mut self) -> Setting {
        let last = self.objects.last_mut().expect("an object");
        last["metadata"]["annotations"] = json!({self.flavor.key("pause"): "true"});
        self
    }

    /// A node with the status and the node state of one custom resource.
    pub fn node(mut self, name: &str, skyhook: &str, status: &str, state: &Value) -> Setting {
        let key = |key: &str| self.flavor.key(&format!("{key}_{skyhook}"));
        let state = match state {
            Value::String(text) => text.clone(),
            state => state.to_string(),
        };
        self.objects.push(json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {
                "name": name, "creationTimestamp": "2026-11-25T10:00:00Z", "labels": {"pool": name},
                "annotations": {key("status"): status, key("nodeState"): state},
            },
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }));
        self
    }

    pub fn object(mut self, object: Value) -> Setting {
        self.objects.push(object);
        self
    }

    pub fn policy(mut self, spec: Value) -> Setting {
        self.objects.push(json!({
            "apiVersion": self.flavor.api_version(), "kind": "DeploymentPolicy",
            "metadata": {"name": "policy"}, "spec": spec,
        }));
        self
    }

    pub fn cluster(self) -> Cluster {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": self.objects});
        let file = tempfile::Builder::new().suffix(".json").tempfile();
        let file = file.expect("a file");
        std::fs::write(file.path(), list.to_string()).expect("the file is writable");
        dump::load(&[file.path().to_owned()], Some(self.flavor)).expect("a cluster")
    }
}

/// A node state: each package at version 1.0.0 with its stage and state.
pub fn state(packages: &[(&str, &str, &str)]) -> Value {
    let entry = |(name, stage, state): &(&str, &str, &str)| {
        let value = json!({
            "name": name, "version": "1.0.0", "image": "example.com/package", "stage": stage, "state": state,
        });
        (format!("{name}|1.0.0"), value)
    };
    Value::Object(packages.iter().map(entry).collect())
}

/// A package at version 1.0.0 that depends on others.
pub fn package(depends_on: &[&str]) -> Value {
    let depends_on = depends_on.iter().map(|name| ((*name).to_owned(), json!("1.0.0")));
    let depends_on: serde_json::Map<String, Value> = depends_on.collect();
    json!({"version": "1.0.0", "image": "example.com/package", "dependsOn": depends_on})
}
