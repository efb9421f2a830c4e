//! Executes one step: sends its request, and rebases and retries the step as long as it still applies.

use std::time::Duration;

use tokio::sync::SemaphorePermit;
use tokio::time::sleep_until;

use super::send::Answer;
use super::{ApplyEvent, PlanRun, StepResult};
use crate::plan::{Change, Rebased, Step};
use crate::text::list;

/// Maximum number of rebases of a step onto a changed object.
const MOST_REPLANS: u32 = 3;
/// Maximum retries for a busy server.
const MOST_BUSY: u32 = 8;
/// Maximum retries after a response that does not show whether the step was executed.
const MOST_UNSURE: u32 = 3;
/// Maximum delay between retries; the delay that a server requests may be longer.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Maximum replans of a step. Higher for steps that compete with other writers: pauses and uncordons test the
/// resourceVersion, and during a deletion the operator writes the same node state.
fn most_replans(step: &Step) -> u32 {
    if step.change.is_hold() || step.change.uncordons() || !step.stays_removed.is_empty() {
        5 * MOST_REPLANS
    } else {
        MOST_REPLANS
    }
}

fn applied(step: &Step) -> StepResult {
    if !step.change.has_effect() {
        return StepResult::Unchanged;
    }
    match &step.change {
        Change::Release(hold) => match hold.reason_to_keep() {
            Some(reason) => StepResult::Kept { reason: reason.to_owned() },
            None => StepResult::Applied,
        },
        Change::Metadata(metadata) => match metadata.uncordon.words() {
            Some(others) => {
                let reason = format!("the node stays cordoned by {others}");
                if metadata.annotations.is_empty() && metadata.labels.is_empty() {
                    StepResult::Kept { reason }
                } else {
                    StepResult::Partly { reason }
                }
            }
            None => StepResult::Applied,
        },
        _ => StepResult::Applied,
    }
}

/// The decision after a response: retry the step, or end it with a result.
pub(super) enum Next {
    Again,
    End(StepResult),
}

/// Counters of the retries of one step.
#[derive(Default)]
pub(super) struct Tries {
    pub(super) replans: u32,
    /// Number of times that the operator reverted this step.
    pub(super) removals: u32,
    /// The first form of a step that the operator has reverted.
    pub(super) removed: Option<Step>,
    /// Whether the deletion that waited for the step has ended.
    pub(super) orphaned: bool,
    busy: u32,
    unsure: u32,
    /// Number of times that the server rejected the request although the object fits the step.
    turned_down: u32,
    /// The step merged with earlier versions that may have been executed; set after a request without a
    /// response.
    sent: Option<Step>,
}

impl Tries {
    /// The result of a step that is not retried: unknown if an earlier version may have been executed,
    /// otherwise `result`.
    fn given_up(&self, result: impl Fn(String) -> StepResult, reason: String) -> Next {
        Next::End(match self.sent {
            Some(_) => StepResult::Unknown { reason },
            None => result(reason),
        })
    }

    /// Returns the step for the journal: `next`, merged with earlier versions that may have been executed, and with the
    /// values that the first removal replaced.
    pub(super) fn note(&mut self, before: &Step, next: &Step) -> Step {
        let noted = if self.unsure == 0 {
            next.clone()
        } else {
            let both = next.and_sent(self.sent.as_ref().unwrap_or(before));
            self.sent.insert(both).clone()
        };
        match &self.removed {
            Some(first) => noted.restoring(first),
            None => noted,
        }
    }
}

fn failed(reason: String) -> StepResult {
    StepResult::Failed { reason }
}

fn skipped(reason: String) -> StepResult {
    StepResult::Skipped { reason }
}

