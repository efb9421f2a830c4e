//! Runs the stages of a plan: each starts once all stages that it depends on are over.

use std::ops::Range;
use std::str::FromStr;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;

use super::{ApplyEvent, PlanRun, StepResult, StopReason, WaitStrategy};
use crate::plan::{Goal, Kind, PlanStage};

/// The progress of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StageState {
    Pending,
    Running,
    /// The steps are done, and the wait strategy waits for their effect.
    Waiting,
    /// The stage has ended; `succeeded` if it and every stage before it succeeded.
    Ended {
        succeeded: bool,
    },
}

impl PlanRun<'_, '_> {
    /// Runs all stages, in parallel where their dependencies allow, and returns why the plan ended.
    pub(super) async fn stages(&self, mut strategy: Option<&mut dyn WaitStrategy>) -> StopReason {
        let stages = &self.plan.stages;
        let mut states = vec![StageState::Pending; stages.len()];
        // Why each stage is skipped.
        let mut unmet: Vec<Option<String>> = vec![None; stages.len()];
        let mut ended = StopReason::Finished;
        let mut running = FuturesUnordered::new();
        loop {
            for number in 0..stages.len() {
                let Some(succeeded) = self.earlier_succeeded(&states, number) else {
                    continue;
                };
                if !(succeeded || stages[number].always) {
                    states[number] = StageState::Ended { succeeded };
                    continue;
                }
                unmet[number] = self.plan.before(number).into_iter().find_map(|before| {
                    let needed = stages[number].after.is_some();
                    unmet[before].clone().or_else(|| self.failed_change(before).filter(|_| needed))
                });
                if let Some(reason) = unmet[number].as_ref().filter(|_| !stages[number].always) {
                    self.skip_stage(number, reason);
                    states[number] = StageState::Ended { succeeded };
                    continue;
                }
                states[number] = StageState::Running;
                let by_strategy = strategy.is_some();
                running.push(async move { (number, self.stage(number, by_strategy).await) });
            }
            let awaited: Vec<usize> =
                (0..stages.len()).filter(|number| states[*number] == StageState::Waiting).collect();
            let (over, how) = tokio::select! {
                biased;
                Some((number, how)) = running.next() => match how {
                    Some(how) => (vec![number], how),
                    None => {
                        states[number] = StageState::Waiting;
                        continue;
                    }
                },
                over = self.wait_for_any(&mut strategy, &awaited), if !awaited.is_empty() => over,
                else => return ended,
            };
            for number in over {
                let mut before = self.plan.before(number).into_iter();
                let succeeded = before.all(|b| states[b] == StageState::Ended { succeeded: true });
                states[number] = StageState::Ended { succeeded: succeeded && how == StopReason::Finished };
            }
            if how.weight() > ended.weight() {
                ended = how;
            }
        }
    }

    /// Whether all stages before this one succeeded; `None` if this stage has started or a stage before it is
    /// not over.
    fn earlier_succeeded(&self, states: &[StageState], number: usize) -> Option<bool> {
        if states[number] != StageState::Pending {
            return None;
        }
        let mut all_succeeded = true;
        for before in self.plan.before(number) {
            match states[before] {
                StageState::Ended { succeeded } => all_succeeded &= succeeded,
                _ => return None,
            }
        }
        Some(all_succeeded)
    }

    /// Waits until some of these stages are over; returns their numbers, and why they ended.
    async fn wait_for_any(
        &self,
        strategy: &mut Option<&mut dyn WaitStrategy>,
        stages: &[usize],
    ) -> (Vec<usize>, StopReason) {
        // After a journal failure, only later stages with `always` could run.
        if let Some(reason) = self.unjournalled() {
            return (stages.to_vec(), StopReason::JournalFailed { reason });
        }
        let strategy = strategy.as_mut().expect("the strategy waits for these stages");
        let goals: Vec<&Goal> =
            stages.iter().filter_map(|number| self.plan.stages[*number].until.as_ref()).collect();
        match self.stop.during(strategy.wait(&goals)).await {
            Some((over, how)) => (over.into_iter().map(|at| stages[at]).collect(), how),
            None => (stages.to_vec(), StopReason::Interrupted),
        }
    }

    /// Why the stages that need this one are skipped; `None` if all of its changes were made, or are known not to apply.
    fn failed_change(&self, number: usize) -> Option<String> {
        let results = self.results.borrow();
        let mut steps = self.plan.stages[number].steps.iter().zip(&results[number]);
        steps.find_map(|(step, result)| {
            let what = match result {
                StepResult::Unknown { .. } => "may not have been made",
                StepResult::Failed { .. } => "failed",
                StepResult::NotReached => "was not made",
                _ => return None,
            };
            Some(format!("not run, because an earlier change to {} {what}", step.target))
        })
    }

    fn skip_stage(&self, number: usize, reason: &str) {
        for (at, step) in self.plan.stages[number].steps.iter().enumerate() {
            let result = StepResult::Skipped { reason: reason.to_owned() };
            self.emit(&ApplyEvent::Step { place: (number, at), step, result: &result });
            self.results.borrow_mut()[number][at] = result;
        }
    }
}

/// A number of nodes, or a percentage of all nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    Count(usize),
    Percent(usize),
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Share, String> {
        let wrong =
            || format!("{text:?} is not valid; expected a number of nodes or a percentage, such as 5 or 2%");
        let share = match text.strip_suffix('%') {
            Some(percent) => Share::Percent(percent.parse().map_err(|_| wrong())?),
            None => Share::Count(text.parse().map_err(|_| wrong())?),
        };
        match share {
            Share::Count(0) | Share::Percent(0 | 101..) => Err(wrong()),
            share => Ok(share),
        }
    }
}

/// Size of the first wave, and the pause between waves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Canary {
    pub first: Share,
    pub pause: Duration,
}

impl Canary {
    /// The index ranges of the waves of a stage: several only for one whose steps all change nodes.
    pub fn waves(&self, stage: &PlanStage) -> Vec<Range<usize>> {
        let steps = stage.steps.len();
        if stage.steps.iter().all(|step| step.target.kind == Kind::Node) {
            self.ranges(steps)
        } else {
            std::iter::once(0..steps).collect()
        }
    }

    /// The index ranges of the waves for this number of steps. Each wave is twice as large as the one before;
    /// the last one contains the rest.
    fn ranges(&self, steps: usize) -> Vec<Range<usize>> {
        let mut size = match self.first {
            Share::Count(count) => count.max(1),
            Share::Percent(percent) => (steps * percent).div_ceil(100).max(1),
        };
        let mut waves = Vec::new();
        let mut start = 0;
        while start < steps {
            let end = (start + size).min(steps);
            waves.push(start..end);
            start = end;
            size = size.saturating_mul(2);
        }
        waves
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waves(first: &str, steps: usize) -> Vec<usize> {
        let canary = Canary { first: first.parse().expect("a share"), pause: Duration::ZERO };
        canary.ranges(steps).into_iter().map(|w| w.len()).collect()
    }

    #[test]
    fn each_wave_is_twice_the_one_before() {
        assert_eq!(waves("5", 100), [5, 10, 20, 40, 25]);
        assert_eq!(waves("1%", 250), [3, 6, 12, 24, 48, 96, 61]);
        assert_eq!(waves("10", 3), [3]);
        assert_eq!(waves("10", 0), [0usize; 0]);
    }

    #[test]
    fn a_share_is_a_count_or_a_percentage() {
        for wrong in ["", "0", "0%", "101%", "-1", "few", "1.5%"] {
            assert!(wrong.parse::<Share>().is_err(), "{wrong}");
        }
    }
}
