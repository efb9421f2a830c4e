//! Comparisons with the operator's version, and ages of events.

use jiff::Timestamp;

use super::node::READY;
use super::{Cluster, Deployment, Node, PackageRun};
use crate::api::{ApiFlavor, Version};

/// The newest operator version whose behavior is known.
pub const NEWEST_OPERATOR: (u64, u64) = (0, 21);
/// Age in seconds at which a pending action is overdue: the operator reconciles everything at least this
/// often.
const PATIENCE: i64 = 600;
/// Maximum number of seconds that a time may be in the future. A later time was written by a wrong clock.
const WRONG_CLOCK: i64 = 3600;

impl Cluster {
    /// Whether the operator is known to be older than `major.minor`.
    ///
    /// v0.17 was the last version with the older API: if the older API is active, the operator is older than
    /// v0.18.
    pub fn operator_before(&self, major: u64, minor: u64) -> bool {
        match &self.active_api.operator_version {
            Some(version) => !version.at_least(major, minor),
            None => self.flavor() == ApiFlavor::Skyhook && (major, minor) >= (0, 18),
        }
    }

    /// Whether ignored nodes, and nodes blocked by a taint, keep their batch slots: before v0.20 the operator
    /// does not form another batch until all nodes of the current batch are complete (`getStickyBatchNodes`).
    pub fn blocked_nodes_keep_places(&self) -> bool {
        self.operator_before(0, 20)
    }

    /// The operator's version if it is newer than [`NEWEST_OPERATOR`]. The operator is then treated as that
    /// version.
    pub fn unknown_operator_version(&self) -> Option<&Version> {
        let (major, minor) = NEWEST_OPERATOR;
        let version = self.active_api.operator_version.as_ref();
        version.filter(|version| version.at_least(major, minor + 1))
    }

    /// Whether the operator is known to be at least `major.minor`.
    pub fn operator_since(&self, major: u64, minor: u64) -> bool {
        let version = self.active_api.operator_version.as_ref();
        version.is_some_and(|v| v.at_least(major, minor))
    }

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
    pub fn at_work(&self, package_run: &PackageRun<'_>) -> bool {
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
