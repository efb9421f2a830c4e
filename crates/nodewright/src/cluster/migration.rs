//! Unfinished parts of a migration between the two APIs.

use jiff::{SignedDuration, Timestamp};

use super::node::NodeKeys;
use super::{Certainty, Cluster, Node, Source};
use crate::api::{ApiFlavor, DeploymentPolicy, Meta, Skyhook, Status};

impl Cluster {
    /// Whether the operator is known to process objects of the older API.
    pub fn operator_migrates(&self) -> bool {
        self.flavor() == ApiFlavor::NodeWright && self.operator_since(0, 18) && self.operator_before(0, 21)
    }

    /// Whether files may omit objects of the older API that exist: their file is empty, or the operator migrates
    /// and a read object carries the older keys.
    pub(super) fn may_omit_legacy(&self) -> bool {
        let older = self.flavor().other();
        let name = older.key("name");
        let labelled = |meta: &Meta| meta.labels.contains_key(&name);
        let traces = || {
            self.nodes.absence() != Certainty::Proven
                || self.nodes.indexed().iter().any(|node| *node.keys(older) != NodeKeys::default())
                || self.pods.indexed().iter().any(|pod| labelled(&pod.metadata))
                || self.config_maps.indexed().iter().any(|map| labelled(&map.metadata))
        };
        self.legacy.unread().is_some() || self.operator_migrates() && traces()
    }

    /// Objects of the older API that block the newer operator.
    ///
    /// Operators v0.18.0 to v0.20.x reconcile no NodeWright while the status of a Skyhook is unfinished.
    pub fn holding(&self) -> impl Iterator<Item = &Skyhook> {
        let older = if self.active_api.migrating() { self.legacy.items() } else { &[] };
        older.iter().filter(|old| {
            let status = old.status.status.as_ref();
            status.is_some_and(|status| !at_rest(status))
        })
    }

    /// Whether the operator has copied the older keys of a custom resource on the node.
    pub fn is_adopted(&self, node: &Node, skyhook: &str) -> bool {
        let own = node.keys(self.flavor()).of(skyhook);
        own.is_some_and(|on| on.version.is_some())
    }

    /// The recorded time at which the operator adopted the older keys of a custom resource. The operator
    /// removes the record together with the last of these keys.
    pub fn migrated_at<'a>(&self, skyhook: &'a Skyhook) -> Option<&'a str> {
        let key = self.flavor().key("legacy-migrated-at");
        skyhook.metadata.annotations.get(&key).map(String::as_str)
    }

    /// Whether the operator has finished adopting nodes for a custom resource. It does so before it writes a
    /// status.
    pub fn has_migrated(&self, skyhook: &Skyhook) -> bool {
        let begun = self.migrated_at(skyhook).is_some() || skyhook.status.status.is_some();
        begun && self.holding().next().is_none()
    }

    /// Whether the operator should have removed the keys adopted at this time.
    ///
    /// A blocked operator removes nothing, and may be rolled back.
    pub fn cleanup_is_overdue(&self, adopted_at: &str) -> bool {
        let due = || {
            let at: Timestamp = adopted_at.parse().ok()?;
            at.checked_add(self.cleanup_delay()?).ok()
        };
        self.is_stale(due()) && self.holding().next().is_none()
    }

    /// Time for which the operator keeps adopted keys for a rollback; `None` if its settings are unknown.
    fn cleanup_delay(&self) -> Option<SignedDuration> {
        match self.operator_setting("LEGACY_CLEANUP_DELAY") {
            // The only duration without unit that Go accepts.
            Some("0") => Some(SignedDuration::ZERO),
            Some(text) => text.parse().ok(),
            None => self.operator().map(|_| SignedDuration::from_hours(24)),
        }
    }
}

/// Deployment policies of the older API that the active operator does not use, and that no Skyhook names.
/// Empty if Skyhooks were not read: one may use the policy.
pub fn unused_policies(cluster: &Cluster) -> Vec<&DeploymentPolicy> {
    let unknown = cluster.legacy.absence() == Certainty::Unknown && cluster.has(Source::Legacy);
    if cluster.flavor() == ApiFlavor::Skyhook || unknown {
        return Vec::new();
    }
    let policies = cluster.legacy_policies.items().iter();
    let used = |policy: &&DeploymentPolicy| {
        let mut users = cluster.legacy.items().iter();
        users.any(|skyhook| skyhook.spec.deployment_policy == policy.metadata.name)
    };
    policies.filter(|policy| !used(policy)).collect()
}

/// Whether a Skyhook with this status does not block the migration.
fn at_rest(status: &Status) -> bool {
    matches!(status, Status::Complete | Status::Paused | Status::Disabled) || status.as_str().is_empty()
}
