//! Pause, resume, disable and enable.

use kubectl_skyhook::api::ApiFlavor;
use serde_json::{Value, json};

use super::TestCluster;
use crate::support::run::Run;

#[test]
fn pause_resume_disable_and_enable_set_annotations() {
    let cluster = TestCluster::from_capture("complete");
    let value = |key: &str| {
        cluster.cr().expect("the CR exists")["metadata"]["annotations"][ApiFlavor::Skyhook.key(key)].clone()
    };
    cluster.run("pause gpu-tune --confirm --reason maintenance").expect_code(0);
    assert_eq!(value("pause"), json!("true"));
    assert_eq!(
        cluster.cr().expect("the CR exists")["metadata"]["annotations"]["kubectl-skyhook/pause-reason"],
        json!("maintenance")
    );
    cluster.run("disable gpu-tune -y").expect_code(0);
    assert_eq!(value("disable"), json!("true"));
    cluster.run("resume gpu-tune -y").expect_code(0);
    assert_eq!((value("pause"), value("disable")), (Value::Null, json!("true")));
    assert_eq!(
        cluster.cr().expect("the CR exists")["metadata"]["annotations"]["kubectl-skyhook/pause-reason"],
        Value::Null
    );
    cluster.run("enable gpu-tune -y").expect_code(0);
    assert_eq!(value("disable"), Value::Null);
    // A command with nothing to change succeeds.
    cluster.run("enable gpu-tune").expect_code(0);
    let typo = cluster.run("pause gpu-tone --confirm");
    typo.expect_code(1);
    typo.expect_stderr("did you mean gpu-tune");
}

/// A server compares the JSON text of values, in which Go escapes these characters.
#[test]
fn undo_works_for_text_that_go_escapes() {
    let cluster = TestCluster::from_capture("complete");
    let pause = |reason| {
        let words = ["pause", "gpu-tune", "--confirm", "--reason", reason];
        let run = Run::new(words)
            .kubeconfig(&cluster.served.kubeconfig())
            .env("XDG_STATE_HOME", cluster.state.path());
        run.output().expect_code(0);
    };
    pause("CVE & <kernel>");
    pause("line\u{2028}end && more");
    cluster.run("undo --confirm").expect_code(0);
    cluster.run("resume gpu-tune --confirm").expect_code(0);
    let annotations = &cluster.cr().expect("the CR exists")["metadata"]["annotations"];
    assert_eq!(annotations["kubectl-skyhook/pause-reason"], Value::Null);
}
