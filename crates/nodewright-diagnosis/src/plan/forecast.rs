//! Predicts the effects of a plan: applies its steps to a copy of the cluster, and runs the model on the
//! copy.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Value, json};

use super::planners::effects::interrupts;
use super::{Change, Consequences, Edit, Field, Grade, Kind, Metadata, Plan, Step};
use crate::api::keys::NodeKey;
use crate::api::skyhook::{BatchState, SkyhookStatus};
use crate::api::{DeploymentPolicy, Object, Skyhook};
use crate::cluster::node::Taint;
use crate::cluster::{Certainty, Cluster, NamedNodes, Node, NodeEdit, PackageRun, Source, decode_leniently};
use crate::model::{PackageChange, Simulation, WorkByPlace};

impl Plan {
    /// Replaces the effects on packages and nodes by those of all steps, on all custom resources. Unknown effects are
    /// omitted; a warning then names the source that could not be read.
    pub fn forecast(&mut self, cluster: &Cluster) {
        let mut consequences = std::mem::take(&mut self.consequences);
        consequences.effects.clear();
        consequences.rollouts.clear();
        if !self.is_empty() {
            self.add_effects(cluster, &mut consequences);
        }
        self.consequences = consequences;
    }

    fn add_effects(&self, cluster: &Cluster, consequences: &mut Consequences) {
        let after = self.carried_out(cluster);
        let edited = Edited::of(self, cluster);
        let named = edited.skyhooks(&after);
        let mut unread: BTreeSet<Source> = BTreeSet::new();
        if cluster.certainty_of_no_package_run() == Certainty::Unknown {
            unread.extend([Source::Pods, Source::Jobs]);
        } else if after.nodes.ok().is_none() {
            unread.insert(Source::Nodes);
        } else {
            let (anyway, then) = (Simulation::new(cluster), Simulation::new(&after));
            let mut work = edited.started(&anyway.work(), then.work(), true);
            // A pause, for example, only delays the work.
            let waits =
                |name: &&str| then.is_stuck(name) || !after.skyhook(name).is_some_and(Skyhook::is_active);
            if named.iter().any(waits) {
                let (anyway, then) = (Simulation::unhindered(cluster), Simulation::unhindered(&after));
                let mut later = edited.started(&anyway.work(), then.work(), false);
                later.retain(|(skyhook, _), _| named.contains(skyhook));
                for (place, packages) in later {
                    work.entry(place).or_default().extend(packages);
                }
            }
            let starts = |name: &str| work.keys().any(|(skyhook, _)| *skyhook == name);
            let is_named = |name: &&str| starts(name) || named.contains(name);
            let names = after.skyhooks.items().iter().map(Skyhook::name).filter(is_named);
            for effects in then.effects(cluster, &after, &names.collect::<Vec<_>>()) {
                let edits = edited.resources.contains(effects.skyhook)
                    && effects.packages.iter().any(|package| package.change != PackageChange::Unchanged);
                match effects.unread {
                    Some(source) => drop(unread.insert(source)),
                    None if edits || starts(effects.skyhook) => {
                        consequences.effects.extend(effects.packages());
                        consequences.rollouts.push(effects.rollout());
                    }
                    None => {}
                }
            }
            consequences.cover(&numbers(cluster, &work));
        }
        for source in unread {
            if let Some(why) = cluster.source(source).unread() {
                // Any package may run, and any node be interrupted.
                let worst = named.iter().filter_map(|name| after.skyhook(name)).flat_map(|skyhook| {
                    let packages = skyhook.packages();
                    packages.map(|(name, p)| Grade::of_rerun(skyhook.pending_interrupt(name, p)))
                });
                worst.for_each(|grade| consequences.at_least(grade));
                consequences.warn(format!(
                    "{source} cannot be read ({why}): the operator's next actions are not shown"
                ));
            }
        }
    }

    /// The nodes of the plan, if it works only on nodes, pods and Jobs, and the nodes are few enough to be
    /// read by name.
    pub fn few_nodes(&self) -> Option<NamedNodes> {
        let work = self.steps().filter(|step| self.is_work(step));
        let on_runs = |kind: Kind| matches!(kind, Kind::Node | Kind::Pod | Kind::Job);
        let mut kinds = work.map(|step| step.target.kind);
        NamedNodes::few(self.nodes().into_iter().map(str::to_owned)).filter(|_| kinds.all(on_runs))
    }

