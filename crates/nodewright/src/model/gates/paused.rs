//! A paused custom resource starts nothing.

use super::{At, NodeProgress, WaitReason};
use crate::model::action::Action;

/// Models operator `Reconcile`: a paused custom resource is excluded from the work on packages. Since v0.18
/// its Jobs are suspended. Earlier operators let its Pods run to their end.
pub fn check<'a>(at: &At<'_, 'a>) -> Option<NodeProgress<'a>> {
    if !at.resource.paused {
        return None;
    }
    let running =
        at.runs().filter(|run| run.alive()).find(|run| run.job.is_some_and(|job| !job.spec.suspend));
    let suspend =
        running.map(|run| Action::Suspend { package: run.package.clone(), stage: run.stage.clone() });
    Some(NodeProgress {
        next_action: suspend.filter(|_| at.model.halt.is_none()),
        ..WaitReason::Paused.into()
    })
}
