//! Notices printed after a plan was applied, in addition to its step results.

use std::cell::RefCell;

use crate::apply::{ApplyEvent, PlanOutcome, StepResult};
use crate::plan::{Plan, Target};

/// Hint for a pause of this command that could not be ended.
pub fn left_paused(target: &Target) -> String {
    format!("this command left {target} paused; to resume it: kubectl skyhook resume {}", target.name)
}

/// Hint for a pause that may remain: its removal was sent, but not confirmed.
pub fn perhaps_left_paused(target: &Target) -> String {
    format!(
        "this command may have left {target} paused; if so, resume it: kubectl skyhook resume {}",
        target.name
    )
}

/// Tracks the custom resources that this plan has paused and not resumed yet.
pub fn note_hold(held: &RefCell<Vec<Target>>, event: &ApplyEvent<'_>) {
    match event {
        ApplyEvent::Sending { step } if step.change.holds() => {
            held.borrow_mut().push(step.target.clone());
        }
        ApplyEvent::Step { step, result, .. } if step.change.is_hold() => {
            let over = if step.change.holds() { !result.may_have_changed() } else { result.is_settled() };
            if over {
                let other = |target: &Target| !target.same_object_name(&step.target);
                held.borrow_mut().retain(other);
            }
        }
        _ => {}
    }
}

/// Notices about concurrent changes by others and their effect on the plan.
pub fn concurrent_changes(plan: &Plan, outcome: &PlanOutcome) -> Vec<String> {
    let mut notices = deleted_meanwhile(plan, outcome);
    for (step, result) in outcome.of(plan) {
        // Report only kept pauses: kept cordons already appear in the preview and in the closing table.
        if let (StepResult::Kept { reason }, true) = (result, step.change.is_hold()) {
            notices.push(format!("{} stays paused: {reason}", step.target));
        }
    }
    notices
}

/// Lists objects deleted during the run and the changes skipped for them. Holds are not listed: a hold ends
/// with its object.
fn deleted_meanwhile(plan: &Plan, outcome: &PlanOutcome) -> Vec<String> {
    let mut deleted: Vec<(String, Vec<&str>)> = Vec::new();
    for (step, _) in
        outcome.of(plan).filter(|(step, result)| **result == StepResult::Gone && !step.change.is_hold())
    {
        let target = step.target.to_string();
        match deleted.iter_mut().find(|(name, _)| *name == target) {
            Some((_, left_out)) => left_out.push(&step.reason),
            None => deleted.push((target, vec![&step.reason])),
        }
    }
    let notices = deleted.into_iter().map(|(target, left_out)| {
        format!("{target} was deleted in the meantime; skipped: {}", left_out.join("; "))
    });
    notices.collect()
}
