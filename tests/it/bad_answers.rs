//! Injects a fault into each request of a writing command in turn: an error, a lost or wrong response, a cut
//! connection, a kill. After any fault no change is half done; the exit code, the messages and the journal
//! are correct; and both a repetition of the command and `undo` work.
//!
//! Tests start in alphabetical order. This one takes up to two minutes but little processor time, so its name
//! puts it near the front: it waits while other tests compute.
//!
//! By default a sample of the cases runs. `FAULTS=all cargo test --test it -- bad_answers --nocapture` runs
//! all cases and prints their number; a number instead of `all` runs about that many. `faults::` of the
//! end-to-end tests does the same against a real API server.

use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::fake_api::FakeApi;
use crate::support::fault_checks::{COMMANDS, FaultTarget, Sample, check_all, sample};
use crate::support::proxy::Proxy;
use crate::support::test_cluster::captured_api;

/// Approximate number of cases in the default sample.
const SAMPLE: usize = 50;
/// Concurrent cases: the commands wait most of the time.
const CONCURRENT: usize = 25;
/// Concurrent cases of a larger run, during which no other tests run.
const CONCURRENT_OF_ALL: usize = 40;

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
    let at_once = if sample == Sample::About(SAMPLE) { CONCURRENT } else { CONCURRENT_OF_ALL };
    check_all(COMMANDS, sample, at_once, target).assert_none_failed();
}
