//! Nothing new starts on a node with the ignore label.

use super::At;
use crate::model::action::{NodeProgress, ProgressState};
use crate::model::reason::WaitReason;

/// Models operator `selectNodesWithCompartments`.
pub fn check<'a>(at: &At<'_, 'a>) -> Option<NodeProgress<'a>> {
    at.place.ignored.then(|| NodeProgress::without_action(ProgressState::Blocked, WaitReason::Ignored))
}
