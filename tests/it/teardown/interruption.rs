//! A teardown on a terminal, with an interrupt, and with a timeout.

use std::process::Command;
use std::time::Duration;

use expectrl::process::unix::WaitStatus;
use expectrl::{Eof, Expect, Session};
use kubectl_skyhook::api::ApiFlavor;
use serde_json::json;

use super::{SKYHOOK, delete_at_once, remove, two, uninstalling};
use crate::support::fake_api::FakeApi;
use crate::support::run::Child;
use crate::support::test_cluster::TestCluster;

/// A deletion in progress with a running pod.
fn uninstall_in_progress() -> FakeApi {
    let fake = two();
    uninstalling(&fake, "late", "node-1");
    fake
}

#[test]
fn interrupt_leaves_later_waves_unstarted() {
    let fake = uninstall_in_progress();
    let child = Child::default();
    fake.on("DELETE skyhooks late").after(child.interrupt());
    let cluster = TestCluster::serving(fake);
    let ran = cluster.command("teardown --timeout 20s --confirm").child(&child).output();
    ran.expect_code(130);
    assert_eq!(cluster.writes().len(), 1);
    for words in [
        "interrupted; requests in flight were completed",
        ": 1 changed, 2 not reached",
        "0 of 3 gone; deletions in progress continue and cannot be canceled",
        "rerun the command to finish the remaining steps",
    ] {
        ran.expect_stdout(words);
    }
    assert!(cluster.fake.get("skyhooks", "", "base").is_some());
}

/// The uninstall of a disabled custom resource does not start.
#[test]
fn interrupt_names_a_deletion_that_a_disable_blocks() {
    let fake = two();
    let mut late = fake.get("skyhooks", "", "late").expect("the custom resource exists");
    late["metadata"]["annotations"] = json!({ApiFlavor::Skyhook.key("disable"): "true"});
    fake.load(late);
    let child = Child::default();
    // The first check for blockers after the deletion; only a second one confirms them.
    fake.on("LIST poddisruptionbudgets").nth(2).after(child.interrupt());
    let cluster = TestCluster::serving(fake);
    let ran = cluster.command("teardown --timeout 20s --confirm").child(&child).output();
    insta::assert_snapshot!(ran.transcript());
}

#[test]
fn timeout_is_reported() {
    let cluster = TestCluster::serving(uninstall_in_progress());
    let ran = cluster.command("teardown --timeout 3s --confirm").output();
    ran.expect_code(5);
    for words in [
        "timed out waiting until skyhook/late is gone",
        "0 of 3 gone; deletions in progress continue and cannot be canceled",
    ] {
        ran.expect_stdout(words);
    }
}

#[test]
fn terminal_shows_deletions_in_progress() {
    let fake = uninstall_in_progress();
    fake.on("LIST poddisruptionbudgets").nth(3).after(|it| {
        it.store.forget("pods", SKYHOOK.namespace(), "late-driver");
        remove(it, SKYHOOK, "late");
    });
    delete_at_once(&fake, SKYHOOK, "base");
    let cluster = TestCluster::serving(fake);
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-skyhook"));
    command
        .args(["teardown", "--confirm"])
        .env_clear()
        .env("HOME", cluster.state.path())
        .env("XDG_STATE_HOME", cluster.state.path())
        .env("TERM", "xterm")
        .env("NO_COLOR", "1")
        .env("KUBECONFIG", cluster.served.kubeconfig());
    let mut session = Session::spawn(command).expect("the binary starts on a terminal");
    session.set_expect_timeout(Some(Duration::from_secs(60)));
    for text in ["0 of 3 gone", "skyhook/late  in progress  1 uninstall left on 1 node", "1 of 3 gone"] {
        if let Err(error) = session.expect(text) {
            panic!("no {text:?}: {error}");
        }
    }
    let rest = session.expect(Eof).expect("the command ends");
    let output = String::from_utf8_lossy(rest.as_bytes()).into_owned();
    assert!(output.contains("Everything is gone: it is safe to uninstall the operator"), "{output}");
    let ended = session.get_process().wait().expect("an exit code");
    assert!(matches!(ended, WaitStatus::Exited(_, 0)), "{ended:?} {output}");
}
