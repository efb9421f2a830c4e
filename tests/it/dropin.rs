//! The drop-in contract: what scripts written for upstream's CLI rely on, and that the faults recorded of that CLI
//! are not here. The names of tests of faults begin with the fault's number.

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
use tempfile::TempDir;

use crate::support::fake_api::{FakeApi, Logged, Served, State};
use crate::support::object_builder::SKYHOOK;
use crate::support::run::{Run, RunOutput, run};

const CR: &str = "skyhooks";

/// A server, and a place for journals.
struct Site {
    fake: FakeApi,
    served: Served,
    state: TempDir,
}

impl Site {
    fn of(fake: FakeApi) -> Site {
        Site {
            served: fake.serve(),
            fake,
            state: tempfile::tempdir().expect("a directory"),
        }
    }

    /// The custom resource `gpu` with one package, complete on these nodes.
    fn complete(nodes: &[&str]) -> Site {
        let fake = idle(driver());
        for node in nodes {
            fake.load(SKYHOOK.node(node, "complete", &["driver|1.0.0 config complete"]));
        }
        Site::of(fake)
    }

    fn command(&self, words: &str) -> Run {
        self.of_words(words.split_whitespace())
    }

    fn of_words<'a>(&self, words: impl IntoIterator<Item = &'a str>) -> Run {
        Run::new(words)
            .kubeconfig(&self.served.kubeconfig())
            .env("XDG_STATE_HOME", self.state.path())
    }

    fn run(&self, words: &str) -> RunOutput {
        self.command(words).output()
    }

    /// Runs it, and it must end with success.
    fn done(&self, words: &str) {
        let _ = self.answer(words);
    }

    /// What it says on success.
    fn answer(&self, words: &str) -> RunOutput {
        let ran = self.run(words);
        ran.expect_code(0);
        ran
    }

    fn node(&self, name: &str) -> Value {
        self.fake.get("nodes", "", name).expect("the node is there")
    }

    fn cr(&self) -> Value {
        self.fake.get(CR, "", "gpu").expect("it is there")
    }

    /// An annotation of the custom resource.
    fn noted(&self, key: &str) -> Value {
        self.cr()["metadata"]["annotations"][SKYHOOK.0.key(key)].clone()
    }

    /// The operator's annotation on a node, or null.
    fn on(&self, node: &str, key: &str) -> Value {
        self.node(node)["metadata"]["annotations"][SKYHOOK.0.key(key)].clone()
    }

    fn label(&self, node: &str, key: &str) -> Value {
        self.node(node)["metadata"]["labels"][SKYHOOK.0.key(key)].clone()
    }

    /// The entries of the node state, or null.
    fn entries(&self, node: &str) -> Value {
        match self.on(node, "nodeState_gpu").as_str() {
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
    fn patched(&self) -> Vec<String> {
        self.patches().into_iter().map(|p| p.path).collect()
    }

    /// Stands in for the operator: whoever looks at a custom resource that is to pause sees it paused.
    fn with_operator(self) -> Site {
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

/// A server with the custom resource at rest, so that nothing waits for the operator.
fn idle(packages: Value) -> FakeApi {
    FakeApi::new()
        .serving(SKYHOOK.0)
        .with(SKYHOOK.skyhook("complete", packages))
        .with(SKYHOOK.operator())
}

/// A node with every key that the operator leaves on one for a custom resource.
fn marked(name: &str, status: &str, entries: &[&str]) -> Value {
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
        let output = std::process::Command::new(&link)
            .args(["version", "--client-only"])
            .output()
            .expect("it starts");
        let plain = run("version --client-only").output();
        assert_eq!(String::from_utf8_lossy(&output.stdout), plain.stdout);
        assert_eq!(output.status.code(), Some(0));
    }
}
