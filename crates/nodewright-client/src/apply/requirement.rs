//! Skips stages whose required earlier steps were not made.

use super::{ApplyEvent, PlanRun, StepResult};
use crate::plan::{Change, Step};

impl PlanRun<'_, '_> {
    /// Why the steps of a stage are skipped: a required step was not made as planned.
    pub(super) fn unmet_requirement(&self, number: usize) -> Option<String> {
        let results = self.results.borrow();
        let stage = &self.plan.stages[number];
        let mut required = stage.requires.iter().flat_map(|at| {
            let steps = self.plan.stages[*at].steps.iter();
            steps.zip(&results[*at])
        });
        // A create requires the steps that prepared it.
        let creates = stage.steps.iter().any(|s| matches!(s.change, Change::Create(_)));
        required.find_map(|(step, result)| match result {
            StepResult::Skipped { .. } if creates => {
                Some(format!("not run, because an earlier change to {} was skipped", step.target))
            }
            _ => not_run(step, result),
        })
    }

    pub(super) fn skip_stage(&self, number: usize, reason: &str) {
        for (at, step) in self.plan.stages[number].steps.iter().enumerate() {
            let result = StepResult::Skipped { reason: reason.to_owned() };
            self.emit(&ApplyEvent::Step { place: (number, at), step, result: &result });
            self.results.borrow_mut()[number][at] = result;
        }
    }
}

/// Why a dependent step is skipped, given the result of the required step. A skipped required step is no
/// reason: it changed nothing, so the state of its object is known.
fn not_run(required: &Step, result: &StepResult) -> Option<String> {
    let what = match result {
        StepResult::Unknown { .. } => "may not have been made",
        StepResult::Failed { .. } => "failed",
        StepResult::NotReached => "was not made",
        _ => return None,
    };
    Some(format!("not run, because an earlier change to {} {what}", required.target))
}
