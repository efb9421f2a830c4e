//! `package logs` from a server: which logs are found, their order, and messages if there are none.

mod arguments;
mod follow;
mod jobs;
#[cfg(target_os = "linux")]
mod large;
mod pods;

use serde_json::{Value, json};

use crate::support::fake_api::FakeApi;
use crate::support::object_builder::{NODEWRIGHT, SKYHOOK};
use crate::support::run::{RunOutput, run};

/// One package, whose last stage is config.
fn driver() -> Value {
    json!({"driver": {"version": "1.0.0", "image": "example.com/driver"}})
}

/// Runs `package logs` with these arguments.
fn logs(fake: &FakeApi, words: &str) -> RunOutput {
    let served = fake.serve();
    run(&format!("package logs {words} --skyhook gpu")).kubeconfig(&served.kubeconfig()).output()
}

/// The requested logs, as pod and query.
fn requested_logs(fake: &FakeApi) -> Vec<String> {
    let lines = fake.lines().into_iter();
    lines
        .filter_map(|line| {
            let (pod, query) = line.split_once("/log?")?;
            let pod = pod.rsplit('/').next()?;
            Some(format!("{pod}?{query}"))
        })
        .collect()
}
