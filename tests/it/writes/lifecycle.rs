//! Pause, resume, disable and enable.

use kubectl_skyhook::api::ApiFlavor;
use serde_json::{Value, json};

use super::Stage;
use crate::support::run::Run;

#[test]
fn pause_resume_disable_and_enable_set_annotations() {
    let stage = Stage::of("complete");
    let value = |key: &str| {
        stage.cr().expect("it is there")["metadata"]["annotations"][ApiFlavor::Skyhook.key(key)]
            .clone()
    };
    stage
        .run("pause gpu-tune --confirm --reason maintenance")
        .expect_code(0);
    assert_eq!(value("pause"), json!("true"));
    assert_eq!(
        stage.cr().expect("it is there")["metadata"]["annotations"]["kubectl-skyhook/pause-reason"],
        json!("maintenance")
    );
    stage.run("disable gpu-tune -y").expect_code(0);
    assert_eq!(value("disable"), json!("true"));
    stage.run("resume gpu-tune -y").expect_code(0);
    assert_eq!(
        (value("pause"), value("disable")),
        (Value::Null, json!("true"))
    );
    assert_eq!(
        stage.cr().expect("it is there")["metadata"]["annotations"]["kubectl-skyhook/pause-reason"],
        Value::Null
    );
    stage.run("enable gpu-tune -y").expect_code(0);
    assert_eq!(value("disable"), Value::Null);
    // What is unchanged is no error.
    stage.run("enable gpu-tune").expect_code(0);
    let typo = stage.run("pause gpu-tone --confirm");
    typo.expect_code(1);
    typo.expect_stderr("did you mean gpu-tune");
}

/// A server compares these characters in the way that Go spells them.
#[test]
fn undo_works_for_text_that_go_escapes() {
    let stage = Stage::of("complete");
    let pause = |reason| {
        let words = ["pause", "gpu-tune", "--confirm", "--reason", reason];
        let run = Run::new(words)
            .kubeconfig(&stage.served.kubeconfig())
            .env("XDG_STATE_HOME", stage.state.path());
        run.output().expect_code(0);
    };
    pause("CVE & <kernel>");
    pause("line\u{2028}end && more");
    stage.run("undo --confirm").expect_code(0);
    stage.run("resume gpu-tune --confirm").expect_code(0);
    let annotations = &stage.cr().expect("it is there")["metadata"]["annotations"];
    assert_eq!(annotations["kubectl-skyhook/pause-reason"], Value::Null);
}
