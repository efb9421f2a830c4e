//! The clocks of this machine and of the API server.

use super::Ctx;
use crate::connect::ServerClock;
use crate::view::{CLOCK_SKEW, human};

impl Ctx {
    /// Warns once if this machine's clock differs from the API server's.
    pub(super) fn report_clock_difference(&mut self) {
        let Some(connected) = &mut self.connected else {
            return;
        };
        let ahead = server_ahead(&connected.clock, now());
        let Some(ahead) = ahead.filter(|_| !connected.reported_clock) else {
            return;
        };
        connected.reported_clock = true;
        let direction = if ahead.is_positive() { "behind" } else { "ahead of" };
        self.screen.warn(format!(
            "the clock of this machine is {} {direction} that of the API server; ages are counted by the server's clock",
            human(ahead.abs())
        ));
    }
}

/// How far the server's clock is ahead, if the difference is more than the usual clock skew.
fn server_ahead(clock: &ServerClock, local: jiff::Timestamp) -> Option<jiff::SignedDuration> {
    clock.ahead_of(local).filter(|ahead| ahead.abs() > CLOCK_SKEW)
}

/// The API server's time if its clock differs from this machine's, otherwise the local time.
pub(super) fn time_of(clock: &ServerClock) -> jiff::Timestamp {
    let local = now();
    let ahead = server_ahead(clock, local).unwrap_or_default();
    local.saturating_add(ahead).unwrap_or(local)
}

#[expect(clippy::disallowed_methods, reason = "the one clock")]
pub fn now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}
