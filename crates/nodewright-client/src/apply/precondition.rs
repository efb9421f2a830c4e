//! Checks the preconditions of a plan against the server.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::RangeInclusive;
use std::process::Command;

use futures::StreamExt;
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::Mutex;

use super::send::{ApiWriter, JSON, METADATA};
use super::{Options, PlanRun, StepResult, StopReason, precondition};
use crate::api::ApiFlavor;
use crate::cluster::hold::{self, Holder};
use crate::cluster::{Cluster, live};
use crate::plan::{
    Change, Hold, OperatorAvailability, Plan, Rebased, ResourceState, Step, Target, retain_stages,
};

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

async fn operator(api: &ApiWriter, options: &Options) -> Result<OperatorAvailability, String> {
    let deployments = live::deployments(&api.client, options.namespace.as_deref()).await;
    match deployments.unread() {
        Some(why) => Err(format!("cannot read the operator's Deployments: {why}")),
        None => Ok(OperatorAvailability::of(deployments.items())),
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
    let accept = if whole { JSON } else { METADATA };
    let object = api.retried(async || api.find(&state.target, accept).await).await;
    let object = object.map_err(|reason| format!("cannot read {}: {reason}", state.target))?;
    let has_ended = |holder: &hold::Hold<'_>| {
        let runs = || holder.holder.as_ref().and_then(runs);
        holder.identity == options.holder || runs() == Some(false)
    };
    let paused = |hold: &Hold| object.is_null() || hold.is_paused(&object);
    Ok(state.changed(plan, &object, has_ended).or_else(|| {
        hold.filter(|hold| !paused(hold)).map(|_| format!("{} is no longer paused", state.target))
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
        unmet_by(&self.api, self.plan, self.options, state, hold).await.unwrap_or_else(Some)
    }

    /// A change of the custom resource that the plan has made, or may have made.
    fn has_made(&self, target: &Target, is_meant: impl Fn(&Change) -> bool) -> Option<&Change> {
        let results = self.results.borrow();
        let steps = self.plan.steps().zip(results.iter().flatten());
        let made = |result: &StepResult| result.is_settled() || result.may_have_changed();
        steps
            .filter(|(step, _)| is_meant(&step.change) && step.target.same_object_name(target))
            .find(|(_, result)| made(result))
            .map(|(step, _)| &step.change)
    }
}

/// The holder of pauses that this process sets; `variable` returns the environment variables that name the user.
pub fn of(now: Timestamp, variable: impl Fn(&str) -> Option<String>) -> Holder {
    let user = ["USER", "LOGNAME", "USERNAME"].into_iter().find_map(variable);
    let host = host();
    Holder {
        by: match user {
            Some(user) => format!("{user}@{host}"),
            None => host.clone(),
        },
        machine: machine().unwrap_or_default(),
        process: std::process::id(),
        since: now,
    }
}

/// Whether the process of a holder is running; `None` for a process on another machine, and for a pause of an older
/// version, which identifies the machine by its name only.
pub fn runs(holder: &Holder) -> Option<bool> {
    // A holder with our process id is an earlier process, which has ended.
    let own = holder.process == std::process::id();
    (machine()? == holder.machine).then(|| !own && process_runs(holder.process))
}

/// Records in `cluster` whether the holders on this machine are running.
pub fn look(cluster: &mut Cluster) {
    let mut seen = Vec::new();
    for skyhook in &cluster.skyhooks {
        let hold = skyhook.hold();
        if let Some((identity, holder)) = hold.and_then(|h| Some((h.identity.to_owned(), h.holder?)))
            && let Some(runs) = runs(&holder)
        {
            seen.push((identity, runs));
        }
    }
    cluster.holders.extend(seen);
}

#[cfg(unix)]
fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(not(unix))]
fn host() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_default()
}

/// The boot, and the PID namespace if there are several: the processes of two machines with one name, or of two
/// containers, have nothing to do with each other. `None` if the system has no boot ID.
fn machine() -> Option<String> {
    let boot = match std::env::consts::OS {
        "macos" => {
            let sysctl = Command::new("/usr/sbin/sysctl").args(["-n", "kern.bootsessionuuid"]).output();
            String::from_utf8(sysctl.ok()?.stdout).ok()?
        }
        _ => fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?,
    };
    let table = fs::read_link("/proc/self/ns/pid").map(|table| format!(" {}", table.display()));
    let boot = Some(boot.trim()).filter(|boot| !boot.is_empty())?;
    Some(format!("boot {boot}{}", table.unwrap_or_default()))
}

