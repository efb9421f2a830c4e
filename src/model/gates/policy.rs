//! Without its deployment policy a custom resource has no compartments, and takes no nodes.

use super::At;
use crate::model::progress::{NodeProgress, ProgressState};
use crate::model::reason::WaitReason;

/// Operator `initializeCompartmentsFromPolicy`.
pub fn check<'a>(at: &At<'_, 'a>) -> Option<NodeProgress<'a>> {
    let name = &at.resource.skyhook.spec.deployment_policy;
    let missing = at.resource.policy_missing;
    missing.then(|| NodeProgress::without_action(ProgressState::Blocked, WaitReason::PolicyMissing(name)))
}
