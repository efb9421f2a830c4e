//! Checks the preconditions of a plan against the server.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use tokio::sync::Mutex;

use super::send::{ApiWriter, JSON, METADATA};
use super::{Options, PlanRun, StepResult, StopReason, owner};
use crate::api::ApiFlavor;
use crate::cluster::{hold, live};
use crate::plan::{Change, Hold, OperatorState, Plan, ResourceState, Step, Target};

/// Maximum number of retries to read an object.
const MOST_READS: u32 = 3;

/// Why a precondition of the plan is not met; `None` if all are.
///
/// # Errors
///
/// Why a custom resource or the operator could not be read.
pub async fn unmet(client: &kube::Client, plan: &Plan, options: &Options) -> Result<Option<String>, String> {
    let api = ApiWriter::new(client.clone(), options);
    for state in &plan.preconditions.resources {
        if let Some(why) = unmet_by(&api, plan, options, state, None).await? {
            return Ok(Some(why));
        }
    }
    match plan.preconditions.operator {
        Some(planned) => Ok(planned.changed(operator(&api, options).await?).map(str::to_owned)),
        None => Ok(None),
    }
}

/// The current state of the custom resources whose data the plan changes: present in one of the APIs, or absent
/// from all.
///
/// # Errors
///
/// Why a custom resource could not be read.
pub(super) async fn current(api: &ApiWriter, plan: &Plan) -> Result<Vec<ResourceState>, String> {
    let names: BTreeSet<&str> = plan.steps().flat_map(Step::resource_names).collect();
    let mut states = Vec::new();
    for name in names {
        let mut found = Vec::new();
        for flavor in ApiFlavor::ALL {
            let object = api.find(&Target::skyhook(flavor, name, None), METADATA).await?;
            found.push(ResourceState::of_object(flavor, name, &object));
        }
        let exists = found.iter().any(|state| state.target.uid.is_some());
        states.extend(found.into_iter().filter(|state| !exists || state.target.uid.is_some()));
    }
    Ok(states)
}

async fn operator(api: &ApiWriter, options: &Options) -> Result<OperatorState, String> {
    let deployments = live::deployments(&api.client, options.namespace.as_deref()).await;
    match deployments.unread() {
        Some(why) => Err(format!("cannot read the operator's Deployments: {why}")),
        None => Ok(OperatorState::of(deployments.items())),
    }
}

/// Why the plan does not apply to the custom resource, which `hold` must pause if it is given.
async fn unmet_by(
    api: &ApiWriter,
    plan: &Plan,
    options: &Options,
    state: &ResourceState,
    hold: Option<&Hold>,
) -> Result<Option<String>, String> {
    let creates = |step: &Step| matches!(step.change, Change::Create(_));
    let whole = plan.steps().any(|step| creates(step) && step.target.same_object_name(&state.target));
    let mut reads = 0;
    let object = loop {
        match api.find(&state.target, if whole { JSON } else { METADATA }).await {
            Ok(object) => break object,
            Err(reason) if reads == MOST_READS => {
                return Err(format!("cannot read {}: {reason}", state.target));
            }
            Err(_) => reads += 1,
        }
        tokio::time::sleep(options.retry_wait * 2u32.pow(reads)).await;
    };
    let has_ended = |holder: &hold::Hold<'_>| {
        let runs = || holder.holder.as_ref().and_then(owner::runs);
        holder.identity == options.holder || runs() == Some(false)
    };
    let paused = |hold: &Hold| object.is_null() || hold.is_paused(&object);
    Ok(state.changed(plan, &object, has_ended).or_else(|| {
        let ended = hold.filter(|hold| !paused(hold));
        ended.map(|_| format!("{} is no longer paused", state.target))
    }))
}

/// The check of one custom resource, shared by the steps that wait for it.
#[derive(Default)]
pub(super) struct SharedCheck {
    turn: Mutex<()>,
    /// The number of checks that have begun.
    begun: Cell<u64>,
    last: RefCell<Option<String>>,
}

impl PlanRun<'_, '_> {
    /// Whether the operator is still as the plan requires; otherwise no further step is sent.
    pub(super) async fn operator_is_met(&self) -> bool {
        let Some(planned) = self.plan.preconditions.operator.filter(|_| !self.options.dry_run) else {
            return true;
        };
        let unmet = match operator(&self.api, self.options).await {
            Ok(now) => planned.changed(now).map(str::to_owned),
            Err(why) => Some(why),
        };
        self.is_met(unmet)
    }

    /// Whether the custom resources whose data the step changes are still as the plan requires, and the plan's
    /// pauses of them have not ended; otherwise no further step is sent.
    pub(super) async fn is_met_for(&self, step: &Step) -> bool {
        let names = step.resource_names();
        // The requests of these steps test the object itself.
        let tests_itself = names.is_empty() || matches!(step.change, Change::Delete { .. });
        if self.options.dry_run || tests_itself && step.target.kind.is_custom() {
            return true;
        }
        for (at, state) in self.plan.preconditions.resources.iter().enumerate() {
            let concerned = names.is_empty() || names.contains(state.target.name.as_str());
            if concerned && !self.is_met(self.checked(at).await) {
                return false;
            }
        }
        true
    }

    pub(super) fn precondition_failed(&self) -> StopReason {
        StopReason::PreconditionFailed { reason: self.unmet.borrow().clone().unwrap_or_default() }
    }

    fn is_met(&self, unmet: Option<String>) -> bool {
        let met = unmet.is_none();
        if !met {
            self.unmet.replace(unmet);
        }
        met
    }

    /// Why a custom resource is not as the plan requires. Reads it after this call; concurrent calls share a
    /// read, so that its size does not multiply with the number of nodes.
    async fn checked(&self, at: usize) -> Option<String> {
        let check = &self.checks[at];
        let asked = check.begun.get();
        let _turn = check.turn.lock().await;
        if check.begun.get() == asked {
            check.begun.set(asked + 1);
            let unmet = self.check(&self.plan.preconditions.resources[at]).await;
            *check.last.borrow_mut() = unmet;
        }
        check.last.borrow().clone()
    }

    async fn check(&self, state: &ResourceState) -> Option<String> {
        if self.has_made(&state.target, |change| matches!(change, Change::Create(_))).is_some() {
            return None;
        }
        let hold = self.has_made(&state.target, Change::holds);
        let hold = hold.and_then(|change| match change {
            Change::Hold(hold) => Some(hold),
            _ => None,
        });
        let unmet = unmet_by(&self.api, self.plan, self.options, state, hold).await;
        unmet.unwrap_or_else(Some)
    }

    /// A change of the custom resource that the plan has made, or may have made.
    fn has_made(&self, target: &Target, is_meant: impl Fn(&Change) -> bool) -> Option<&Change> {
        let results = self.results.borrow();
        let steps = self.plan.steps().zip(results.iter().flatten());
        let made = |result: &StepResult| result.is_settled() || result.may_have_changed();
        let mut own =
            steps.filter(|(step, _)| is_meant(&step.change) && step.target.same_object_name(target));
        own.find(|(_, result)| made(result)).map(|(step, _)| &step.change)
    }
}
