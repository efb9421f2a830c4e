//! Merges several plans into one.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::pause_guard;
use crate::api::{Skyhook, State};
use crate::cluster::{Cluster, Node, NodeRecord};
use crate::plan::{Baseline, Change, Consequences, Plan, PlanStage, Step, retain_stages, some_nodes};
use crate::text::{NodeSet, shell_words};

/// Merges the plans in this order, with one pause of each custom resource around those that change it. `subject` is
/// the name that a user types to confirm a plan with several subjects.
///
/// Steps with the same object and change are kept only once. A plan depends on the earlier ones of the same custom
/// resource or on the same object, and on the pause of its custom resource; unrelated plans run at the same time.
pub fn merged(cluster: &Cluster, title: String, subject: &str, plans: Vec<Plan>) -> Plan {
    let mut plan = Plan {
        title,
        subject: common(&plans, |plan| Some(plan.subject.as_str())).unwrap_or(subject).to_owned(),
        erroring: common(&plans, |plan| plan.erroring.as_deref()).map(str::to_owned),
        ..Plan::default()
    };
    for one in &plans {
        plan.consequences.add(one.consequences.clone());
    }
    let mut held: BTreeMap<String, &Skyhook> = BTreeMap::new();
    for step in plans.iter().flat_map(Plan::steps) {
        if step.change.holds()
            && let Some(skyhook) = cluster.skyhook(&step.target.name)
        {
            held.insert(step.target.name.clone(), skyhook);
        }
    }
    let ends = held.values().map(|skyhook| pause_guard::ends(cluster, skyhook, &plan.title));
    let (pauses, ends): (Vec<PlanStage>, Vec<PlanStage>) = ends.map(|[pause, end]| (pause, end)).unzip();
    let mut parts: Vec<Part> = pauses.iter().map(|pause| Part::of_stage(pause, cluster)).collect();
    for (part, pause) in parts.iter_mut().zip(pauses) {
        part.append(&mut plan, vec![pause], &[]);
    }
    // The changes so far, by the path of their object.
    let mut taken: HashMap<String, Vec<Change>> = HashMap::new();
    for one in plans {
        let mut part = Part::of(&one, cluster);
        let shares = parts.iter().filter(|earlier| earlier.shares_with(&part));
        let after: Vec<usize> = shares.flat_map(|earlier| earlier.stages.clone()).collect();
        let stages = one.stages.into_iter().map(|stage| remaining_stage(stage, &held, &mut taken));
        part.append(&mut plan, stages.collect(), &after);
        parts.push(part);
    }
    for (at, end) in ends.into_iter().enumerate() {
        let under = parts.iter().filter(|part| part.shares_with(&parts[at]));
        let after: Vec<usize> = under.flat_map(|part| part.stages.clone()).collect();
        Part::of_stage(&end, cluster).append(&mut plan, vec![end], &after);
    }
    retain_stages(&mut plan.stages, |stage| !stage.steps.is_empty() || stage.until.is_some());
    plan.forecast(&Baseline::of(cluster));
    plan
}

/// One of the merged plans, or a pause.
struct Part {
    custom_resources: BTreeSet<String>,
    objects: BTreeSet<String>,
    /// Numbers of its stages in the merged plan.
    stages: Vec<usize>,
}

impl Part {
    fn of(plan: &Plan, cluster: &Cluster) -> Part {
        let runs = plan.places_of_deleted_runs(cluster);
        let names =
            plan.steps().flat_map(Step::custom_resources).chain(runs.into_iter().map(|(skyhook, _)| skyhook));
        let custom_resources = names.map(str::to_owned).collect();
        Part {
            custom_resources,
            objects: plan.steps().map(|step| step.target.path()).collect(),
            stages: Vec::new(),
        }
    }

    fn of_stage(stage: &PlanStage, cluster: &Cluster) -> Part {
        Part::of(&Plan { stages: vec![stage.clone()], ..Plan::default() }, cluster)
    }

    /// Whether both change the same object or work on the same custom resource: if the earlier one fails, the state for
    /// the later one is unknown.
    fn shares_with(&self, other: &Part) -> bool {
        let shares = |one: &BTreeSet<String>, other| !one.is_disjoint(other);
        shares(&self.custom_resources, &other.custom_resources) || shares(&self.objects, &other.objects)
    }

