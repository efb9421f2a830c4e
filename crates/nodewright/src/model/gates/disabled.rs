//! A disabled custom resource starts nothing. Its running stages end.

use super::At;
use crate::model::action::{NodeProgress, ProgressState};
use crate::model::reason::WaitReason;

/// Models operator `processSkyhooksPerNode`.
pub fn check<'a>(at: &At<'_, 'a>) -> Option<NodeProgress<'a>> {
    at.resource.disabled.then(|| NodeProgress::without_action(ProgressState::Suspended, WaitReason::Disabled))
}
