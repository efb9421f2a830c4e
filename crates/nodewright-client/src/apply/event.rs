//! Events of a plan being applied, and its results.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::{Change, Goal, Plan, PlanStage, Step, Target};

/// An event while a plan is applied.
#[derive(Debug)]
pub enum ApplyEvent<'a> {
    /// The plan starts.
    Started { steps: usize },
    /// The request of a step is about to be sent.
    Sending { step: &'a Step },
    /// The object has changed, but the step still applies and is sent in this rebased form. After a request
    /// without a response, `step` also contains the changes that may already have been made.
    Replanned { place: (usize, usize), step: &'a Step },
    /// The server throttles requests.
    Throttled { wait: Duration },
    /// The result of a step; `place` is its stage and its index in the stage.
    Step { place: (usize, usize), step: &'a Step, result: &'a StepResult },
    /// A pause between two waves; `done` and `left` count the steps of the stage.
    Pausing { pause: Duration, done: usize, left: usize },
    /// The plan waits for a condition of a stage.
    Waiting { until: &'a Goal },
    /// The plan has ended.
    Done { outcome: &'a PlanOutcome },
}

/// The result of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "result")]
pub enum StepResult {
    /// The change was made.
    Applied,
    /// The change was made except for the part that `reason` names: it belongs to another owner and was kept.
    Partly { reason: String },
    /// Nothing was changed: the object already had the planned values.
    Unchanged,
    /// The object no longer exists, which makes the step unnecessary.
    Gone,
    /// The value to change or restore belongs to another owner and was kept.
    Kept { reason: String },
    /// The step was not executed: the object has changed since the plan was made, or a required earlier step
    /// was not made.
    Skipped { reason: String },
    /// The change was not made, or was reverted: the server rejected it, the operator reverted it, or the
    /// object could not be read.
    Failed { reason: String },
    /// The change may have been made: no response confirmed it, and the object could not be read again or has
    /// other changes.
    Unknown { reason: String },
    /// The plan ended before the step ran.
    NotReached,
}

impl StepResult {
    /// Whether no work remains: the object is as planned, except for values that belong to another owner, or
    /// the step is unnecessary.
    pub fn is_settled(&self) -> bool {
        matches!(
            self,
            StepResult::Applied
                | StepResult::Partly { .. }
                | StepResult::Unchanged
                | StepResult::Gone
                | StepResult::Kept { .. }
        )
    }
}

/// Why a plan ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "ended")]
pub enum StopReason {
    /// The plan ran to its end: every step was tried, or skipped.
    Finished,
    /// The user interrupted the command.
    Interrupted,
    /// A step failed or was skipped, and later stages depend on it.
    DependencyFailed,
    /// A precondition of the plan is not met any more, or cannot be checked; further changes could do harm.
    PreconditionFailed { reason: String },
    /// The journal cannot be written, so further changes could not be undone.
    JournalFailed { reason: String },
    /// More steps failed, or have an unknown result, than allowed; `failed` is their number.
    TooManyFailures { failed: usize },
    /// The named nodes became erroring after their change.
    NodesErroring { nodes: Vec<String> },
    /// The status of changed nodes could not be read between two waves.
    NodesUnreadable { reason: String },
    /// The condition that a stage waits for was not met before the timeout.
    TimedOut { waiting: String },
    /// The condition that a stage waits for cannot be met until someone intervenes, because of these
    /// findings.
    Blocked { findings: Vec<String> },
    /// It is unknown whether the condition that a stage waits for is met, or the condition can never be met.
    Unknown { reason: String },
}

impl StopReason {
    /// The rank of a reason. A plan reports the reason with the highest rank, and the first of equal ones.
    pub fn weight(&self) -> u8 {
        match self {
            StopReason::Finished => 0,
            StopReason::Blocked { .. } => 1,
            StopReason::TimedOut { .. } => 3,
            StopReason::Interrupted => 4,
            _ => 2,
        }
    }
}

/// The results of a plan's steps, stage by stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanOutcome {
    pub ended: StopReason,
    pub results: Vec<Vec<StepResult>>,
}

/// Number of steps by result; `applied` includes partly applied steps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Tally {
    pub applied: usize,
    pub unchanged: usize,
    pub gone: usize,
    pub kept: usize,
    pub skipped: usize,
    pub failed: usize,
    pub unknown: usize,
    pub not_reached: usize,
}

impl<'a> FromIterator<&'a StepResult> for Tally {
    fn from_iter<I: IntoIterator<Item = &'a StepResult>>(results: I) -> Tally {
        let mut tally = Tally::default();
        for result in results {
            *match result {
                StepResult::Applied | StepResult::Partly { .. } => &mut tally.applied,
                StepResult::Unchanged => &mut tally.unchanged,
                StepResult::Gone => &mut tally.gone,
                StepResult::Kept { .. } => &mut tally.kept,
                StepResult::Skipped { .. } => &mut tally.skipped,
                StepResult::Failed { .. } => &mut tally.failed,
                StepResult::Unknown { .. } => &mut tally.unknown,
                StepResult::NotReached => &mut tally.not_reached,
            } += 1;
        }
        tally
    }
}

