//! A plan in parts, for commands that go on from one to the next; and a look at one beforehand.

use super::Ctx;
use crate::apply::look::{Looked, look};
use crate::apply::{Options, PlanVerdict, StepResult};
use crate::args::safety::Safety;
use crate::error::Result;
use crate::plan::{Plan, Target};

/// What came of a plan that a command goes on from.
#[derive(Debug, Clone, Default)]
pub struct PartOutcome {
    /// What was sent, or found to be unchanged.
    pub begun: Vec<Target>,
    /// What was not done, and why.
    pub failed: Vec<(Target, String)>,
    /// Of what it is not known whether it was done, and why.
    pub unknown: Vec<(Target, String)>,
    pub interrupted: bool,
    pub journal: Option<String>,
}

impl Ctx {
    /// Carries out what was asked about, or a part of it, with a journal of its own, and shows nothing.
    pub async fn execute_part(&mut self, plan: &Plan, safety: &Safety) -> Result<PartOutcome> {
        let options = self.options(safety);
        let (outcome, journal) = self.send(plan, &options, safety, None, None).await?;
        let (mut failed, mut unknown) = (Vec::new(), Vec::new());
        for (step, result) in outcome.of(plan) {
            match result {
                StepResult::Skipped { why } | StepResult::Failed { why } => {
                    failed.push((step.target.clone(), why.clone()));
                }
                StepResult::Unknown { why } => unknown.push((step.target.clone(), why.clone())),
                _ => {}
            }
        }
        let reached = |result: &StepResult| *result != StepResult::NotReached;
        Ok(PartOutcome {
            failed,
            unknown,
            begun: outcome
                .of(plan)
                .filter(|(_, result)| reached(result))
                .map(|(step, _)| step.target.clone())
                .collect(),
            interrupted: outcome.verdict() == PlanVerdict::Interrupted,
            journal,
        })
    }

    /// A plan on the objects as they are now.
    pub async fn look(&mut self, plan: &Plan) -> Result<Looked> {
        let client = self.writer().await?;
        let looked = look(&client, plan, &Options::default()).await;
        self.pass_on_warnings();
        Ok(looked)
    }
}
