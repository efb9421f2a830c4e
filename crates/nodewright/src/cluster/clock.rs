//! The time of the input, and its source.

use jiff::{SignedDuration, Timestamp};

use super::node::READY;
use super::operator::OperatorView;
use super::{Cluster, Deployment, Node, PackageRun};

/// Maximum time between the newest timestamp in a file and its modification time. An idle operator still
/// reconciles every ten minutes, so a larger difference means that the file was copied later.
const COPIED: SignedDuration = SignedDuration::from_mins(15);

/// Source of the time at which ages are computed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Clock {
    /// The time of the read from the server.
    #[default]
    Reading,
    /// The value of `--now`.
    Given,
    /// The time recorded in the capture.
    Capture,
    /// The file's modification time.
    File,
    /// The newest timestamp in the files.
    Newest,
    /// The files contain no time.
    Unknown,
}

impl Clock {
    pub fn words(self) -> &'static str {
        match self {
            Clock::Reading => "when the cluster was read",
            Clock::Given => "as set by --now",
            Clock::Capture => "as recorded in the capture",
            Clock::File => "when the file was written",
            Clock::Newest => "the newest time in the capture",
            Clock::Unknown => "unknown: the capture contains no time",
        }
    }

    /// A notice for unfinished work without findings, if the capture may be older than the time used: work that has stopped
    /// writes nothing.
    pub fn doubt(self) -> Option<&'static str> {
        (self == Clock::Newest).then_some(
            "If the capture was made later, pass its time with --now: unfinished work may be overdue.",
        )
    }
}

/// Maximum time by which a timestamp in a file may be later than the file: clocks differ.
const AHEAD: SignedDuration = SignedDuration::from_hours(24);

/// The newest timestamp of the objects in files. A timestamp that is later than its file was written by a
/// wrong clock, or means "never": objects with one count only if there are no others.
#[derive(Debug, Default)]
pub struct NewestTime {
    /// When the current file was written, if known.
    pub written: Option<Timestamp>,
    plausible: Option<Timestamp>,
    any: Option<Timestamp>,
}

impl NewestTime {
    /// Adds the newest timestamp of an object in the current file.
    pub fn note(&mut self, newest: Option<Timestamp>) {
        let later = |at: &Timestamp| self.written.is_some_and(|written| at.duration_since(written) > AHEAD);
        self.any = self.any.max(newest);
        self.plausible = self.plausible.max(newest.filter(|at| !later(at)));
    }

    pub fn time(&self) -> Option<Timestamp> {
        self.plausible.or(self.any)
    }
}

/// The time of files: recorded in the capture, else the file's modification time if it fits the newest
/// timestamp, else the newest timestamp in the files.
pub fn of_files(
    newest: Option<Timestamp>,
    captured: Option<Timestamp>,
    written: Option<Timestamp>,
) -> (Timestamp, Clock) {
    let Some(newest) = newest else {
        return match (captured, written) {
            (Some(at), _) => (at, Clock::Capture),
            (None, Some(at)) => (at, Clock::File),
            (None, None) => (Timestamp::default(), Clock::Unknown),
        };
    };
    let fits = |at: &Timestamp| *at >= newest && at.duration_since(newest) <= COPIED;
    match (captured, written.filter(fits)) {
        (Some(at), _) if newest.duration_since(at) > AHEAD => (at, Clock::Capture),
        (Some(at), _) => (at.max(newest), Clock::Capture),
        (None, Some(at)) => (at, Clock::File),
        (None, None) => (newest, Clock::Newest),
    }
}

/// Parses the time of a must-gather from the last line of its `timestamp` file, such as
/// `2026-11-20 10:02:03.45 +0000 UTC m=+0.1`. The last line is the end of the run.
pub fn of_must_gather(text: &str) -> Option<Timestamp> {
    let mut words = text.lines().rfind(|line| !line.trim().is_empty())?.split_whitespace();
    let (day, time, zone) = (words.next()?, words.next()?, words.next()?);
    let zone = format!("{}:{}", zone.get(..3)?, zone.get(3..5)?);
    format!("{day}T{time}{zone}").parse().ok()
}

/// Age in seconds at which a pending action is overdue: the operator reconciles everything at least this
/// often.
pub const PATIENCE: i64 = 600;
/// Seconds within which the operator acts after a change that it watches. It reconciles within two seconds, and takes
/// longer only for thousands of nodes or after a restart.
const PROMPT: i64 = 60;
/// Maximum number of seconds that a time may be in the future. A later time was written by a wrong clock.
const WRONG_CLOCK: i64 = 3600;

impl Cluster {
    /// Number of seconds from a time until the cluster was read; negative for a time in the future.
    pub fn seconds_from(&self, at: Timestamp) -> i64 {
        self.taken_at.as_second() - at.as_second()
    }

    /// Number of seconds since a time; 0 for a time in the near future, because clocks differ. `None` if the
    /// time is unknown, or so far in the future that the clock was wrong.
    pub fn seconds_since(&self, at: Option<Timestamp>) -> Option<i64> {
        let seconds = self.seconds_from(at?);
        (seconds >= -WRONG_CLOCK).then_some(seconds.max(0))
    }

