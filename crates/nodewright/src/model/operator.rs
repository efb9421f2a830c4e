//! The version of the modeled operator.

use crate::api::Executor;
use crate::cluster::Cluster;

/// The operator of a cluster. An unknown version counts as the newest of its API.
#[derive(Clone, Copy)]
pub(super) struct Operator<'a> {
    cluster: &'a Cluster,
    /// Whether a stage runs as a Job (v0.18 and later) rather than as a Pod.
    pub jobs: bool,
    /// Builds between v0.15 and v0.16 have explicit uninstalls and report v0.15.
    explicit_uninstall: bool,
}

impl<'a> Operator<'a> {
    pub fn new(cluster: &'a Cluster) -> Operator<'a> {
        Operator {
            cluster,
            jobs: cluster.flavor().executor() == Executor::Job,
            explicit_uninstall: cluster.knows_uninstall(),
        }
    }

    pub fn before(&self, major: u64, minor: u64) -> bool {
        match (major, minor) {
            (0, 16) => !self.explicit_uninstall,
            _ => self.cluster.operator_before(major, minor),
        }
    }
}
