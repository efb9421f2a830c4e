//! An interrupt waits until no package stage runs on the node, of any custom resource.

use super::At;
use crate::model::progress::{NodeProgress, ProgressState};
use crate::model::reason::WaitReason;

/// Operator `Interrupt` and `HasRunningPackages`.
pub fn check<'a>(at: &At<'_, 'a>) -> Option<NodeProgress<'a>> {
    let mut runs = at.model.runs.on_node(&at.node.name);
    let other = runs.find(|run| run.delays_interrupts())?;
    let reason = WaitReason::OtherRun {
        skyhook: other.skyhook.to_owned(),
        package: other.package.clone(),
        stage: other.stage.clone(),
        run: other.reference(),
    };
    Some(NodeProgress::without_action(ProgressState::Waiting, reason))
}
