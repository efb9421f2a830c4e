//! The version of the operator that is modelled.

use crate::api::Executor;
use crate::cluster::Cluster;

/// The operator of a cluster. An unknown version counts as the newest of its API.
#[derive(Clone, Copy)]
pub(super) struct Operator<'a> {
    cluster: &'a Cluster,
    /// Whether a stage runs as a Job (v0.18 and later) rather than as a Pod.
    pub jobs: bool,
}

impl<'a> Operator<'a> {
    pub fn new(cluster: &'a Cluster) -> Operator<'a> {
        Operator {
            cluster,
            jobs: cluster.flavor().executor() == Executor::Job,
        }
    }

    pub fn before(&self, major: u64, minor: u64) -> bool {
        self.cluster.operator_before(major, minor)
    }
}
