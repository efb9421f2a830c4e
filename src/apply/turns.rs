//! Runs the stages of a plan: each starts once all stages before it are over.

use futures::StreamExt;
use futures::stream::FuturesUnordered;

use super::{PlanRun, StopReason, WaitStrategy};
use crate::plan::WaitFor;

/// The progress of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    ToCome,
    Going,
    /// The steps are done, and the wait strategy waits for their effect.
    Awaited,
    /// The stage has ended; `well` if it and every stage before it succeeded.
    Over {
        well: bool,
    },
}

impl PlanRun<'_, '_> {
    /// Runs all stages, in parallel where their dependencies allow, and returns why the plan ended.
    pub(super) async fn stages(&self, mut strategy: Option<&mut dyn WaitStrategy>) -> StopReason {
        let stages = &self.plan.stages;
        let mut turns = vec![Turn::ToCome; stages.len()];
        let mut ended = StopReason::Finished;
        let mut going = FuturesUnordered::new();
        loop {
            for number in 0..stages.len() {
                let Some(well) = self.comes_now(&turns, number) else {
                    continue;
                };
                if !(well || stages[number].always) {
                    turns[number] = Turn::Over { well };
                    continue;
                }
                turns[number] = Turn::Going;
                let handles = |until: &WaitFor| strategy.as_ref().is_some_and(|s| s.handles(until));
                let awaited = stages[number].until.as_ref().is_some_and(handles);
                going.push(async move { (number, self.stage(number, awaited).await) });
            }
            let awaited = (0..stages.len()).filter(|number| turns[*number] == Turn::Awaited);
            let awaited: Vec<usize> = awaited.collect();
            let (over, how) = tokio::select! {
                biased;
                Some((number, how)) = going.next() => match how {
                    Some(how) => (vec![number], how),
                    None => {
                        turns[number] = Turn::Awaited;
                        continue;
                    }
                },
                over = self.wait_for_any(&mut strategy, &awaited), if !awaited.is_empty() => over,
                else => return ended,
            };
            for number in over {
                let mut before = self.plan.before(number).into_iter();
                let well = before.all(|b| turns[b] == Turn::Over { well: true });
                turns[number] = Turn::Over { well: well && how == StopReason::Finished };
            }
            if how.weight() > ended.weight() {
                ended = how;
            }
        }
    }

    /// Whether all stages before this one succeeded; `None` if this stage has started or a stage before it is
    /// not over.
    fn comes_now(&self, turns: &[Turn], number: usize) -> Option<bool> {
        if turns[number] != Turn::ToCome {
            return None;
        }
        let mut all_well = true;
        for before in self.plan.before(number) {
            match turns[before] {
                Turn::Over { well } => all_well &= well,
                _ => return None,
            }
        }
        Some(all_well)
    }

    /// Waits until some of these stages are over; returns their numbers, and why they ended.
    async fn wait_for_any(
        &self,
        strategy: &mut Option<&mut dyn WaitStrategy>,
        stages: &[usize],
    ) -> (Vec<usize>, StopReason) {
        // Without a journal, no later stage could run.
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
