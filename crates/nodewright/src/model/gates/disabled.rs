//! A disabled custom resource starts nothing. Its running stages end.

use super::{At, NodeProgress, WaitReason};

/// Models operator `processSkyhooksPerNode`.
pub fn check<'a>(at: &At<'_, 'a>) -> Option<NodeProgress<'a>> {
    at.resource.disabled.then(|| WaitReason::Disabled.into())
}
