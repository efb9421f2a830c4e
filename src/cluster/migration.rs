//! What is unfinished between the two APIs.

use super::Cluster;
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
}

/// Whether the operator takes no notice of an object with this status.
fn at_rest(status: &Status) -> bool {
    matches!(status, Status::Complete | Status::Paused | Status::Disabled)
        || status.as_str().is_empty()
}
