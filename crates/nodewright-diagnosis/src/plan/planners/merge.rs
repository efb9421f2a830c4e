//! Merges several plans into one.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::pause_guard;
use crate::api::Skyhook;
use crate::cluster::Cluster;
use crate::plan::{Consequences, Plan, PlanStage, Step};

/// Merges the plans in this order, with one pause of each custom resource around all of them. `subject` is
/// the name that a user types to confirm a plan with several subjects.
///
/// Steps with the same object and change are kept only once. If a step fails or its result is unknown, later
/// plans with the same subject or on the same object are skipped.
pub fn merged(cluster: &Cluster, title: String, subject: &str, plans: Vec<Plan>) -> Plan {
    let mut plan = Plan {
        title,
        subject: common(&plans, |plan| Some(plan.subject.as_str())).unwrap_or(subject).to_owned(),
        erroring: common(&plans, |plan| plan.erroring.as_deref()).map(str::to_owned),
        consequences: consequences(cluster, &plans),
        ..Plan::default()
    };
    let mut held: BTreeMap<String, &Skyhook> = BTreeMap::new();
    for step in plans.iter().flat_map(Plan::steps) {
        if step.change.holds()
            && let Some(skyhook) = cluster.skyhook(&step.target.name)
        {
            held.insert(step.target.name.clone(), skyhook);
        }
    }
    let mut taken: HashMap<Fingerprint, Vec<Step>> = HashMap::new();
    let mut earlier: Vec<Worked> = Vec::new();
    for part in plans {
        let mut worked = Worked::of(&part);
        let shares = earlier.iter().filter(|other| other.shares_with(&worked));
        let requires: Vec<usize> = shares.flat_map(|other| other.stages.clone()).collect();
        for stage in part.stages {
            let Some(stage) = remaining_stage(stage, &held, &mut taken) else {
                continue;
            };
            worked.stages.push(plan.stages.len());
            plan.stages.push(PlanStage { requires: requires.clone(), ..stage });
        }
        earlier.push(worked);
    }
    let ends: Vec<[PlanStage; 2]> =
        held.values().filter_map(|skyhook| pause_guard::ends(cluster, skyhook, &plan.title)).collect();
    let (first, last): (Vec<PlanStage>, Vec<PlanStage>) = ends.into_iter().map(|[a, b]| (a, b)).unzip();
    let moved = first.len();
    for required in plan.stages.iter_mut().flat_map(|stage| &mut stage.requires) {
        *required += moved;
    }
    plan.stages.splice(0..0, first);
    plan.stages.extend(last);
    plan.forecast(cluster);
    plan
}

/// The targets of a plan. After a failed or unknown result, later plans that share a target or the subject
/// are skipped: their precondition is unknown.
struct Worked {
    /// The plan's subject, usually a custom resource.
    subject: String,
    objects: BTreeSet<String>,
    /// Numbers of the plan's stages in the merged plan.
    stages: Vec<usize>,
}

impl Worked {
    fn of(plan: &Plan) -> Worked {
        Worked {
            subject: plan.subject.clone(),
            objects: plan.steps().map(|step| step.target.path()).collect(),
            stages: Vec::new(),
        }
    }

    fn shares_with(&self, other: &Worked) -> bool {
        self.subject == other.subject || !self.objects.is_disjoint(&other.objects)
    }
}

/// The value common to all plans; `None` if the values differ.
fn common<'a>(plans: &'a [Plan], value: impl Fn(&'a Plan) -> Option<&'a str>) -> Option<&'a str> {
    let values: BTreeSet<Option<&str>> = plans.iter().map(value).collect();
    match values.len() {
        1 => values.into_iter().next().flatten(),
        _ => None,
    }
}

/// The combined side effects. A node in several plans counts once.
fn consequences(cluster: &Cluster, plans: &[Plan]) -> Consequences {
    let mut all = Consequences::default();
    let mut nodes: BTreeSet<&str> = BTreeSet::new();
    let (mut twice, mut gpus) = (0, 0);
    for plan in plans {
        all.add(plan.consequences.clone());
        for node in plan.nodes() {
            if !nodes.insert(node) {
                twice += 1;
                gpus += cluster.node(node).map_or(0, |n| n.gpus());
            }
        }
    }
    all.nodes = all.nodes.saturating_sub(twice).max(nodes.len());
    all.gpus = all.gpus.saturating_sub(gpus);
    all
}

/// Path and hash of a step. Each step is compared only with steps of the same fingerprint: node states may be
/// long.
type Fingerprint = (String, u64);

fn fingerprint(step: &Step) -> Fingerprint {
    let change = serde_json::to_string(&step.change).unwrap_or_default();
    let mut hasher = DefaultHasher::new();
    change.hash(&mut hasher);
    (step.target.path(), hasher.finish())
}

/// The stage without surrounding pauses and without steps that the merged plan already has; `None` if nothing
/// is left.
fn remaining_stage(
    mut stage: PlanStage,
    held: &BTreeMap<String, &Skyhook>,
    taken: &mut HashMap<Fingerprint, Vec<Step>>,
) -> Option<PlanStage> {
    let waits_only = stage.steps.is_empty();
    let around = |step: &Step| step.change.is_hold() && held.contains_key(&step.target.name);
    stage.steps.retain(|step| {
        let on_it = taken.entry(fingerprint(step)).or_default();
        let again = on_it.iter().any(|done| done.change == step.change);
        let stays = !again && !around(step);
        if stays {
            on_it.push(step.clone());
        }
        stays
    });
    (waits_only || !stage.steps.is_empty()).then_some(stage)
}
