//! Comparisons with the operator's version.

use super::Cluster;
use crate::api::{ApiFlavor, Version};

/// The newest operator version whose behavior is known.
pub const NEWEST_OPERATOR: (u64, u64) = (0, 21);

impl Cluster {
    /// Whether the operator is known to be older than `major.minor`. While it is in doubt which Deployment is
    /// the operator, the oldest one counts: what one of them does not support may fail.
    ///
    /// v0.17 was the last version with the older API: if the older API is active, the operator is older than
    /// v0.18.
    pub fn operator_before(&self, major: u64, minor: u64) -> bool {
        let unknown = self.active_api.operator_version.is_none();
        self.active_api.versions().any(|version| !version.at_least(major, minor))
            || unknown && self.flavor() == ApiFlavor::Skyhook && (major, minor) >= (0, 18)
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
        let mut versions = self.active_api.versions();
        self.active_api.operator_version.is_some() && versions.all(|v| v.at_least(major, minor))
    }
}
