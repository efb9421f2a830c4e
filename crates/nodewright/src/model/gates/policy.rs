//! Without its deployment policy, a custom resource has no compartments, and the operator selects no nodes
//! for it.

use super::{At, NodeProgress, WaitReason};

/// Models operator `initializeCompartmentsFromPolicy`.
pub fn check<'a>(at: &At<'_, 'a>) -> Option<NodeProgress<'a>> {
    let name = &at.resource.skyhook.spec.deployment_policy;
    let missing = at.resource.policy_missing;
    missing.then(|| WaitReason::PolicyMissing(name).into())
}