    /// The cluster right after the steps, before the operator acts on them.
    ///
    /// A package that the plan removes from the spec after its uninstall stays in the spec: the uninstall is
    /// the effect to show.
    pub fn carried_out(&self, cluster: &Cluster) -> Cluster {
        let mut after = cluster.clone();
        let mut waited = false;
        let mut gone: BTreeSet<&str> = BTreeSet::new();
        for stage in &self.stages {
            for step in &stage.steps {
                carry_out(&mut after, step, waited);
                let target = &step.target;
                let mut skyhooks = after.skyhooks.items().iter();
                if target.kind == after.flavor().into() && skyhooks.all(|s| s.name() != target.name) {
                    gone.insert(&target.name);
                }
            }
            waited |= stage.until.is_some();
        }
        let deleted = self.deleted_runs();
        if !gone.is_empty() || !deleted.is_empty() {
            // Kubernetes deletes the Jobs and pods of a custom resource, and the pods of a Job, with their owner.
            let runs = after.package_runs_of(after.flavor()).into_iter();
            let ended = runs.filter(|run| gone.contains(run.skyhook.as_str()) || is_deleted(run, &deleted));
            let keys: BTreeSet<(String, String)> = ended
                .flat_map(|run| {
                    let job = run.job.map(Object::key);
                    job.into_iter().chain(run.pods.into_iter().map(Object::key)).collect::<Vec<_>>()
                })
                .map(|(namespace, name)| (namespace.to_owned(), name.to_owned()))
                .collect();
            let remains =
                |(namespace, name): (&str, &str)| !keys.contains(&(namespace.to_owned(), name.to_owned()));
            after.jobs.available_mut().into_iter().for_each(|jobs| jobs.retain(|job| remains(job.key())));
            after.pods.available_mut().into_iter().for_each(|pods| pods.retain(|pod| remains(pod.key())));
        }
        after
    }

    /// Namespace and name of the pods and Jobs that the plan deletes.
    fn deleted_runs(&self) -> BTreeSet<(&str, &str)> {
        let deletes = self.steps().map(|step| &step.target);
        let deletes = deletes.filter(|target| matches!(target.kind, Kind::Pod | Kind::Job));
        deletes
            .map(|target| (target.namespace.as_deref().unwrap_or_default(), target.name.as_str()))
            .collect()
    }
}

/// Whether the Job or a pod of the run is among these.
fn is_deleted(run: &PackageRun<'_>, deleted: &BTreeSet<(&str, &str)>) -> bool {
    let pods = run.pods.iter().map(|pod| pod.key());
    run.job.map(Object::key).into_iter().chain(pods).any(|key| deleted.contains(&key))
}

/// What the steps of a plan edit, except its own pauses.
#[derive(Debug, Default)]
struct Edited<'a> {
    /// Custom resources, by name.
    resources: BTreeSet<&'a str>,
    /// Custom resources whose batches change: all of their work starts sooner.
    batches: BTreeSet<&'a str>,
    /// The state of a custom resource on a node, or a stage of it there, by both names.
    places: BTreeSet<(&'a str, &'a str)>,
    /// Nodes whose keys or taints concern every custom resource.
    nodes: BTreeSet<&'a str>,
}

