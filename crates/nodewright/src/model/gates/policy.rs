//! Without its deployment policy, a custom resource has no compartments, and the operator selects no nodes
//! for it.

use super::At;
use crate::model::action::{NodeProgress, ProgressState};
use crate::model::reason::WaitReason;

/// Models operator `initializeCompartmentsFromPolicy`.
pub fn check<'a>(at: &At<'_, 'a>) -> Option<NodeProgress<'a>> {
    let name = &at.resource.skyhook.spec.deployment_policy;
    let missing = at.resource.policy_missing;
    missing.then(|| NodeProgress::without_action(ProgressState::Blocked, WaitReason::PolicyMissing(name)))
}
