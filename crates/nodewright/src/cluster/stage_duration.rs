//! Durations of stages, and the limits beyond which they are reported.

use jiff::{SignedDuration, Timestamp};

use super::{Cluster, PackageRun, PackageRuns, Pod};
use crate::api::Stage;

/// Limit for a stage without a timeout or a known duration on other nodes.
const USUAL: SignedDuration = SignedDuration::from_hours(1);
const TIMEOUT: &str = "its timeout";
const AN_HOUR: &str = "an hour";
/// Minimum limit, however fast the stage was on other nodes.
const LEAST: SignedDuration = SignedDuration::from_mins(10);
/// Factor between the longest duration on other nodes and the limit, and between the limit and a hopeless
/// duration.
const TIMES: i32 = 3;

/// A stage that runs longer than it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overtime {
    pub since: Timestamp,
    pub runs: SignedDuration,
    pub usual: SignedDuration,
    pub reason: &'static str,
}

impl Overtime {
    /// The exceeded limit in words: `its timeout of 1h`.
    pub fn limit(&self) -> String {
        let (reason, usual) = (self.reason, self.usual);
        match reason {
            TIMEOUT => format!("{reason} of {usual:#}"),
            AN_HOUR => reason.to_owned(),
            _ => format!("{reason} ({usual:#})"),
        }
    }

    /// Whether the stage runs so long that it will hardly end without help.
    pub fn is_hopeless(&self) -> bool {
        self.runs >= self.usual * TIMES
    }
}

impl PackageRun<'_> {
    /// Start of the running container in the newest attempt.
    pub fn running_since(&self) -> Option<Timestamp> {
        let pod = self.pods.first().filter(|p| !p.ended() && !p.metadata.deleting())?;
        running_since(pod)
    }

    /// Duration of the run, if it succeeded.
    pub fn took(&self) -> Option<SignedDuration> {
        let status = &self.job.filter(|j| j.failed().is_none())?.status;
        Some(status.completion_time?.duration_since(status.start_time?))
    }
}

impl Cluster {
    /// How far a stage has exceeded its limit: its timeout, a multiple of the duration on other nodes, or an
    /// hour. `None` within the limit.
    pub fn overtime(&self, package_run: &PackageRun<'_>, all: &PackageRuns<'_>) -> Option<Overtime> {
        // Without the annotation, the pod only has the label of a package and runs no stage.
        if package_run.stage == Stage::from("") {
            return None;
        }
        let since = package_run.running_since()?;
        let runs = self.taken_at.duration_since(since);
        if runs < LEAST {
            return None;
        }
        let (usual, reason) = usual(package_run, all);
        (runs >= usual).then_some(Overtime { since, runs, usual, reason })
    }
}

fn usual(package_run: &PackageRun<'_>, all: &PackageRuns<'_>) -> (SignedDuration, &'static str) {
    let timeout = package_run.job.and_then(super::Job::timeout);
    if let Some(seconds) = timeout {
        return (SignedDuration::from_secs(seconds), TIMEOUT);
    }
    match all.longest_of(package_run) {
        Some(longest) => ((longest * TIMES).max(LEAST), "three times the duration on other nodes"),
        None => (USUAL, AN_HOUR),
    }
}

/// Start of the pod's work, which init containers do. The main containers only keep the pod until the
/// operator has recorded its end.
fn running_since(pod: &Pod) -> Option<Timestamp> {
    let status = &pod.status;
    let works = if status.init_container_statuses.is_empty() {
        &status.container_statuses
    } else {
        &status.init_container_statuses
    };
    let running = works.iter().filter_map(|c| c.state.running.as_ref());
    let started = running.filter_map(|r| r.started_at).min();
    // Without container statuses, use the pod's own start.
    let nothing_said = status.init_container_statuses.is_empty() && status.container_statuses.is_empty();
    started.or(status.start_time.filter(|_| nothing_said))
}
