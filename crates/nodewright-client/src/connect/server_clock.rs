//! The API server's clock, from the `Date` header of its responses.

use std::sync::{Arc, Mutex};

use http::HeaderMap;
use http::header::DATE;
use jiff::fmt::rfc2822;
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// The time in the newest response, and when the response was received. Clones share both.
#[derive(Debug, Clone, Default)]
pub struct ServerClock(Arc<Mutex<Option<(Timestamp, Instant)>>>);

impl ServerClock {
    /// Reads the time of one response.
    pub(super) fn note(&self, headers: &HeaderMap) {
        let date = headers.get(DATE).and_then(|date| date.to_str().ok());
        if let Some(date) = date.and_then(|date| rfc2822::parse(date).ok()) {
            *self.lock() = Some((date.timestamp(), Instant::now()));
        }
    }

    /// Time by which the server's clock is ahead of this machine's clock, which shows `local`; `None` before
    /// the first response.
    pub fn ahead_of(&self, local: Timestamp) -> Option<SignedDuration> {
        let (date, received) = (*self.lock())?;
        let since = SignedDuration::try_from(received.elapsed()).ok()?;
        date.duration_since(local).checked_add(since)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<(Timestamp, Instant)>> {
        self.0.lock().expect("no thread panics while holding the lock")
    }
}
