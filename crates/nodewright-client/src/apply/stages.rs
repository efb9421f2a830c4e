//! Runs the stages of a plan: each starts once all stages that it depends on are over.

use futures::StreamExt;
use futures::stream::FuturesUnordered;

use super::{PlanRun, StopReason, WaitStrategy};
use crate::plan::WaitFor;

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
                states[number] = StageState::Running;
                let handles = |until: &WaitFor| strategy.as_ref().is_some_and(|s| s.handles(until));
                let awaited = stages[number].until.as_ref().is_some_and(handles);
                running.push(async move { (number, self.stage(number, awaited).await) });
            }
            let awaited = (0..stages.len()).filter(|number| states[*number] == StageState::Waiting);
            let awaited: Vec<usize> = awaited.collect();
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
        let untils = stages.iter();
        let untils = untils.filter_map(|number| self.plan.stages[*number].until.as_ref());
        let untils: Vec<&WaitFor> = untils.collect();
        match self.stop.during(strategy.wait(&untils)).await {
            Some((over, how)) => (over.into_iter().map(|at| stages[at]).collect(), how),
            None => (stages.to_vec(), StopReason::Interrupted),
        }
    }
}
