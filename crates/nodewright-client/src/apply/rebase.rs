//! Rebases a plan onto the current objects with few requests.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use futures::StreamExt;
use serde_json::Value;

use super::send::{ApiWriter, JSON, METADATA};
use super::{Options, precondition};
use crate::plan::{Plan, Rebased, Step, Target, retain_stages};

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
        let of_kind = kinds.entry(step.target.collection()).or_default();
        of_kind.push(step);
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
        let page = api.page(collection, accept, limit, next.as_deref());
        let page = page.await?;
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
