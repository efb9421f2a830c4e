//! A cluster behind a server, and a place for journals: what commands that write are run against.

use std::path::Path;

use kubectl_skyhook::api::ApiFlavor;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::fake_api::{FakeApi, Served};
use super::run::{Run, RunOutput, run};

/// The custom resource of the captures.
pub const CR: &str = "gpu-tune";

pub struct Stage {
    pub fake: FakeApi,
    pub served: Served,
    pub state: TempDir,
}

/// The operator's deployment, with so many replicas.
pub fn operator(replicas: u8) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": "skyhook-operator-controller-manager",
            "namespace": "skyhook",
            "labels": {"control-plane": "controller-manager"},
        },
        "spec": {"replicas": replicas, "template": {"spec": {"containers": [
            {"name": "manager", "image": "ghcr.io/nvidia/skyhook/operator:v0.15.0"},
        ]}}},
        "status": {"observedGeneration": 1, "availableReplicas": replicas},
    })
}

/// A server that holds the captured cluster of that name.
pub fn captured(cluster: &str) -> FakeApi {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clusters");
    let fake = FakeApi::new().serving(ApiFlavor::Skyhook);
    fake.load_file(&directory.join(cluster).join("cluster.json"));
    fake
}

impl Stage {
    /// The captured cluster of that name.
    pub fn of(cluster: &str) -> Stage {
        Stage::over(captured(cluster))
    }

    /// The captured cluster of that name, with the operator that it was captured from.
    pub fn operated(cluster: &str) -> Stage {
        let stage = Stage::of(cluster);
        stage.fake.load(operator(1));
        stage
    }

    /// This cluster.
    pub fn over(fake: FakeApi) -> Stage {
        Stage {
            served: fake.serve(),
            fake,
            state: tempfile::tempdir().expect("a directory"),
        }
    }

    pub fn command(&self, words: &str) -> Run {
        run(words)
            .kubeconfig(&self.served.kubeconfig())
            .env("XDG_STATE_HOME", self.state.path())
    }

    pub fn run(&self, words: &str) -> RunOutput {
        self.command(words).output()
    }

    pub fn node(&self, name: &str) -> Value {
        self.fake.get("nodes", "", name).expect("the node is there")
    }

    /// The custom resource, while it is there.
    pub fn cr(&self) -> Option<Value> {
        self.fake.get("skyhooks", "", CR)
    }

    /// The requests that changed something, or tried; asking what one may do is none.
    pub fn writes(&self) -> Vec<String> {
        let writes = self.fake.writes();
        let writes = writes.iter().map(|w| format!("{} {}", w.method, w.path));
        writes.filter(|w| !w.contains("accessreviews")).collect()
    }
}
