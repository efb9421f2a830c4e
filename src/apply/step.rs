//! One step: sent, and tried again where that is safe and still means the same.

use std::time::Duration;

use tokio::sync::SemaphorePermit;
use tokio::time::sleep_until;

use super::send::Answer;
use super::{ApplyEvent, PlanRun, StepResult, owner};
use crate::plan::{Change, Rebased, Step};

/// How often a step is put onto an object that keeps changing.
const MOST_REPLANS: u32 = 3;
/// Maximum retries for a busy server.
const MOST_BUSY: u32 = 8;
/// Maximum retries after a response that does not show whether the step was executed.
const MOST_UNSURE: u32 = 3;
/// The longest wait that we choose ourselves.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// A pause and an uncordon test the version of the object, which others write to again and again. During a deletion, the
/// operator may be at work on the same node state.
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
        Change::Release(hold) => match hold.kept() {
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

/// What to do about an answer.
pub(super) enum Next {
    Again,
    End(StepResult),
}

/// The tries of one step so far.
#[derive(Default)]
pub(super) struct Tries {
    pub(super) replans: u32,
    /// The step was taken and reverted.
    pub(super) removals: u32,
    /// The custom resource whose deletion waited for the step was deleted.
    pub(super) orphaned: bool,
    busy: u32,
    unsure: u32,
    /// The same request was turned down on an object that fits it.
    turned_down: u32,
    /// The step with all that may have been done of its earlier forms, once one of them was left without an answer
    /// and the object is not as that one expected it.
    sent: Option<Step>,
}

impl Tries {
    /// The fate of a step that is given up. Where an earlier form of it may have been done, that is not known.
    fn given_up(&self, result: impl Fn(String) -> StepResult, reason: String) -> Next {
        Next::End(match self.sent {
            Some(_) => StepResult::Unknown { reason },
            None => result(reason),
        })
    }

    /// The step as `undo` has to revert it, once it is sent in this form.
    fn note(&mut self, before: &Step, next: &Step) -> Step {
        if self.unsure == 0 {
            return next.clone();
        }
        let both = next.and_sent(self.sent.as_ref().unwrap_or(before));
        self.sent.insert(both).clone()
    }
}

fn failed(reason: String) -> StepResult {
    StepResult::Failed { reason }
}

fn skipped(reason: String) -> StepResult {
    StepResult::Skipped { reason }
}

impl PlanRun<'_, '_> {
    /// Takes a step. Every try is guarded by the old values, so none can be done twice.
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
        // Read single objects first: it is cheap, and their status has usually changed since the plan. Deleted objects
        // are recorded for undo. A node may have been quarantined since the preview.
        let goes = matches!(step.change, Change::Delete { .. }) && step.target.kind.comes_back();
        if step.target.kind.is_custom() || goes || step.change.uncordons() {
            match self.look_again(&mut step, &mut tries, (stage, at), None).await {
                Next::Again => {}
                Next::End(result) => return result,
            }
            tries = Tries::default();
        }
        loop {
            // What may have been sent is followed up: the journal should know.
            let must = always || tries.unsure > 0;
            if !self.waited_for_its_turn(must).await || !must && self.unjournalled().is_some() {
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
        while let Some(until) = self.api.held() {
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
        let mut looks = 0;
        let object = loop {
            match self.api.read(&step.target).await {
                Ok(object) => break object,
                Err(reason) if looks == MOST_UNSURE => {
                    return Next::End(match tries.unsure {
                        0 => StepResult::Failed {
                            reason: match rejected {
                                Some(first) => {
                                    format!("{first}; the object could not be read again: {reason}")
                                }
                                None => reason,
                            },
                        },
                        _ => StepResult::Unknown { reason },
                    });
                }
                Err(_) => looks += 1,
            }
            self.backoff(looks, place.1).await;
        };
        if step.is_needless(&object) {
            return Next::End(StepResult::Gone);
        }
        if let Change::Hold(hold) = &mut step.change
            && let Some(other) = hold.of_another(&object)
            && other.holder.as_ref().and_then(owner::runs) == Some(false)
        {
            hold.replace(other.text);
        }
        match step.rebase(&object) {
            Rebased::Done => Next::End(match step.change.left_to_another(&object) {
                Some(reason) => StepResult::Kept { reason },
                // A try whose answer was lost has done it.
                None if tries.unsure > 0 => StepResult::Applied,
                None => StepResult::Unchanged,
            }),
            // The step may have been executed before the object changed.
            Rebased::Moved(reason) if tries.unsure > 0 => Next::End(StepResult::Unknown { reason }),
            Rebased::Moved(reason) => Next::End(StepResult::Skipped { reason }),
            Rebased::Same(same) if same == *step => match rejected {
                None => Next::Again,
                // The object fits, so the server rejects the request itself; or the object differed for a moment, so
                // retry once.
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

    /// Waits a little longer each time, and not at the same moment as the neighbours.
    async fn backoff(&self, times: u32, at: usize) {
        let doubled = self.options.retry_wait * 2u32.saturating_pow(times.min(8) - 1);
        let apart = self.options.retry_wait * u32::try_from(at % 16).unwrap_or(0) / 16;
        tokio::time::sleep(doubled.min(LONGEST_WAIT) + apart).await;
    }
}