#[cfg(unix)]
fn process_runs(process: u32) -> bool {
    use rustix::process::{Pid, test_kill_process};

    let signalled = i32::try_from(process).ok().and_then(Pid::from_raw).map(test_kill_process);
    // EPERM: the process of another user exists.
    let there = matches!(signalled, Some(Ok(()) | Err(rustix::io::Errno::PERM)));
    // Process ids are reused, so also compare the name.
    let name = fs::read_to_string(format!("/proc/{process}/comm"));
    there && name.map_or(true, |name| name.starts_with("kubectl"))
}

#[cfg(not(unix))]
fn process_runs(_process: u32) -> bool {
    true
}

/// Maximum number of objects of one kind that are read one by one; more objects are read from the list.
const FEW: usize = 8;
/// Number of items in a list page that cost the server as much as a GET of one object; the second constant is
/// for pages of metadata.
const ONE_BY_NAME: usize = 4;
const ONE_BY_NAME_IN_METADATA: usize = 20;
/// Minimum and maximum number of items in a page.
const PAGES: RangeInclusive<usize> = 50..=500;

/// A plan rebased onto the current objects.
#[derive(Debug, Default)]
pub struct RebasedPlan {
    /// The whole plan; each step is rebased if it still applies.
    pub plan: Plan,
    /// The steps that still have an effect, and those whose object was not read.
    pub changes: Plan,
    /// The steps that no longer apply because their objects have changed, with the reason.
    pub moved: Vec<(Step, String)>,
    /// Why some objects could not be read.
    pub unseen: Option<String>,
    /// The custom resources among the objects, with their current metadata.
    pub custom: Vec<(Target, Value)>,
}

impl RebasedPlan {
    /// Whether steps other than pauses have an effect.
    pub fn works(&self) -> bool {
        self.changes.steps().any(|step| !step.change.is_hold())
    }

    /// Replaces the plan's pauses by `standing`, the steps that end pauses of earlier runs: there are no
    /// changes to protect.
    pub fn replace_pauses(mut self, standing: RebasedPlan) -> RebasedPlan {
        let ends = [standing.plan, standing.changes];
        for (plan, end) in [&mut self.plan, &mut self.changes].into_iter().zip(ends) {
            for stage in &mut plan.stages {
                stage.steps.retain(|step| !step.change.is_hold());
                stage.until = None;
            }
            plan.stages.extend(end.stages);
            retain_stages(&mut plan.stages, |stage| !stage.steps.is_empty());
        }
        self.custom.extend(standing.custom);
        self.unseen = self.unseen.or(standing.unseen);
        self
    }
}

/// Reads the objects of the plan and rebases the steps. A step is kept unchanged if its object cannot be
/// read, or if it is not observable: the plan's own pauses, and steps on objects that the plan creates.
pub async fn rebase(client: &kube::Client, plan: &Plan, options: &Options) -> RebasedPlan {
    let api = ApiWriter::new(client.clone(), options);
    let mut kinds: BTreeMap<String, Vec<&Step>> = BTreeMap::new();
    for step in plan.steps().filter(|step| is_observable(plan, step)) {
        kinds.entry(step.target.collection()).or_default().push(step);
    }
    let mut found: BTreeMap<*const Step, Rebased<Step>> = BTreeMap::new();
    let (mut unseen, mut custom) = (None, Vec::new());
    for (collection, steps) in kinds {
        let mut by_name: BTreeMap<&str, Vec<&Step>> = BTreeMap::new();
        for step in steps {
            by_name.entry(&step.target.name).or_default().push(step);
        }
        let mut put = |steps: &[&Step], object: &Value| {
            // Later steps apply to the result of earlier ones.
            let mut after = object.clone();
            for step in steps {
                let rebased = onto(step, &after);
                if let Rebased::Same(now) = &rebased {
                    // A rebased step expects the values of the object.
                    let _ = now.change.apply_to(&mut after);
                }
                found.insert(std::ptr::from_ref(*step), rebased);
                if step.target.kind.is_custom() && !object.is_null() {
                    custom.push((step.target.clone(), object["metadata"].clone()));
                }
            }
        };
        let read = match by_name.len() {
            0..=FEW => Ok(by_name),
            _ => read_list(&api, &collection, by_name, &mut put).await,
        };
        let left = match read {
            Ok(left) => left,
            Err(reason) => {
                unseen = Some(reason);
                continue;
            }
        };
        let one_by_one = left.into_values().map(|steps| async {
            let object = api.read(&steps[0].target).await;
            (steps, object)
        });
        let mut objects = futures::stream::iter(one_by_one).buffer_unordered(options.parallel.max(1));
        while let Some((steps, object)) = objects.next().await {
            match object {
                Ok(object) => put(&steps, &object),
                Err(reason) => unseen = Some(reason),
            }
        }
    }
    let resources = match precondition::current(&api, plan).await {
        Ok(resources) => resources,
        Err(reason) => {
            unseen = Some(reason);
            Vec::new()
        }
    };
    let mut rebased = RebasedPlan { custom, ..sorted(plan, &found, unseen) };
    rebased.plan.preconditions.resources.clone_from(&resources);
    rebased.changes.preconditions.resources = resources;
    rebased
}

