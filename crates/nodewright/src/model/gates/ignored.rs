//! Nothing new starts on a node with the ignore label.

use super::{At, NodeProgress, WaitReason};

/// Models operator `selectNodesWithCompartments`.
pub fn check<'a>(at: &At<'_, 'a>) -> Option<NodeProgress<'a>> {
    at.place.ignored.then(|| WaitReason::Ignored.into())
}
