//! A node state that cannot be read aborts the operator's reconcile before any work on packages, unless its
//! custom resource is paused and not being deleted.

use super::{At, NodeProgress, WaitReason};
use crate::cluster::NodeRecord;
use crate::model::Model;

/// Models operator `validateAndUpsertSkyhookData`, which does not run for a paused custom resource, and
/// `HandleFinalizer`.
pub fn halt<'a>(model: &Model<'a>) -> Option<WaitReason<'a>> {
    model.resources.iter().find_map(|resource| {
        let skyhook = resource.skyhook;
        let node = resource.malformed?;
        let reached = !skyhook.paused() || skyhook.deleting();
        reached.then_some(WaitReason::MalformedState { skyhook, node })
    })
}

pub fn check<'a>(at: &At<'_, 'a>) -> Option<NodeProgress<'a>> {
    let malformed = at.profile.record.is_some_and(NodeRecord::is_malformed);
    malformed.then(|| WaitReason::MalformedState { skyhook: at.resource.skyhook, node: at.node }.into())
}
