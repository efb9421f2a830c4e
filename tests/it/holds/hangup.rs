//! The terminal is closed during a reset, which then receives SIGHUP more than once.

use std::ffi::OsString;

use serde_json::{Value, json};

use super::{DONE, RESET, erroring};
use crate::support::run::{Child, Run, RunOutput, binary};
use crate::support::test_cluster::TestCluster;

impl TestCluster {
    /// Runs a reset that receives SIGHUP twice: during its changes, and when it ends its pause.
    fn hung_up(&self, env: &str) -> RunOutput {
        let child = Child::default();
        for at in [self.fake.on("PATCH nodes node-1").nth(1), self.fake.on("PATCH skyhooks").nth(2)] {
            at.after(child.hang_up());
        }
        let words = RESET.split_whitespace().chain(["--max-parallel=1"]);
        let call = [OsString::from(env), binary()].into_iter();
        let reset = Run::program("env", call.chain(words.map(OsString::from)))
            .kubeconfig(&self.served.kubeconfig())
            .env("XDG_STATE_HOME", self.state.path());
        self.with_operator(|| reset.child(&child).output())
    }
}

#[test]
fn a_reset_whose_terminal_is_closed_ends_its_pause() {
    let cluster = erroring();
    let ran = cluster.hung_up("--default-signal=HUP");
    let message = "interrupted; requests in flight were completed";
    assert!(ran.stdout.contains(message), "{}", ran.transcript());
    assert_eq!(ran.code, Some(130), "{}", ran.transcript());
    assert_eq!(cluster.reset_and_paused(), (false, Value::Null, Value::Null), "{}", ran.transcript());
    let journals = cluster.run("journal list -o json").json();
    assert_eq!(journals["items"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_reset_under_nohup_goes_on() {
    let cluster = erroring();
    let ran = cluster.hung_up("--ignore-signal=HUP");
    assert_eq!(ran.code, Some(0), "{}", ran.transcript());
    assert_eq!(cluster.reset_and_paused(), DONE, "{}", ran.transcript());
    assert_eq!(cluster.cr_annotation("pause"), json!(null));
}