    /// Whether a pending action from this time is overdue.
    pub fn is_stale(&self, at: Option<Timestamp>) -> bool {
        self.seconds_since(at).is_some_and(|age| age >= PATIENCE)
    }

    /// Whether an action that a running operator takes promptly is late.
    pub fn is_late(&self, at: Option<Timestamp>) -> bool {
        self.seconds_since(at).is_some_and(|age| age >= PROMPT)
    }

    /// Whether an action from this time is known not to be overdue.
    pub fn is_recent(&self, at: Option<Timestamp>) -> bool {
        self.seconds_since(at).is_some_and(|age| age < PATIENCE)
    }
}

impl<'a> OperatorView<'a> {
    /// Start of a Deployment's current startup: none of its replicas is available, as during each restart and
    /// upgrade. `None` after ten minutes, when the Deployment controller by default gives up as well, and for
    /// a Deployment whose pods are crash looping.
    pub(super) fn startup_of(self, deployment: &Deployment) -> Option<Timestamp> {
        let since = deployment.unavailable_since();
        since.filter(|at| {
            deployment.replicas() > 0
                && deployment.available_replicas() == 0
                && deployment.progresses()
                && !self.0.is_stale(Some(*at))
                && self.crash_looping(deployment).is_none()
        })
    }
}

impl Cluster {
    /// Time since which a node has not been ready, if that is too long for a reboot.
    pub fn not_ready_since(&self, node: &Node) -> Option<Timestamp> {
        node.not_ready_since().filter(|at| self.is_stale(Some(*at)))
    }
}

impl PackageRun<'_> {
    /// Whether the run may progress: it is alive, and its node has not been unready for too long.
    pub fn may_progress(&self, cluster: &Cluster) -> bool {
        let node = cluster.node(self.node);
        self.alive() && node.is_none_or(|n| cluster.not_ready_since(n).is_none())
    }
}

impl Node {
    /// Time since which the node has not been ready, however short that is.
    pub fn not_ready_since(&self) -> Option<Timestamp> {
        let ready = self.condition(READY)?;
        ready.last_transition_time.filter(|_| !ready.is_true())
    }

    /// The kubelet's message about a node that is not ready.
    pub fn kubelet_message(&self) -> Option<&str> {
        let ready = self.condition(READY).filter(|ready| !ready.is_true())?;
        Some(ready.message.as_str()).filter(|message| !message.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    #[test]
    fn a_file_that_was_copied_later_tells_no_time() {
        let newest = at("2026-11-20T10:00:00Z");
        for (captured, written, is, clock) in [
            (None, None, "2026-11-20T10:00:00Z", Clock::Newest),
            (None, Some("2026-11-20T10:11:00Z"), "2026-11-20T10:11:00Z", Clock::File),
            (None, Some("2026-11-21T10:00:00Z"), "2026-11-20T10:00:00Z", Clock::Newest),
            (None, Some("2026-11-20T09:00:00Z"), "2026-11-20T10:00:00Z", Clock::Newest),
            (
                Some("2026-11-20T12:00:00Z"),
                Some("2026-11-20T10:11:00Z"),
                "2026-11-20T12:00:00Z",
                Clock::Capture,
            ),
        ] {
            let got = of_files(Some(newest), captured.map(at), written.map(at));
            assert_eq!(got, (at(is), clock));
        }
        assert_eq!(of_files(None, None, Some(newest)), (newest, Clock::File));
        assert_eq!(of_files(None, None, None).1, Clock::Unknown);
    }

    #[test]
    fn a_time_after_the_file_counts_only_without_others() {
        let mut newest = NewestTime { written: Some(at("2026-11-20T10:00:00Z")), ..NewestTime::default() };
        newest.note(Some(at("2036-11-20T10:00:00Z")));
        assert_eq!(newest.time(), Some(at("2036-11-20T10:00:00Z")));
        newest.note(Some(at("2026-11-20T09:00:00Z")));
        newest.note(None);
        newest.note(Some(at("9998-11-20T10:00:00Z")));
        assert_eq!(newest.time(), Some(at("2026-11-20T09:00:00Z")));
        newest.written = None;
        newest.note(Some(at("2027-01-01T00:00:00Z")));
        assert_eq!(newest.time(), Some(at("2027-01-01T00:00:00Z")));
        let captured = at("2026-11-20T10:00:00Z");
        let with = |newest| of_files(Some(at(newest)), Some(captured), None).0;
        assert_eq!(with("2026-11-20T10:05:00Z"), at("2026-11-20T10:05:00Z"));
        assert_eq!(with("2036-11-20T10:05:00Z"), captured);
    }

    #[test]
    fn the_last_line_of_a_must_gather_is_its_end() {
        let text = "2026-11-20 10:00:00.1 +0000 UTC m=+0.1\n2026-11-20 10:02:03.45 +0100 CET m=+123.4\n";
        assert_eq!(of_must_gather(text), Some(at("2026-11-20T09:02:03.45Z")));
        assert_eq!(of_must_gather("soon"), None);
    }
}
