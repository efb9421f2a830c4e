//! An earlier custom resource that is not disabled must be complete first: on the node, or with `sequencing:
//! all` on all of its nodes.

use super::{At, NodeProgress, WaitReason};

/// Models operator `isBlockedByGlobalPredecessor` and `IsNodeReadyForSkyhook`.
pub fn check<'a>(at: &At<'_, 'a>) -> Option<NodeProgress<'a>> {
    let reason = match at.resource.gate {
        Some((skyhook, node)) => WaitReason::Earlier { skyhook, node, everywhere: true },
        None => WaitReason::Earlier {
            skyhook: at.model.resources.get(usize::from(at.place.earlier))?.skyhook,
            node: at.node,
            everywhere: false,
        },
    };
    Some(reason.into())
}