/// The verdict on a plan that was carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanVerdict {
    /// All changes are in effect or unnecessary, except for values that belong to another owner.
    Done,
    /// Some changes are in effect, or may be.
    Partly,
    /// No change: the objects had changed since the plan was made.
    Refused,
    /// No change: the server rejected the requests.
    Failed,
    Interrupted,
    TimedOut,
    /// The awaited effect cannot occur.
    Blocked,
    /// It is unknown whether the awaited effect has occurred, or it can no longer occur.
    Unknown,
}

impl StepResult {
    /// Whether the object may have changed. Old journals record unknown results as failed, and a failed
    /// request may have been executed late.
    pub fn may_have_changed(&self) -> bool {
        matches!(
            self,
            StepResult::Applied
                | StepResult::Partly { .. }
                | StepResult::Failed { .. }
                | StepResult::Unknown { .. }
        )
    }

    /// Whether the object was changed.
    pub fn changed(&self) -> bool {
        matches!(self, StepResult::Applied | StepResult::Partly { .. })
    }

    /// Whether the step is counted for the user. The plan's own pause and resume count only if they did not
    /// succeed.
    pub fn counts(&self, plan: &Plan, step: &Step) -> bool {
        let went_wrong = matches!(
            self,
            StepResult::Kept { .. }
                | StepResult::Skipped { .. }
                | StepResult::Failed { .. }
                | StepResult::Unknown { .. }
        );
        went_wrong || plan.is_work(step)
    }
}

impl PlanOutcome {
    /// The outcome of a plan that ended before its first request.
    pub fn not_begun(plan: &Plan, ended: StopReason) -> PlanOutcome {
        let unreached = |stage: &PlanStage| vec![StepResult::NotReached; stage.steps.len()];
        PlanOutcome { ended, results: plan.stages.iter().map(unreached).collect() }
    }

    /// Number of steps by result.
    pub fn tally(&self) -> Tally {
        self.results.iter().flatten().collect()
    }

    /// Tally of the steps. The plan's own pause and resume count only if they did not succeed.
    pub fn tally_of_work(&self, plan: &Plan) -> Tally {
        self.of(plan).filter(|(step, result)| result.counts(plan, step)).map(|(_, result)| result).collect()
    }

    pub fn verdict(&self) -> PlanVerdict {
        let tally = self.tally();
        let missing = tally.skipped + tally.failed + tally.unknown + tally.not_reached;
        match self.ended {
            StopReason::Interrupted => PlanVerdict::Interrupted,
            StopReason::TimedOut { .. } => PlanVerdict::TimedOut,
            StopReason::Blocked { .. } => PlanVerdict::Blocked,
            StopReason::Unknown { .. } => PlanVerdict::Unknown,
            _ if missing == 0 => PlanVerdict::Done,
            // A step with an unknown result may have been executed; undo can revert it.
            _ if tally.applied + tally.unknown > 0 => PlanVerdict::Partly,
            _ if tally.failed > 0 => PlanVerdict::Failed,
            _ => PlanVerdict::Refused,
        }
    }

