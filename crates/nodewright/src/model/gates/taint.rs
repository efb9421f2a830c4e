//! Nothing new starts on a node with a taint, of any effect, that the custom resource does not tolerate.

use super::{At, NodeProgress, WaitReason};
use crate::cluster::Source;

/// Models operator `CheckTaintToleration`.
pub fn check<'a>(at: &At<'_, 'a>) -> Option<NodeProgress<'a>> {
    if at.node.body().is_none() {
        return Some(WaitReason::Unread(Source::Nodes).into());
    }
    if at.place.tolerated {
        return None;
    }
    let taints = at.model.cluster.untolerated_by(at.resource.skyhook, at.node);
    let lasting = taints.iter().find(|taint| !taint.of_lifecycle());
    Some(WaitReason::Taint(lasting.or(taints.first())?).into())
}
