//! What is unfinished between the two APIs.

use jiff::{SignedDuration, Timestamp};

use super::{Cluster, Node};
use crate::api::{ApiFlavor, Skyhook, Status};

impl Cluster {
    /// Whether the operator is known to be one that looks at the objects of the older API.
    pub fn operator_migrates(&self) -> bool {
        self.flavor() == ApiFlavor::NodeWright
            && self.operator_since(0, 18)
            && self.operator_before(0, 21)
    }

    /// The objects of the older API that stop the operator of the newer one.
    ///
    /// It does nothing for any NodeWright while a Skyhook says that it is still rolled out (operators
    /// v0.18.0 to v0.20.x).
    pub fn holding(&self) -> impl Iterator<Item = &Skyhook> {
        let older = if self.active_api.migrating() {
            self.legacy.items()
        } else {
            &[]
        };
        older.iter().filter(|old| {
            let status = old.status.status.as_ref();
            status.is_some_and(|status| !at_rest(status))
        })
    }

    /// Whether the operator has copied what the older one wrote on the node for a custom resource.
    pub fn is_adopted(&self, node: &Node, skyhook: &str) -> bool {
        let own = node.keys(self.flavor()).of(skyhook);
        own.is_some_and(|on| on.version.is_some())
    }

    /// When the operator adopted what the older one wrote for a custom resource, as it noted; it drops the note once it
    /// has removed all of that.
    pub fn migrated_at<'a>(&self, skyhook: &'a Skyhook) -> Option<&'a str> {
        let key = self.flavor().key("legacy-migrated-at");
        skyhook.metadata.annotations.get(&key).map(String::as_str)
    }

    /// Whether the operator is past adopting nodes for a custom resource: it does that before it writes a status.
    pub fn has_migrated(&self, skyhook: &Skyhook) -> bool {
        let begun = self.migrated_at(skyhook).is_some() || skyhook.status.status.is_some();
        begun && self.holding().next().is_none()
    }

    /// Whether the operator should have removed by now what it adopted at this time.
    ///
    /// While it is held it removes nothing, and may be rolled back.
    pub fn cleanup_is_overdue(&self, adopted_at: &str) -> bool {
        let due = || {
            let at: Timestamp = adopted_at.parse().ok()?;
            at.checked_add(self.cleanup_delay()?).ok()
        };
        self.is_stale(due()) && self.holding().next().is_none()
    }

    /// How long the operator keeps what it adopted, for a rollback; `None` where its settings are not known.
    fn cleanup_delay(&self) -> Option<SignedDuration> {
        let operators = self.operators.items();
        let set = operators.iter().find_map(|d| d.env("LEGACY_CLEANUP_DELAY"));
        match set {
            // The only one without a unit that Go reads.
            Some("0") => Some(SignedDuration::ZERO),
            Some(text) => text.parse().ok(),
            None => (!operators.is_empty()).then_some(SignedDuration::from_hours(24)),
        }
    }
}

/// Whether the operator takes no notice of an object with this status.
fn at_rest(status: &Status) -> bool {
    matches!(status, Status::Complete | Status::Paused | Status::Disabled)
        || status.as_str().is_empty()
}
