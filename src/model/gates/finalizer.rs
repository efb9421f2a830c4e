//! The finalizer of a deleted custom resource stays until its packages with an enabled uninstall are uninstalled on all
//! selected nodes.

use super::At;
use crate::model::action::Action;
use crate::model::progress::{NodeProgress, ProgressState};
use crate::model::reason::WaitReason;

/// Operator `HandleFinalizer`.
pub fn check<'a>(at: &At<'_, 'a>) -> Option<NodeProgress<'a>> {
    if !at.resource.deleting || at.model.halt.is_some() {
        return None;
    }
    // Uninstalls and installations that are still due on the node have to pass the other gates.
    let done = at.place.complete || at.profile.due.is_empty() && !at.profile.pending;
    match at.resource.pending {
        None => Some(NodeProgress::acts(Action::Finalize)),
        Some(node) if done => {
            Some(NodeProgress::without_action(ProgressState::Waiting, WaitReason::Deletion(node)))
        }
        Some(_) => None,
    }
}
