//! Each request of a command that writes gets a fault in turn: an error, a lost or wrong answer, a cut connection, a kill.
//! Whatever the server does, nothing is left half done, the exit code, the messages and the journal are true, and both
//! the same command again and `undo` work.
//!
//! Tests start in the order of their names. This one takes up to two minutes and hardly any processor time, so its name
//! puts it near the front: it waits while the others work.
//!
//! A sample runs with the suite. `FAULTS=all cargo test --test it -- bad_answers --nocapture` runs all cases and prints how
//! many there were; a number instead of `all` runs about as many. `faults::` of the end-to-end tests does the same against a
//! real API server.

use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::fake_api::FakeApi;
use crate::support::fault_checks::{COMMANDS, FaultTarget, Sample, check_all, sample};
use crate::support::proxy::Proxy;
use crate::support::test_cluster::captured_api;

/// How many cases run with the suite.
const SAMPLE: usize = 50;
/// How many run at once: the commands wait more than they work.
const AT_ONCE: usize = 25;
/// How many run at once when nothing else runs.
const AT_ONCE_OF_ALL: usize = 40;

/// The fake API server behind the proxy.
struct InMemory {
    fake: FakeApi,
    proxy: Proxy,
    state: TempDir,
}

impl InMemory {
    fn of(cluster: &str) -> InMemory {
        let fake = captured_api(cluster);
        let served = fake.clone();
        InMemory {
            proxy: Proxy::to(move || served.client()).simulating_operator(),
            fake,
            state: tempfile::tempdir().expect("a directory"),
        }
    }
}

impl FaultTarget for InMemory {
    fn load_capture(&mut self, cluster: &'static str) {
        *self = InMemory::of(cluster);
    }

    fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    fn state_dir(&self) -> &Path {
        self.state.path()
    }

    fn objects(&self) -> Vec<Value> {
        self.fake.objects()
    }
}

#[test]
fn commands_report_and_recover_from_faulty_requests() {
    let target = || InMemory::of(COMMANDS[0].cluster);
    let sample = sample(SAMPLE);
    let at_once = if sample == Sample::About(SAMPLE) { AT_ONCE } else { AT_ONCE_OF_ALL };
    check_all(COMMANDS, sample, at_once, target).assert_none_failed();
}