/// Whether the current object shows the effect of the step. False for the plan's own pauses and their ends,
/// and if the plan itself creates the object.
fn is_observable(plan: &Plan, step: &Step) -> bool {
    plan.is_work(step) && !plan.recreates(step) && !plan.targets_created_object(step)
}

fn onto(step: &Step, object: &Value) -> Rebased<Step> {
    if step.is_needless(object) { Rebased::Done } else { step.rebase(object) }
}

/// Reads a collection page by page while that is cheaper than single GETs; returns the steps left for single
/// GETs.
async fn read_list<'a>(
    api: &ApiWriter,
    collection: &str,
    mut wanted: BTreeMap<&'a str, Vec<&'a Step>>,
    put: &mut impl FnMut(&[&Step], &Value),
) -> Result<BTreeMap<&'a str, Vec<&'a Step>>, String> {
    let mut next = None;
    let mut steps = wanted.values().flatten();
    let metadata = steps.all(|step| step.rebases_on_metadata());
    let (accept, one_by_name) =
        if metadata { (METADATA, ONE_BY_NAME_IN_METADATA) } else { (JSON, ONE_BY_NAME) };
    loop {
        // The first page shows how many items follow. Later pages are as large as possible if they contain
        // only metadata.
        let limit = match next {
            Some(_) if metadata => *PAGES.end(),
            _ => wanted.len().clamp(*PAGES.start(), *PAGES.end()),
        };
        let page = api.page(collection, accept, limit, next.as_deref()).await?;
        page.each(|name, item| {
            if let Some(steps) = wanted.remove(name) {
                put(&steps, &item()?);
            }
            Ok(())
        })?;
        let (more, remaining) = (page.next, page.remaining);
        if more.is_none() || wanted.is_empty() {
            break;
        }
        if more == next {
            return Err("the server keeps returning the same page".to_owned());
        }
        if remaining.is_some_and(|remaining| remaining > one_by_name * wanted.len()) {
            return Ok(wanted);
        }
        next = more;
    }
    for steps in std::mem::take(&mut wanted).into_values() {
        put(&steps, &Value::Null);
    }
    Ok(wanted)
}

fn sorted(plan: &Plan, found: &BTreeMap<*const Step, Rebased<Step>>, unseen: Option<String>) -> RebasedPlan {
    let mut rebased =
        RebasedPlan { plan: plan.clone(), changes: plan.clone(), unseen, ..RebasedPlan::default() };
    for (number, stage) in plan.stages.iter().enumerate() {
        let mut changing = Vec::new();
        for (at, step) in stage.steps.iter().enumerate() {
            let now = match found.get(&std::ptr::from_ref(step)) {
                None => step.clone(),
                Some(Rebased::Same(now)) => now.clone(),
                Some(Rebased::Done) => continue,
                Some(Rebased::Moved(reason)) => {
                    rebased.moved.push((step.clone(), reason.clone()));
                    continue;
                }
            };
            rebased.plan.stages[number].steps[at] = now.clone();
            changing.push(now);
        }
        rebased.changes.stages[number].steps = changing;
    }
    rebased
}
