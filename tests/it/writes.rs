//! Runs the commands that write as a user does, against a server on a socket.

pub mod confirmation;
mod deleted_custom_resource;
mod deletion;
mod diff;
mod finished_work;
mod full_disk;
mod gitops_warnings;
mod interrupt;
mod lifecycle;
mod limits;
mod migration;
mod other_cluster;
mod package_retry;
mod passed_over;
mod repeated_undo;
mod reset;
mod reset_counters;
mod responses;
mod safety;
mod saved_plans;
mod scale;
mod undo;
mod undo_preview;
mod unreadable_sources;
mod untrusted_journals;
mod update_state;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kubectl_skyhook::api::ApiFlavor;
use serde_json::{Value, json};

use crate::support::test_cluster::{CR, TestCluster};

impl TestCluster {
    /// An annotation of the custom resource by its key without the operator's prefix.
    pub fn cr_annotation(&self, key: &str) -> Value {
        let cr = self.cr().expect("the custom resource exists");
        cr["metadata"]["annotations"][ApiFlavor::Skyhook.key(key)].clone()
    }

    /// The keys of the custom resource's annotations and labels on a node.
    pub fn keys(&self, node: &str) -> Vec<String> {
        let node = self.node(node);
        let of = |map: &str| {
            let map = node["metadata"][map].as_object().cloned().unwrap_or_default();
            map.into_iter().map(|(key, _)| key).filter(|key| key.ends_with(CR)).collect::<Vec<_>>()
        };
        [of("annotations"), of("labels")].concat()
    }

    /// Removes the custom resource's node state, as `reset` does.
    pub fn forget_state(&self, node: &str) {
        let mut node = self.node(node);
        let annotations = node["metadata"]["annotations"].as_object_mut().expect("annotations");
        annotations.remove(&ApiFlavor::Skyhook.key(&format!("nodeState_{CR}")));
        self.fake.load(node);
    }

    /// Changes the interrupt of the driver in the spec.
    pub fn change_interrupt(&self, kind: &str) {
        let mut cr = self.cr().expect("the custom resource exists");
        cr["spec"]["packages"]["driver"]["interrupt"]["type"] = json!(kind);
        let generation = cr["metadata"]["generation"].as_i64().expect("a number");
        cr["metadata"]["generation"] = json!(generation + 1);
        self.fake.load(cr);
    }

    /// The objects without resource versions and managed fields.
    pub fn objects(&self) -> Value {
        let mut objects = json!([
            self.node("node-1"),
            self.node("node-2"),
            self.node("node-3"),
            self.cr().expect("the custom resource exists")
        ]);
        for object in objects.as_array_mut().expect("a list") {
            let metadata = object["metadata"].as_object_mut().expect("metadata");
            metadata.remove("resourceVersion");
            metadata.remove("managedFields");
            metadata.retain(|_, v| *v != json!({}));
        }
        objects
    }

    /// Simulates the operator while `act` runs: it acknowledges pauses and resumes of all custom resources at once.
    pub fn with_operator<T>(&self, act: impl FnOnce() -> T) -> T {
        let done = Arc::new(AtomicBool::new(false));
        let (fake, ended) = (self.fake.clone(), done.clone());
        let crs = fake.objects().into_iter().filter(|object| object["kind"] == "Skyhook");
        let name = |cr: Value| cr["metadata"]["name"].as_str().map(str::to_owned);
        let names: Vec<String> = crs.filter_map(name).collect();
        let operator = std::thread::spawn(move || {
            fake.wait_until(|| {
                let crs = names.iter().filter_map(|name| fake.get("skyhooks", "", name));
                crs.filter_map(acknowledged).for_each(|cr| fake.load(cr));
                ended.load(Ordering::Relaxed)
            });
        });
        let result = act();
        done.store(true, Ordering::Relaxed);
        self.fake.change(|_| {});
        operator.join().expect("the operator ends");
        result
    }
}

/// The custom resource with the operator's acknowledgement of a pause or resume; `None` if nothing changed.
fn acknowledged(mut cr: Value) -> Option<Value> {
    let asked = cr["metadata"]["annotations"][ApiFlavor::Skyhook.key("pause")] == "true";
    let paused = cr["status"]["status"] == "paused";
    cr["status"]["status"] = json!(if asked { "paused" } else { "in_progress" });
    (asked != paused).then_some(cr)
}
