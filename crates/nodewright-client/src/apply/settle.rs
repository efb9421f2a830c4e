//! Removed node state that must stay removed: the operator may write back a copy that it read before.

use std::time::Duration;

use super::step::{Next, Tries};
use super::{ApplyEvent, PlanRun, StepResult};
use crate::plan::{Rebased, Step};
use crate::view::list;

/// Delay before the removal is checked: longer than a reconcile, in which the operator may write back its
/// older copy.
const SETTLES_WITHIN: Duration = Duration::from_secs(3);
/// Maximum number of times that state is removed again after the operator wrote it back.
const MOST_REMOVALS: u32 = 3;
/// [`MOST_REMOVALS`] for a deleted custom resource: if its kind is new to the garbage collector, its pods are
/// collected only after up to half a minute.
const MOST_REMOVALS_OF_ORPHANS: u32 = 12;

impl PlanRun<'_, '_> {
    /// Completes a successful step whose removed state must not return: reads the object again, and repeats
    /// the step if the operator has written the state back.
    pub(super) async fn settled(
        &self,
        result: StepResult,
        step: &mut Step,
        tries: &mut Tries,
        place: (usize, usize),
    ) -> Next {
        if self.options.dry_run {
            return Next::End(result);
        }
        let unverified = |why: &str| {
            Next::End(StepResult::Unknown {
                reason: format!("cannot verify that the state stays removed: {why}"),
            })
        };
        let settling = tokio::time::sleep(SETTLES_WITHIN);
        if self.stop.during(settling).await.is_none() {
            return unverified("interrupted");
        }
        let object = match self.api.read(&step.target).await {
            Ok(object) => object,
            Err(reason) => return unverified(&reason),
        };
        let back = step.written_back(&object);
        if back.is_empty() {
            return Next::End(result);
        }
        let back = list(&back);
        let again = match step.rebase(&object) {
            Rebased::Same(again) => again,
            Rebased::Moved(reason) => {
                let reason =
                    format!("the operator recorded {back} again, and it cannot be removed: {reason}");
                return Next::End(StepResult::Failed { reason });
            }
            Rebased::Done => return Next::End(result),
        };
        if tries.removals == MOST_REMOVALS && !tries.orphaned {
            tries.orphaned = self.deletion_ended(step).await;
            if tries.orphaned {
                tries.removals = 0;
            }
        }
        let most = if tries.orphaned { MOST_REMOVALS_OF_ORPHANS } else { MOST_REMOVALS };
        if tries.removals == most {
            let times = tries.removals + 1;
            let why = if tries.orphaned {
                "the custom resource is deleted, but one of its pods is still running; rerun this command after the pod has ended"
            } else {
                "the deletion of the custom resource is still in progress"
            };
            let reason = format!("the operator recorded {back} again after each of {times} removals; {why}");
            return Next::End(StepResult::Failed { reason });
        }
        tries.removals += 1;
        tries.replans = 0;
        tries.removed.get_or_insert_with(|| step.clone());
        let noted = tries.note(step, &again);
        self.emit(&ApplyEvent::Replanned { place, step: &noted });
        *step = again;
        Next::Again
    }

    /// Whether the deletion that waited for the removed entries has ended; a new custom resource of the same name
    /// does not count. Until the pods are garbage collected, the operator still records their results.
    async fn deletion_ended(&self, step: &Step) -> bool {
        let Some(owner) = step.owner_of_removed() else {
            return false;
        };
        let owner = self.api.read(&owner).await;
        owner.is_ok_and(|owner| owner["metadata"]["deletionTimestamp"].is_null())
    }
}