impl<'a> Edited<'a> {
    fn of(plan: &'a Plan, cluster: &'a Cluster) -> Edited<'a> {
        let flavor = cluster.flavor();
        let mut edited = Edited::default();
        for step in plan.steps().filter(|step| plan.is_work(step)) {
            let target = step.target.name.as_str();
            match &step.change {
                Change::Metadata(metadata) if step.target.kind == Kind::Node => {
                    let keys = metadata.annotations.keys().chain(metadata.labels.keys());
                    for key in keys.filter_map(|key| NodeKey::parse(flavor, key)) {
                        match key.skyhook() {
                            Some(skyhook) => drop(edited.places.insert((skyhook, target))),
                            None => drop(edited.nodes.insert(target)),
                        }
                    }
                }
                Change::Taints { .. } => drop(edited.nodes.insert(target)),
                change if step.target.kind == flavor.into() => {
                    edited.resources.insert(target);
                    if matches!(change, Change::Status(_)) {
                        edited.batches.insert(target);
                    }
                }
                _ => {}
            }
        }
        let deleted = plan.deleted_runs();
        if !deleted.is_empty() {
            let runs = cluster.package_runs_of(flavor).into_iter();
            for run in runs.filter(|run| is_deleted(run, &deleted)) {
                let owner = cluster.skyhook(&run.skyhook);
                edited.places.extend(owner.map(|owner| (owner.name(), run.node)));
            }
        }
        edited
    }

    /// The custom resources whose rollouts the steps may change.
    fn skyhooks<'c>(&self, after: &'c Cluster) -> BTreeSet<&'c str> {
        let concerns = |skyhook: &&Skyhook| {
            let name = skyhook.name();
            let mut nodes = self.nodes.iter().filter_map(|name| after.node(name));
            self.resources.contains(name)
                || self.places.iter().any(|(skyhook, _)| *skyhook == name)
                || nodes.any(|node| skyhook.selects(node))
        };
        after.skyhooks.items().iter().filter(concerns).map(Skyhook::name).collect()
    }

    /// The work that starts because of the plan: the operator would not do it `anyway`, or the plan changes the state that
    /// it starts from. With `sooner`, also work that would only start later.
    fn started<'w>(&self, anyway: &WorkByPlace<'_>, then: WorkByPlace<'w>, sooner: bool) -> StartedWork<'w> {
        let mut started = StartedWork::new();
        for (place, mut work) in then {
            if let Some(known) = anyway.get(&place) {
                let sooner = sooner && (work.now && !known.now || self.batches.contains(place.0));
                if !sooner && !self.places.contains(&place) {
                    work.packages.retain(|package, kind| known.packages.get(package) != Some(kind));
                }
            }
            if !work.packages.is_empty() {
                started.insert(place, work.packages.into_iter().collect());
            }
        }
        started
    }
}

/// The packages that run, with the types of their interrupts, by the names of the custom resource and of the node.
type StartedWork<'a> = BTreeMap<(&'a str, &'a str), BTreeSet<((&'a str, bool), Option<&'a str>)>>;

/// The grade and the numbers of this work. A node counts once.
fn numbers(cluster: &Cluster, work: &StartedWork<'_>) -> Consequences {
    let mut consequences = Consequences::default();
    let mut by_node: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for ((_, node), packages) in work {
        for (_, interrupt) in packages {
            consequences.at_least(Grade::of_rerun(*interrupt));
            by_node.entry(node).or_default().extend(*interrupt);
        }
    }
    for (node, kinds) in &by_node {
        consequences.nodes += 1;
        consequences.gpus += cluster.node(node).map_or(0, Node::gpus);
        interrupts(kinds, &mut consequences);
    }
    consequences
}

/// Applies a step to the simulated cluster. `waited`: an earlier stage waits for the operator. Removals of
/// packages from the spec are then skipped, because their uninstall is the effect to show, and deletions of policies,
/// because their custom resources still exist in the simulation.
fn carry_out(after: &mut Cluster, step: &Step, waited: bool) {
    let target = &step.target;
    match target.kind {
        Kind::Node => {
            let (Some(nodes), Some(edit)) = (after.nodes.available_mut(), node_edit(&step.change)) else {
                return;
            };
            let at = nodes.binary_search_by(|node| node.name.as_str().cmp(&target.name));
            if let Ok(at) = at {
                nodes[at].edit(edit);
            }
        }
        kind if kind == after.flavor().into() => {
            let taken_at = after.taken_at;
            let Some(skyhooks) = after.skyhooks.available_mut() else {
                return;
            };
            match &step.change {
                Change::Delete { .. } => {
                    skyhooks.retain(|s| s.name() != target.name || !s.metadata.finalizers.is_empty());
                    let own = skyhooks.iter_mut().filter(|s| s.name() == target.name);
                    own.for_each(|s| s.metadata.deletion_timestamp = Some(taken_at));
                }
                Change::Create(object) => {
                    skyhooks.extend(decode_leniently::<Skyhook>((**object).clone()));
                }
                change => {
                    let at = skyhooks.iter().position(|s| s.name() == target.name);
                    let Some(at) = at else { return };
                    match edited(&skyhooks[at], change, waited) {
                        Some(edited) => skyhooks[at] = edited,
                        None => drop(skyhooks.remove(at)),
                    }
                }
            }
        }
        kind if kind == Kind::policy(after.flavor()) => {
            let policies = after.policies.available_mut();
            match (&step.change, policies) {
                // After a wait, the custom resources that refer to the policy are gone.
                (Change::Delete { .. }, Some(policies)) if !waited => {
                    policies.retain(|policy| policy.metadata.name != target.name);
                }
                (Change::Create(object), Some(policies)) => {
                    policies.extend(decode_leniently::<DeploymentPolicy>((**object).clone()));
                }
                _ => {}
            }
        }
        _ => {}
    }
}

