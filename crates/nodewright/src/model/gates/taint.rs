//! Nothing new starts on a node with a taint, of any effect, that the custom resource does not tolerate.

use super::At;
use crate::cluster::Source;
use crate::model::action::{NodeProgress, ProgressState};
use crate::model::reason::WaitReason;

/// Models operator `CheckTaintToleration`.
pub fn check<'a>(at: &At<'_, 'a>) -> Option<NodeProgress<'a>> {
    if at.node.body().is_none() {
        let reason = WaitReason::Unread(Source::Nodes);
        return Some(NodeProgress::without_action(ProgressState::Unknown, reason));
    }
    if at.place.tolerated {
        return None;
    }
    let taints = at.model.cluster.untolerated_by(at.resource.skyhook, at.node);
    let lasting = taints.iter().find(|taint| !taint.of_lifecycle());
    // Taints of a node's lifecycle are expected to be removed.
    let state = match lasting {
        Some(_) => ProgressState::Blocked,
        None => ProgressState::Waiting,
    };
    let taint = lasting.or(taints.first())?;
    Some(NodeProgress::without_action(state, WaitReason::Taint(taint)))
}
