//! Ages of events, and whether an action is overdue.

use jiff::Timestamp;

use super::node::READY;
use super::{Cluster, Deployment, Node, PackageRun};

/// Age in seconds at which a pending action is overdue: the operator reconciles everything at least this
/// often.
const PATIENCE: i64 = 600;
/// Maximum number of seconds that a time may be in the future. A later time was written by a wrong clock.
const WRONG_CLOCK: i64 = 3600;

impl Cluster {
    /// Number of seconds since a time; 0 for a time in the near future, because clocks differ. `None` if the
    /// time is unknown, or so far in the future that the clock was wrong.
    pub fn seconds_since(&self, at: Option<Timestamp>) -> Option<i64> {
        let seconds = self.taken_at.as_second() - at?.as_second();
        (seconds >= -WRONG_CLOCK).then_some(seconds.max(0))
    }

    /// Whether a pending action from this time is overdue.
    pub fn is_stale(&self, at: Option<Timestamp>) -> bool {
        self.seconds_since(at).is_some_and(|age| age >= PATIENCE)
    }

    /// Whether an action from this time is known not to be overdue.
    pub fn is_recent(&self, at: Option<Timestamp>) -> bool {
        self.seconds_since(at).is_some_and(|age| age < PATIENCE)
    }

    /// Start of a Deployment's current startup: none of its replicas is available, as during each restart and
    /// upgrade. `None` after ten minutes, when the Deployment controller by default gives up as well, and for
    /// a Deployment whose pods are crash looping.
    pub fn coming_up_since(&self, deployment: &Deployment) -> Option<Timestamp> {
        let since = deployment.unavailable_since();
        since.filter(|at| {
            deployment.replicas() > 0
                && deployment.available_replicas() == 0
                && deployment.progresses()
                && !self.is_stale(Some(*at))
                && self.crash_looping(deployment).is_none()
        })
    }

    /// Time since which a node has not been ready, if that is too long for a reboot.
    pub fn not_ready_since(&self, node: &Node) -> Option<Timestamp> {
        let since = node.not_ready_since();
        since.filter(|at| self.is_stale(Some(*at)))
    }

    /// Whether a package run may progress: it is alive, and its node has not been unready for too long.
    pub fn may_progress(&self, package_run: &PackageRun<'_>) -> bool {
        let node = self.node(package_run.node);
        package_run.alive() && node.is_none_or(|n| self.not_ready_since(n).is_none())
    }
}

impl Node {
    /// Time since which the node has not been ready, however short that is.
    pub fn not_ready_since(&self) -> Option<Timestamp> {
        let ready = self.condition(READY)?;
        ready.last_transition_time.filter(|_| !ready.is_true())
    }
}
