//! The finalizer of a custom resource under deletion stays until the packages with `uninstall.enabled` are
//! uninstalled on all selected nodes.

use super::{At, NodeProgress, WaitReason};
use crate::model::action::Action;

/// Models operator `HandleFinalizer`.
pub fn check<'a>(at: &At<'_, 'a>) -> Option<NodeProgress<'a>> {
    if !at.resource.deleting || at.model.halt.is_some() {
        return None;
    }
    // Uninstalls and installations that are still due on the node must pass the other gates first.
    let done = at.place.complete || at.profile.due.is_empty() && !at.profile.pending;
    match at.resource.pending {
        None => Some(Action::Finalize.into()),
        Some(node) if done => Some(WaitReason::Deletion(node).into()),
        Some(_) => None,
    }
}