    /// Appends the stages of this part, in their own order, after the stages `after` of the merged plan.
    fn append(&mut self, merged: &mut Plan, stages: Vec<PlanStage>, after: &[usize]) {
        let first = merged.stages.len();
        let part = Plan { stages, ..Plan::default() };
        // A stage without `after` still follows the preceding one of this part.
        for (number, stage) in part.stages.iter().enumerate() {
            let own: Vec<usize> = part.before(number).into_iter().map(|before| first + before).collect();
            let after = if own.is_empty() { Some(after.to_vec()) } else { stage.after.as_ref().map(|_| own) };
            self.stages.push(merged.stages.len());
            merged.stages.push(PlanStage { after, ..stage.clone() });
        }
    }
}

/// The value common to all plans; `None` if the values differ.
fn common<'a>(plans: &'a [Plan], value: impl Fn(&'a Plan) -> Option<&'a str>) -> Option<&'a str> {
    let mut values = plans.iter().map(value);
    let first = values.next()?;
    first.filter(|_| values.all(|value| value == first))
}

/// The stage without surrounding pauses and without steps that the merged plan already has; empty, without a wait, if
/// it loses all of its steps.
fn remaining_stage(
    mut stage: PlanStage,
    held: &BTreeMap<String, &Skyhook>,
    taken: &mut HashMap<String, Vec<Change>>,
) -> PlanStage {
    let waits_only = stage.steps.is_empty();
    let around = |step: &Step| step.change.is_hold() && held.contains_key(&step.target.name);
    stage.steps.retain(|step| {
        let made = taken.entry(step.target.path()).or_default();
        let stays = !made.contains(&step.change) && !around(step);
        if stays {
            made.push(step.change.clone());
        }
        stays
    });
    if stage.steps.is_empty() && !waits_only {
        stage.until = None;
    }
    stage
}

/// Warns that a package does not run again on nodes where one of its dependencies is uninstalled.
pub fn uninstalled_dependencies(
    cluster: &Cluster,
    skyhook: &Skyhook,
    name: &str,
    nodes: &[&Node],
    consequences: &mut Consequences,
) {
    let Some(package) = skyhook.package(name) else {
        return;
    };
    for dependency in package.depends_on.keys() {
        if !skyhook.package(dependency).is_some_and(|on| on.uninstall().apply) {
            continue;
        }
        let lacks = |node: &&&Node| {
            let placement = cluster.placement(skyhook, dependency, node);
            let gone = placement.phase.is_absent() || placement.phase.is_uninstall();
            placement.malformed.is_none() && gone
        };
        let nodes = some_nodes(nodes.iter().filter(lacks).map(|node| &*node.name));
        if !nodes.is_empty() {
            consequences.warn(format!(
                "{name} depends on {dependency}, which is uninstalled on {nodes}: {name} waits there until the uninstall of \
                 {dependency} is canceled"
            ));
        }
    }
}

/// Warns that dependants that have started on one of the nodes do not run again with the package.
pub fn dependants_stay(
    skyhook: &Skyhook,
    package: &str,
    targets: &[(&Node, &NodeRecord)],
    consequences: &mut Consequences,
) {
    let begun = |name: &&str| {
        let key = skyhook.package(name).map(|p| p.entry_key(name));
        key.is_some_and(|key| targets.iter().any(|(_, on)| on.entry(&key).is_some()))
    };
    let mut dependants = skyhook.dependants(package);
    dependants.retain(begun);
    if !dependants.is_empty() {
        consequences
            .warn(format!("packages that depend on {package} do not run again: {}", dependants.join(", ")));
    }
}

/// Warns about packages whose missing entry counts as uninstalled although no uninstall has run; returns whether there
/// are any.
pub fn bypassed_uninstalls(
    skyhook: &Skyhook,
    packages: &BTreeSet<&str>,
    consequences: &mut Consequences,
) -> bool {
    let mut any = false;
    for (name, package) in skyhook.packages().filter(|(_, package)| package.uninstall().enabled) {
        if !packages.contains(name) {
            continue;
        }
        any = true;
        consequences.warn(if skyhook.deleting() {
            format!("{skyhook} is being deleted: {name} counts as uninstalled once removed from the node state, so the deletion does not \
                 wait for it there, and its changes to the hosts remain")
        } else if skyhook.uninstalls(package) {
            format!(
                "{name} counts as uninstalled once removed from the node state: the remaining uninstall stages do not run, and \
                 its changes to the hosts may remain"
            )
        } else {
            format!(
                "{name} counts as uninstalled until it has run again: it can be removed or downgraded without running its \
                 uninstall"
            )
        });
    }
    any
}