    /// The custom resources that may still be paused, because the step that ends the pause did not succeed.
    pub fn left_paused<'a>(&'a self, plan: &'a Plan) -> Vec<&'a Target> {
        let may_be_paused = |target: &Target| {
            let pause = self
                .of(plan)
                .filter(|(step, _)| step.change.holds())
                .find(|(step, _)| step.target.same_object_name(target));
            // If the plan does not pause the target, it ends a pause that existed before.
            pause.is_none_or(|(_, result)| result.may_have_changed())
        };
        let not_ended = self.of(plan).filter(|(step, result)| {
            matches!(step.change, Change::Release(_)) && !result.is_settled() && may_be_paused(&step.target)
        });
        not_ended.map(|(step, _)| &step.target).collect()
    }

    /// Whether the plan changed objects, and stages with `always` restored all of them.
    pub fn restored_everything(&self, plan: &Plan) -> bool {
        let mut held: Vec<&Target> = Vec::new();
        let mut released: Vec<&Target> = Vec::new();
        for (stage, results) in plan.stages.iter().zip(&self.results) {
            for (step, result) in stage.steps.iter().zip(results) {
                match stage.always {
                    _ if !result.changed() => {}
                    true => released.push(&step.target),
                    false => held.push(&step.target),
                }
            }
        }
        !held.is_empty()
            && held.len() == released.len()
            && held.iter().all(|t| released.iter().any(|r| r.same_object_name(t)))
    }

    /// Each step of the plan with its result.
    pub fn of<'a>(&'a self, plan: &'a Plan) -> impl Iterator<Item = (&'a Step, &'a StepResult)> {
        plan.steps().zip(self.results.iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::ApiFlavor;
    use crate::plan::Hold;

    /// A plan that pauses two custom resources and resumes them in the same order.
    fn pauses() -> Plan {
        let pair = |name: &str| {
            let target = Target::skyhook(ApiFlavor::Skyhook, name, None);
            let [hold, end] = Hold::around("pause", "a test", |_| None, None);
            [Change::Hold(hold), Change::Release(end)]
                .map(|change| Step::new(target.clone(), change, "a test"))
        };
        let ([first, end_of_first], [second, end_of_second]) = (pair("a"), pair("b"));
        let steps = [first, second, end_of_first, end_of_second];
        Plan { stages: steps.map(|step| PlanStage::of(vec![step])).into(), ..Plan::default() }
    }

    #[test]
    fn each_custom_resource_whose_pause_was_not_ended_is_named() {
        let failed = || StepResult::Failed { reason: String::new() };
        let skipped = || StepResult::Skipped { reason: String::new() };
        let applied = || StepResult::Applied;
        for (results, left) in [
            ([applied(), applied(), applied(), applied()], &[][..]),
            ([applied(), applied(), failed(), failed()], &["a", "b"]),
            // Somebody else has paused the custom resource whose pause was skipped.
            ([applied(), skipped(), failed(), skipped()], &["a"]),
            ([skipped(), applied(), skipped(), failed()], &["b"]),
        ] {
            let plan = pauses();
            let outcome = PlanOutcome {
                ended: StopReason::Finished,
                results: results.map(|result| vec![result]).into(),
            };
            let named: Vec<&str> = outcome.left_paused(&plan).iter().map(|t| &*t.name).collect();
            assert_eq!(named, left, "{:?}", outcome.results);
        }
    }

    #[test]
    fn a_partly_changed_object_is_not_restored() {
        let mut plan = pauses();
        plan.stages[3].always = true;
        let partly = || StepResult::Partly { reason: String::new() };
        let applied = || StepResult::Applied;
        let not_reached = || StepResult::NotReached;
        for (results, restored) in [
            ([not_reached(), applied(), not_reached(), applied()], true),
            ([partly(), applied(), not_reached(), applied()], false),
            ([not_reached(), not_reached(), not_reached(), not_reached()], false),
        ] {
            let results = results.map(|result| vec![result]).into();
            let outcome = PlanOutcome { ended: StopReason::Finished, results };
            assert_eq!(outcome.restored_everything(&plan), restored, "{:?}", outcome.results);
        }
    }
}
