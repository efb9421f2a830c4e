//! A fake API server on a socket and a directory for journals, to run commands against.

use std::path::Path;

use kubectl_skyhook::api::ApiFlavor;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::fake_api::{FakeApi, Served};
use super::run::{Run, RunOutput};

/// The custom resource of the captures.
pub const CR: &str = "gpu-tune";

/// A fake API server on a socket, and a directory for journals.
pub struct TestCluster {
    pub fake: FakeApi,
    pub served: Served,
    pub state: TempDir,
}

/// The Deployment of the operator with this many replicas.
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

/// [`operator`] with one replica of this version.
pub fn operator_of_version(version: &str) -> Value {
    let mut operator = operator(1);
    operator["spec"]["template"]["spec"]["containers"][0]["image"] =
        json!(format!("ghcr.io/nvidia/skyhook/operator:{version}"));
    operator
}

/// A server with the objects of this capture.
pub fn captured_api(cluster: &str) -> FakeApi {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clusters");
    let fake = FakeApi::new().serving(ApiFlavor::Skyhook);
    fake.load_file(&directory.join(cluster).join("cluster.json"));
    fake
}

impl TestCluster {
    /// The captured cluster of this name, without an operator.
    pub fn from_capture(cluster: &str) -> TestCluster {
        TestCluster::serving(captured_api(cluster))
    }

    /// The captured cluster of this name, with a running operator.
    pub fn captured_with_operator(cluster: &str) -> TestCluster {
        let test_cluster = TestCluster::from_capture(cluster);
        test_cluster.fake.load(operator(1));
        test_cluster
    }

    /// The cluster of this server.
    pub fn serving(fake: FakeApi) -> TestCluster {
        TestCluster { served: fake.serve(), fake, state: tempfile::tempdir().expect("a directory") }
    }

    pub fn command(&self, words: &str) -> Run {
        self.command_of(words.split_whitespace())
    }

    /// A command whose arguments may contain blanks.
    pub fn command_of<'a>(&self, words: impl IntoIterator<Item = &'a str>) -> Run {
        Run::new(words).kubeconfig(&self.served.kubeconfig()).env("XDG_STATE_HOME", self.state.path())
    }

    pub fn run(&self, words: &str) -> RunOutput {
        self.command(words).output()
    }

    pub fn node(&self, name: &str) -> Value {
        self.fake.get("nodes", "", name).expect("the node exists")
    }

    /// The custom resource; `None` once it is deleted.
    pub fn cr(&self) -> Option<Value> {
        self.fake.get("skyhooks", "", CR)
    }

    /// The requests that write, whether they succeeded or not; access reviews do not count.
    pub fn writes(&self) -> Vec<String> {
        let writes = self.fake.writes();
        let writes = writes.iter().map(|w| format!("{} {}", w.method, w.path));
        writes.filter(|w| !w.contains("accessreviews")).collect()
    }
}
