//! The newer operator does nothing while an object of the older API is rolling out.

use super::{At, NodeProgress, WaitReason};
use crate::model::Model;

/// Models the first check of each reconcile in v0.18 to v0.20.
pub fn halt<'a>(model: &Model<'a>) -> Option<WaitReason<'a>> {
    model.cluster.migration().holding().next().map(WaitReason::MigrationHold)
}

/// Conditions that halt the operator as a whole: no available replica, the migration hold, an invalid spec, or a
/// malformed node state.
pub fn check<'a>(at: &At<'_, 'a>) -> Option<NodeProgress<'a>> {
    at.model.halt.clone().map(NodeProgress::from)
}