fn node_edit(change: &Change) -> Option<NodeEdit<'_>> {
    match change {
        Change::Metadata(metadata) => Some(of_metadata(metadata)),
        Change::Taints { to, .. } => {
            let taints: Vec<Taint> = serde_json::from_value(json!(to)).ok()?;
            Some(NodeEdit { taints: Some(taints), ..NodeEdit::default() })
        }
        _ => None,
    }
}

fn of_metadata(metadata: &Metadata) -> NodeEdit<'_> {
    NodeEdit {
        annotations: values(&metadata.annotations),
        labels: values(&metadata.labels),
        unschedulable: metadata.unschedulable,
        taints: None,
    }
}

fn values(edits: &BTreeMap<String, Edit>) -> Vec<(&str, Option<&str>)> {
    let edits = edits.iter().filter(|(_, edit)| edit.from != edit.to);
    edits.map(|(key, edit)| (key.as_str(), edit.to.as_deref())).collect()
}

/// The custom resource after a change; `None` if the change removes the last finalizer of a deleted custom
/// resource.
fn edited(live: &Skyhook, change: &Change, waited: bool) -> Option<Skyhook> {
    if let Change::Status(fields) = change {
        let mut edited = live.clone();
        for field in fields {
            write_status(&mut edited.status, field);
        }
        return Some(edited);
    }
    let mut object = live.whole.clone();
    match change {
        Change::Spec(fields) => {
            let leaves = |field: &&Field| field.to.is_none() && field.path.len() == 3;
            let kept = fields.iter().filter(|field| !(waited && leaves(field)));
            Change::Spec(kept.cloned().collect()).write(&mut object);
        }
        change => change.write(&mut object),
    }
    let decoded = decode_leniently::<Skyhook>((!object.is_null()).then_some(object)?);
    let mut edited = decoded.ok()?;
    let changed = edited.whole["spec"] != live.whole["spec"];
    edited.metadata.generation = live.metadata.generation + i64::from(changed);
    edited.status = live.status.clone();
    edited.size = live.size;
    Some(edited)
}

/// Writes a field of the status, if it affects the choice of the next nodes.
fn write_status(status: &mut SkyhookStatus, field: &Field) {
    let path: Vec<&str> = field.path.iter().map(String::as_str).collect();
    match (path.as_slice(), &field.to) {
        (["status", "nodeOrderOffset"], to) => {
            status.node_order_offset = to.as_ref().and_then(Value::as_i64).unwrap_or_default();
        }
        (["status", "nodePriority"], None) => status.node_priority.clear(),
        (["status", "nodePriority", node], None) => {
            status.node_priority.retain(|name, _| name.as_str() != *node);
        }
        (["status", "compartmentStatuses", name, "batchState", rest @ ..], Some(to)) => {
            let Some(compartment) = status.compartment_statuses.get_mut(*name) else {
                return;
            };
            let mut batch = json!(compartment.batch_state.clone().unwrap_or_default());
            match rest {
                [] => batch = to.clone(),
                [counter, ..] => batch[*counter] = to.clone(),
            }
            compartment.batch_state = BatchState::deserialize(batch).ok();
        }
        _ => {}
    }
}