/// The permanently failed packages, with the nodes among these on which they do not continue.
pub fn permanently_failed<'n>(
    cluster: &Cluster,
    skyhook: &Skyhook,
    nodes: &[&'n Node],
) -> BTreeMap<String, Vec<&'n str>> {
    let fails = |node: &&&Node| {
        let on = cluster.on_node(node, skyhook.name());
        on.is_some_and(|on| on.entries().iter().any(|entry| entry.state == State::Erroring))
    };
    let mut failed: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let mut package_runs = None;
    for node in nodes.iter().filter(fails) {
        let package_runs = package_runs.get_or_insert_with(|| cluster.package_runs_for(skyhook.name()));
        for (entry, _) in package_runs.permanently_failed(cluster, skyhook, node) {
            failed.entry(entry.name.to_string()).or_default().push(&node.name);
        }
    }
    failed
}

/// The warning that a permanently failed package does not continue on these nodes.
pub fn stays_failed(skyhook: &Skyhook, package: &str, nodes: &[&str]) -> String {
    let nodes = NodeSet::of(nodes.iter().copied()).to_string();
    let retry =
        ["kubectl", "skyhook", "package", "retry", package, "--skyhook", skyhook.name(), "--node", &nodes];
    let retry = shell_words(&retry);
    format!("{package} has failed permanently on {nodes} and does not continue there until you run `{retry}`")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{ApiFlavor, keys};
    use crate::cluster::ClusterBuilder;
    use crate::plan::{Edit, Metadata, Target};

    fn on_node(skyhook: &str, node: &str) -> Step {
        let key = keys::status(ApiFlavor::Skyhook, skyhook);
        let edit = Metadata::default().label(key, Edit::new(Some("erroring"), Some("waiting")));
        Step::new(Target::node(node, None), Change::Metadata(edit), "a test")
    }

    fn part(skyhook: &str, stages: &[&[&str]]) -> Plan {
        let stage =
            |nodes: &&[&str]| PlanStage::of(nodes.iter().map(|node| on_node(skyhook, node)).collect());
        Plan { stages: stages.iter().map(stage).collect(), ..Plan::new("a test", skyhook) }
    }

    /// Each stage of the merged plan: its nodes, and its dependencies.
    fn merge(parts: Vec<Plan>) -> Vec<(String, Option<Vec<usize>>)> {
        let plan = merged(&ClusterBuilder::default().of_leftovers(), "all".to_owned(), "fix", parts);
        assert!(plan.is_in_order());
        let nodes = |stage: &PlanStage| {
            let names: Vec<&str> = stage.steps.iter().map(|step| step.target.name.as_str()).collect();
            names.join(" ")
        };
        plan.stages.iter().map(|stage| (nodes(stage), stage.after.clone())).collect()
    }

    #[test]
    fn unrelated_plans_do_not_depend_on_each_other() {
        let stages = merge(vec![part("gpu", &[&["n1", "n2"], &["n3"]]), part("net", &[&["n4"]])]);
        let expected = [("n1 n2", Some(vec![])), ("n3", None), ("n4", Some(vec![]))];
        assert_eq!(stages, expected.map(|(nodes, after)| (nodes.to_owned(), after)));
    }

    #[test]
    fn plans_of_one_custom_resource_or_on_one_node_depend_on_each_other() {
        for second in [part("gpu", &[&["n4"]]), part("net", &[&["n3"]])] {
            let stages = merge(vec![part("gpu", &[&["n1"], &["n3"]]), second]);
            assert_eq!(stages[2].1, Some(vec![0, 1]), "{stages:?}");
        }
        // The subject is no custom resource, although one may have this name.
        let mut release = part("net", &[&["n4"]]);
        release.subject = "gpu".to_owned();
        assert_eq!(merge(vec![part("gpu", &[&["n1"]]), release])[1].1, Some(vec![]));
    }

    #[test]
    fn equal_steps_are_kept_once() {
        let stages = merge(vec![part("gpu", &[&["n1", "n2"]]), part("gpu", &[&["n2"], &["n3"]])]);
        let expected = [("n1 n2", Some(vec![])), ("n3", Some(vec![0]))];
        assert_eq!(stages, expected.map(|(nodes, after)| (nodes.to_owned(), after)));
    }
}
