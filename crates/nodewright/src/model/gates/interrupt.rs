//! An interrupt waits until no package stage of any custom resource runs on the node. Bare pods count until
//! they are deleted.

use super::{At, NodeProgress, WaitReason};

/// Models operator `Interrupt` and `HasRunningPackages`.
pub fn check<'a>(at: &At<'_, 'a>) -> Option<NodeProgress<'a>> {
    let other = at.model.runs.all.on_node(&at.node.name).find(|run| run.delays_interrupts())?;
    let reason = WaitReason::OtherRun {
        skyhook: other.skyhook.to_owned(),
        package: other.package.clone(),
        stage: other.stage.clone(),
        run: other.to_string(),
    };
    Some(reason.into())
}
