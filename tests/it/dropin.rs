//! The drop-in contract: scripts that were written for upstream's CLI keep working, and the recorded faults
//! of that CLI do not occur. The name of a fault's test begins with the fault's number.

mod all_commands;
mod batches;
mod contract;
mod distribution;
mod flag_syntax;
mod lifecycle;
mod logs;
mod node_state;
mod replay;
mod rerun;
mod views;

use serde_json::{Value, json};

use crate::support::fake_api::{FakeApi, Logged, State};
use crate::support::object_builder::SKYHOOK;
use crate::support::run::{RunOutput, run};
use crate::support::test_cluster::TestCluster;

const CR: &str = "skyhooks";

impl TestCluster {
    /// The custom resource `gpu` with one package, complete on these nodes.
    fn with_complete_nodes(nodes: &[&str]) -> TestCluster {
        let fake = complete_cluster(driver());
        for node in nodes {
            fake.load(SKYHOOK.node(node, "complete", &["driver|1.0.0 config complete"]));
        }
        TestCluster::serving(fake)
    }

    /// Runs a command that must succeed.
    fn run_ok(&self, words: &str) {
        let _ = self.ok(words);
    }

    /// The output of a command that must succeed, in upstream's shapes.
    fn ok(&self, words: &str) -> RunOutput {
        let ran = self.command(words).env("KUBECTL_SKYHOOK_COMPAT", "1").output();
        ran.expect_code(0);
        ran
    }

    /// The custom resource `gpu`.
    fn gpu(&self) -> Value {
        self.fake.get(CR, "", "gpu").expect("the custom resource exists")
    }

    /// An annotation of the operator on the custom resource, or null.
    fn gpu_annotation(&self, key: &str) -> Value {
        self.gpu()["metadata"]["annotations"][SKYHOOK.0.key(key)].clone()
    }

    /// An annotation of the operator on a node, or null.
    fn node_annotation(&self, node: &str, key: &str) -> Value {
        self.node(node)["metadata"]["annotations"][SKYHOOK.0.key(key)].clone()
    }

    /// A label of the operator on a node, or null.
    fn node_label(&self, node: &str, key: &str) -> Value {
        self.node(node)["metadata"]["labels"][SKYHOOK.0.key(key)].clone()
    }

    /// The entries of the node state, or null.
    fn node_state(&self, node: &str) -> Value {
        match self.node_annotation(node, "nodeState_gpu").as_str() {
            Some(text) => serde_json::from_str(text).expect("JSON"),
            None => Value::Null,
        }
    }

    fn patches(&self) -> Vec<Logged> {
        let mut writes = self.fake.writes();
        writes.retain(|w| w.method == "PATCH");
        writes
    }

    /// The paths that were patched, in order.
    fn patched_paths(&self) -> Vec<String> {
        self.patches().into_iter().map(|p| p.path).collect()
    }

    /// Simulates the operator: a custom resource with a pause annotation has the status paused when it is
    /// read.
    fn simulating_operator(self) -> TestCluster {
        self.fake.on("GET skyhooks").after(pause);
        self
    }
}

fn pause(state: &mut State) {
    let Some(mut cr) = state.store.find(CR, "", "gpu").cloned() else {
        return;
    };
    if cr["metadata"]["annotations"][SKYHOOK.0.key("pause")] == "true" {
        cr["status"]["status"] = json!("paused");
        state.store.load(cr);
    }
}

fn driver() -> Value {
    json!({"driver": {"version": "1.0.0", "image": "example.com/driver"}})
}

/// A server with a complete custom resource, so that nothing waits for the operator.
fn complete_cluster(packages: Value) -> FakeApi {
    FakeApi::new().serving(SKYHOOK.0).with(SKYHOOK.skyhook("complete", packages)).with(SKYHOOK.operator())
}

/// A node with every key that the operator writes for a custom resource.
fn with_operator_keys(name: &str, status: &str, entries: &[&str]) -> Value {
    let mut node = SKYHOOK.node(name, status, entries);
    node["metadata"]["annotations"][SKYHOOK.0.key("version_gpu")] = json!("v0.17.1");
    node["metadata"]["labels"] = json!({SKYHOOK.0.key("status_gpu"): status});
    node
}

#[test]
fn binary_works_under_any_name() {
    let directory = tempfile::tempdir().expect("a directory");
    for name in ["skyhook", "skyhook-cli", "kubectl-skyhook"] {
        let link = directory.path().join(name);
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_kubectl-skyhook"), &link).expect("a link");
        let output =
            std::process::Command::new(&link).args(["version", "--client-only"]).output().expect("it starts");
        let plain = run("version --client-only").output();
        assert_eq!(String::from_utf8_lossy(&output.stdout), plain.stdout);
        assert_eq!(output.status.code(), Some(0));
    }
}
