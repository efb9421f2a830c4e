//! Each request of a command that changes something is spoiled in turn: whatever the server does, nothing is half done,
//! the exit code, the messages and the journal tell the truth, and both ways are open, the same command again and `undo`.
//!
//! A sample runs with the suite. `FAULTS=all cargo test --test it -- writes::spoiled --nocapture` tries all, and says how
//! many they were; with a number, so many of them. The same over a real API server is `faults::` of the end-to-end tests.

use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::bearing::{COMMANDS, Ground, Sample, sample, try_all};
use crate::support::fake_api::FakeApi;
use crate::support::proxy::Proxy;
use crate::support::stage::captured;

/// Runs of the suite are a sample of this size.
const SAMPLE: usize = 50;
/// The commands wait more than they work.
const AT_ONCE: usize = 25;
/// The same, where there is nothing else to do.
const AT_ONCE_OF_ALL: usize = 40;

/// A server in memory behind the proxy.
struct InMemory {
    fake: FakeApi,
    proxy: Proxy,
    state: TempDir,
}

impl InMemory {
    fn of(cluster: &str) -> InMemory {
        let fake = captured(cluster);
        let served = fake.clone();
        InMemory {
            proxy: Proxy::before(move || served.client()).standing_in(),
            fake,
            state: tempfile::tempdir().expect("a directory"),
        }
    }
}

impl Ground for InMemory {
    fn as_new(&mut self, cluster: &'static str) {
        *self = InMemory::of(cluster);
    }

    fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    fn state(&self) -> &Path {
        self.state.path()
    }

    fn objects(&self) -> Vec<Value> {
        self.fake.objects()
    }
}

#[test]
fn one_spoiled_request_is_told_and_finished_or_taken_back() {
    let ground = || InMemory::of(COMMANDS[0].cluster);
    let sample = sample(SAMPLE);
    let at_once = if sample == Sample::About(SAMPLE) {
        AT_ONCE
    } else {
        AT_ONCE_OF_ALL
    };
    try_all(COMMANDS, sample, at_once, ground).all_borne();
}
