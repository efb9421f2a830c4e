//! Builds the objects of small clusters: a custom resource, the operator, nodes, package pods and Jobs.

use kubectl_skyhook::api::ApiFlavor;
use kubectl_skyhook::api::keys;
use serde_json::{Value, json};

use super::fake_api::FakeApi;

/// The name of the custom resource in every such cluster.
pub const NAME: &str = "gpu";

/// Builds objects of one API flavor.
#[derive(Clone, Copy)]
pub struct ObjectBuilder(pub ApiFlavor);

/// Builds objects of the older API.
pub const SKYHOOK: ObjectBuilder = ObjectBuilder(ApiFlavor::Skyhook);
/// Builds objects of the newer API.
pub const NODEWRIGHT: ObjectBuilder = ObjectBuilder(ApiFlavor::NodeWright);

impl ObjectBuilder {
    /// A server with the operator and a custom resource with these packages.
    pub fn serve(self, packages: Value) -> FakeApi {
        FakeApi::new().serving(self.0).with(self.skyhook("in_progress", packages)).with(self.operator())
    }

    pub fn namespace(self) -> &'static str {
        self.0.default_namespace()
    }

    pub fn skyhook(self, status: &str, packages: Value) -> Value {
        json!({
            "apiVersion": self.0.api_version(),
            "kind": self.0.kind(),
            "metadata": {
                "name": NAME,
                "uid": "11111111-0000-4000-8000-000000000000",
                "generation": 1,
                "creationTimestamp": "2026-11-20T11:00:00Z",
                "finalizers": [self.0.finalizer()],
            },
            "spec": {"packages": packages},
            "status": {"status": status, "observedGeneration": 1},
        })
    }

    pub fn operator(self) -> Value {
        let version = match self.0 {
            ApiFlavor::Skyhook => "v0.17.1",
            ApiFlavor::NodeWright => "v0.20.0",
        };
        json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {
                "name": "operator",
                "namespace": self.namespace(),
                "labels": {"control-plane": "controller-manager"},
            },
            "spec": {
                "replicas": 1,
                "template": {"spec": {"containers": [{
                    "name": "manager",
                    "image": format!("ghcr.io/nvidia/{}/operator:{version}", self.0.name()),
                }]}},
            },
            "status": {"observedGeneration": 1, "availableReplicas": 1, "updatedReplicas": 1, "readyReplicas": 1},
        })
    }

    /// A node with this status and these node-state entries, such as `driver|1.0.0 apply erroring`.
    pub fn node(self, name: &str, status: &str, entries: &[&str]) -> Value {
        let mut state = serde_json::Map::new();
        for entry in entries {
            let words: Vec<&str> = entry.split(' ').collect();
            let (package, version) = words[0].split_once('|').expect("name|version");
            let entry = json!({
                "name": package,
                "version": version,
                "image": format!("example.com/{package}"),
                "stage": words[1],
                "state": words[2],
            });
            state.insert(words[0].to_owned(), entry);
        }
        let mut annotations = json!({});
        if !status.is_empty() {
            annotations[keys::status(self.0, NAME)] = status.into();
            annotations[keys::node_state(self.0, NAME)] = Value::Object(state).to_string().into();
        }
        json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "annotations": annotations, "creationTimestamp": "2026-11-20T10:00:00Z"},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        })
    }

    /// A pod of a package's stage. Each container has a name and a state, such as `driver-apply running`; the
    /// states are `running`, `done`, `failed`, `waiting:REASON` and `looping`.
    pub fn pod(self, name: &str, place: &PackageRun<'_>, phase: &str, containers: &[&str]) -> Value {
        let statuses: Vec<Value> = containers.iter().map(|c| status(c)).collect();
        let init = format!("{}-init", place.package);
        let mut specs = vec![json!({"name": init, "image": "example.com/driver:1.0.0"})];
        let names = containers.iter().filter_map(|c| c.split(' ').next());
        specs.extend(
            names
                .filter(|name| *name != init)
                .map(|name| json!({"name": name, "image": "example.com/agent"})),
        );
        let mut meta = self.meta(name, place);
        if let Some(job) = place.job {
            meta["ownerReferences"] =
                json!([{"kind": "Job", "name": job, "uid": format!("uid-{job}"), "controller": true}]);
        }
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": meta,
            "spec": {"nodeName": place.node, "initContainers": specs},
            "status": {
                "phase": phase,
                "startTime": place.at,
                "initContainerStatuses": statuses,
            },
        })
    }

    /// The Job that owns the pods of a package run.
    pub fn job(self, place: &PackageRun<'_>, status: Value) -> Value {
        let name = place.job.expect("a job's name");
        let mut meta = self.meta(name, place);
        meta["uid"] = format!("uid-{name}").into();
        json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": meta,
            "spec": {"backoffLimit": 3, "template": {"spec": {"nodeName": place.node}}},
            "status": status,
        })
    }

    fn meta(self, name: &str, place: &PackageRun<'_>) -> Value {
        let note = json!({
            "name": place.package,
            "version": "1.0.0",
            "skyhook": NAME,
            "stage": place.stage,
            "image": "example.com/driver",
        });
        let mut labels = json!({
            self.0.key("name"): NAME,
            self.0.key("package"): format!("{}-1.0.0", place.package),
        });
        if place.interrupt {
            labels[self.0.key("interrupt")] = "True".into();
        }
        let owner = json!({"kind": self.0.kind(), "name": NAME, "uid": "11111111-0000-4000-8000-000000000000",
            "controller": true});
        json!({
            "name": name,
            "namespace": self.namespace(),
            "uid": format!("uid-{name}"),
            "creationTimestamp": place.at,
            "ownerReferences": [owner],
            "labels": labels,
            "annotations": {self.0.key("package"): note.to_string()},
        })
    }
}

/// The run of a pod or Job: a stage of a package on a node.
#[derive(Clone, Copy)]
pub struct PackageRun<'a> {
    pub node: &'a str,
    pub package: &'a str,
    pub stage: &'a str,
    pub job: Option<&'a str>,
    pub interrupt: bool,
    pub at: &'a str,
}

impl Default for PackageRun<'_> {
    fn default() -> Self {
        PackageRun {
            node: "node-1",
            package: "driver",
            stage: "apply",
            job: None,
            interrupt: false,
            at: "2026-11-20T11:50:00Z",
        }
    }
}

fn status(container: &str) -> Value {
    let (name, state) = container.split_once(' ').expect("a container and its state");
    let ended = |code: i64, reason: &str| json!({"terminated": {"exitCode": code, "reason": reason, "finishedAt": "2026-11-20T11:55:00Z"}});
    let (restarts, now, last) = match state {
        "running" => (0, json!({"running": {"startedAt": "2026-11-20T11:51:00Z"}}), json!({})),
        "done" => (0, ended(0, "Completed"), json!({})),
        "failed" => (0, ended(3, "Error"), json!({})),
        "looping" => (
            4,
            json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 80s"}}),
            ended(3, "Error"),
        ),
        other => {
            let reason = other.strip_prefix("waiting:").expect("a state");
            (0, json!({"waiting": {"reason": reason}}), json!({}))
        }
    };
    json!({"name": name, "restartCount": restarts, "state": now, "lastState": last})
}