impl PlanRun<'_, '_> {
    /// Executes a step. JSON patches test the old values in every try, so that a retry makes no change twice.
    /// Other requests have no further effect when repeated.
    pub(super) async fn execute<'s>(
        &'s self,
        permit: &mut Option<SemaphorePermit<'s>>,
        (stage, at): (usize, usize),
        step: &Step,
        always: bool,
    ) -> StepResult {
        let mut step = step.clone();
        step.change.sign(&self.options.holder);
        let mut tries = Tries::default();
        // Read the object before the first request in three cases: the status of a custom resource has
        // usually changed since the plan was made, undo needs the deleted object, and a node may have been
        // quarantined since the preview.
        let goes = matches!(step.change, Change::Delete { .. }) && step.target.kind.undo_recreates();
        if step.target.kind.is_custom() || goes || step.change.uncordons() {
            match self.look_again(&mut step, &mut tries, (stage, at), None).await {
                Next::Again => {}
                Next::End(result) => return result,
            }
            tries = Tries::default();
        }
        loop {
            // Follow up a request that may have been executed: the journal needs its result.
            let must = always || tries.unsure > 0;
            if !self.waited_for_its_turn(must).await || !must && self.unjournalled().is_some() {
                return StepResult::NotReached;
            }
            if !must && !self.is_met_for(&step).await {
                return StepResult::NotReached;
            }
            let answer = self.api.write(&step).await;
            let next = match answer {
                Answer::Done => Next::End(applied(&step)),
                Answer::Refused(reason) => tries.given_up(failed, reason),
                Answer::Conflict(reason) => {
                    self.look_again(&mut step, &mut tries, (stage, at), Some(reason)).await
                }
                Answer::Unsure(reason) => {
                    tries.unsure += 1;
                    self.backoff(tries.unsure, at).await;
                    let place = (stage, at);
                    // The object shows whether the request was executed.
                    match self.look_again(&mut step, &mut tries, place, None).await {
                        Next::Again if tries.unsure > MOST_UNSURE => tries.given_up(failed, reason),
                        next => next,
                    }
                }
                Answer::Busy(reason, wait) => {
                    tries.busy += 1;
                    if tries.busy > MOST_BUSY || self.api.has_waited_too_long() {
                        tries.given_up(failed, reason)
                    } else {
                        if let Some(wait) = wait.and_then(|wait| self.api.hold(wait)) {
                            self.emit(&ApplyEvent::Throttled { wait });
                        }
                        self.backoff(tries.busy, at).await;
                        Next::Again
                    }
                }
            };
            let next = match next {
                Next::End(result) if result.is_settled() && !step.stays_removed.is_empty() => {
                    let place = (stage, at);
                    *permit = None;
                    let next = self.settled(result, &mut step, &mut tries, place).await;
                    *permit = self.in_flight.acquire().await.ok();
                    next
                }
                next => next,
            };
            match next {
                Next::End(result) => return result,
                Next::Again => {}
            }
        }
    }

    /// Waits for Retry-After; `false` if the user stopped the plan and the step may be skipped.
    async fn waited_for_its_turn(&self, must: bool) -> bool {
        while let Some(until) = self.api.retry_after_end() {
            if must {
                sleep_until(until).await;
            } else if self.stop.during(sleep_until(until)).await.is_none() {
                return false;
            }
        }
        must || !self.stop.asked()
    }

    /// Reads the object and rebases the step onto it.
    async fn look_again(
        &self,
        step: &mut Step,
        tries: &mut Tries,
        place: (usize, usize),
        rejected: Option<String>,
    ) -> Next {
        let object = match self.api.retried(async || self.api.read(&step.target).await).await {
            Ok(object) => object,
            Err(reason) if tries.unsure > 0 => return Next::End(StepResult::Unknown { reason }),
            Err(reason) => {
                return Next::End(failed(match rejected {
                    Some(first) => format!("{first}; the object could not be read again: {reason}"),
                    None => reason,
                }));
            }
        };
        if step.is_needless(&object) {
            return Next::End(StepResult::Gone);
        }
        if let Change::Hold(hold) = &mut step.change
            && let Some(other) = hold.of_another(&object)
            && other.holder.as_ref().and_then(super::precondition::runs) == Some(false)
        {
            hold.replace(other.identity);
        }
        match step.rebase(&object) {
            Rebased::Done => Next::End(match step.change.left_to_another(&object) {
                Some(reason) => StepResult::Kept { reason },
                // An earlier request without a response has made the change.
                None if tries.unsure > 0 => StepResult::Applied,
                None => StepResult::Unchanged,
            }),
            // The step may have been executed before the object changed.
            Rebased::Moved(reason) if tries.unsure > 0 => Next::End(StepResult::Unknown { reason }),
            Rebased::Moved(reason) => Next::End(StepResult::Skipped { reason }),
            Rebased::Same(same) if same == *step => match rejected {
                None => Next::Again,
                // The object fits the step, so the server rejects the request itself. Retry once: the object
                // may have been different when the server checked it.
                Some(_) if tries.turned_down == 0 => {
                    tries.turned_down += 1;
                    Next::Again
                }
                Some(reason) => tries.given_up(failed, reason),
            },
            Rebased::Same(_) if tries.replans == most_replans(step) => {
                let reason = "repeated conflicts; pause the custom resource first, or retry".to_owned();
                tries.given_up(skipped, reason)
            }
            Rebased::Same(same) => {
                tries.replans += 1;
                let noted = tries.note(step, &same);
                *step = same;
                self.emit(&ApplyEvent::Replanned { place, step: &noted });
                Next::Again
            }
        }
    }

    /// Waits with exponential backoff, plus an offset by index so that the steps do not retry at the same
    /// moment.
    async fn backoff(&self, times: u32, at: usize) {
        let doubled = self.options.retry_wait * 2u32.saturating_pow(times.min(8) - 1);
        let apart = self.options.retry_wait * u32::try_from(at % 16).unwrap_or(0) / 16;
        tokio::time::sleep(doubled.min(LONGEST_WAIT) + apart).await;
    }
}

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
