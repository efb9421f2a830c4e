//! What keeps the work of a plan from starting, as warnings.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use super::{Baseline, Edited, StartedWork, is_active, is_ignored, stay_on_hosts};
use crate::api::{Skyhook, Stage, State, Status};
use crate::cluster::{Cluster, Node, PackageRun};
use crate::model::{Model, RolloutDocument, WaitReason};
use crate::plan::planners::batches::may_free_others;
use crate::plan::planners::merge::{permanently_failed, stays_failed};
use crate::plan::{Change, Consequences, Grade, Plan, Step, some_nodes};

/// Warns why work does not start at once, and what starts it.
pub(super) fn add_hindrances(
    baseline: &Baseline<'_>,
    after: &Cluster,
    edited: &Edited<'_>,
    work: &StartedWork<'_>,
    consequences: &mut Consequences,
) {
    let cluster = baseline.cluster;
    let model = OnceCell::new();
    let model = || model.get_or_init(|| Model::new(after));
    let edits = |name: &str| edited.places.iter().any(|(skyhook, _)| *skyhook == name);
    for gone in cluster.skyhooks.iter().filter(|skyhook| after.skyhook(skyhook.name()).is_none()) {
        add_unfinished(baseline, after, edited, work, gone.name(), consequences);
        // `model/gates/finalizer.rs`: a pause does not keep the operator from removing its finalizer.
        if edits(gone.name()) && !edited.whole.contains(gone.name()) {
            consequences.note(format!(
                "the operator finishes the deletion of {gone}: no package is left to uninstall"
            ));
        }
    }
    for skyhook in &after.skyhooks {
        let name = skyhook.name();
        let places = work.keys().filter(|(skyhook, _)| *skyhook == name);
        let nodes: Vec<&Node> = places.filter_map(|(_, node)| after.node(node)).collect();
        // Without its finalizer, a custom resource that is being deleted is not reconciled again.
        let released = skyhook.deleting() && !skyhook.has_finalizer();
        // The planner warns of a pause that the plan sets.
        let was_active = is_active(cluster, name);
        if !skyhook.is_active() && !was_active && !released {
            let (stopped, command) =
                if skyhook.paused() { ("paused", "resume") } else { ("disabled", "enable") };
            let reference = skyhook.to_string();
            let pends = || edits(name) && skyhook.deleting() && !after.pending_uninstalls(skyhook).is_empty();
            if !nodes.is_empty() || pends() {
                consequences.warn(format!(
                    "{reference} is {stopped}: nothing runs until you run `kubectl skyhook {command} {name}`"
                ));
            }
        }
        if skyhook.is_active() && (!was_active || edited.batches.contains(name)) {
            let selected = after.nodes.iter().filter(|node| skyhook.selects(node));
            for (package, nodes) in permanently_failed(after, skyhook, &selected.collect::<Vec<_>>()) {
                consequences.warn(stays_failed(skyhook, &package, &nodes));
            }
        }
        let ends = |rollout: &RolloutDocument| rollout.skyhook == name && rollout.stuck.is_none();
        let was_deleting = cluster.skyhook(name).is_some_and(Skyhook::deleting);
        if was_deleting && skyhook.deleting() && consequences.rollouts.iter().any(ends) {
            consequences.note(format!("then the operator finishes the deletion of {skyhook}"));
            let stay = stay_on_hosts(after, skyhook, &after.pending_uninstalls(skyhook));
            stay.into_iter().for_each(|stays| consequences.note(stays));
        }
        add_unfinished(baseline, after, edited, work, name, consequences);
        let ignored: Vec<&str> =
            nodes.iter().map(|node| &*node.name).filter(|node| is_ignored(after, node)).collect();
        if let Some(first) = ignored.first() {
            let (carry, each) = match ignored.len() {
                1 => ("carries", ""),
                _ => ("carry", "; repeat for each node"),
            };
            consequences.warn(format!(
                "{} {carry} the ignore label: nothing runs there until you run `kubectl skyhook node unignore {first}`{each}",
                some_nodes(&ignored),
            ));
        }
        if !nodes.is_empty() {
            // Omit failures that the plan itself runs again.
            let is_cured = |place: (&str, &str)| edited.places.contains(&place) || work.contains_key(&place);
            for (earlier, nodes) in failing_first(baseline, model(), name, &nodes, is_cured) {
                consequences.warn(format!(
                    "{earlier} runs first on {} and fails there: {skyhook} waits for it",
                    some_nodes(&nodes)
                ));
            }
        }
        if skyhook.stopped_compartments().next().is_some() {
            let stopped = nodes.iter().filter(|node| model().is_stopped(skyhook, node));
            let stopped = some_nodes(stopped.map(|node| node.name.as_str()));
            if !stopped.is_empty() {
                consequences.warn(format!("the rollout of {skyhook} has stopped: nothing runs on {stopped} until you run `kubectl skyhook deployment-policy \
                     reset {name}`"));
            }
        }
    }
}

/// Warns that the API server rejects changes to custom resources while a webhook, which the operator serves, is unreachable.
pub(super) fn add_webhooks(plan: &Plan, cluster: &Cluster, consequences: &mut Consequences) {
    let is_admitted = |step: &Step| {
        let unchecked = matches!(step.change, Change::Status(_) | Change::Delete { .. });
        step.target.kind == cluster.flavor().into() && !unchecked
    };
    if !plan.steps().any(is_admitted) {
        return;
    }
    if let Some(dead) = cluster.webhooks().unreachable("UPDATE", None).first() {
        let name = &dead.webhook.name;
        consequences.warn(format!("webhook {name} rejects every change to a custom resource: {}", dead.why));
    } else if cluster.admission.webhooks.ok().is_none() && cluster.operator().is_unavailable() {
        let why = "the operator, which serves the webhooks, is not available";
        consequences.warn(format!("{why}: the API server may reject the change"));
    }
}

/// Warns of failures that a plan only repeats, and of unfinished uninstalls whose record it removes.
fn add_unfinished(
    baseline: &Baseline<'_>,
    after: &Cluster,
    edited: &Edited<'_>,
    work: &StartedWork<'_>,
    name: &str,
    consequences: &mut Consequences,
) {
    let cluster = baseline.cluster;
    let mut failed: BTreeMap<(&str, &Stage), Vec<&str>> = BTreeMap::new();
    let mut lost: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for &(_, node) in edited.places.iter().filter(|(skyhook, _)| *skyhook == name) {
        let Some(before) = cluster.node(node).and_then(|node| cluster.on_node(node, name)) else {
            continue;
        };
        let now = after.node(node).and_then(|node| after.on_node(node, name));
        for entry in before.entries().iter().filter(|entry| entry.state != State::Complete) {
            let (package, version) = entry.identity();
            let in_spec = after.skyhook(name).and_then(|skyhook| skyhook.package(package));
            let uninstalls = entry.stage.is_uninstall();
            let here = work.get(&(name, node));
            let runs = here.is_some_and(|work| work.contains_key(&(package, uninstalls)));
            // A pod that fails may run on, so that only the uninstall after it starts.
            let fails_on = runs || here.is_some_and(|work| work.contains_key(&(package, true)));
            let is_kept = now.is_some_and(|now| now.entry(&entry.key).is_some());
            let mut package_runs = baseline.package_runs().of_skyhook_on(name, node);
            let fails = entry.state == State::Erroring
                || package_runs.any(|run| run.is_of_version(entry) && run.trouble().is_some());
            if uninstalls && !is_kept && !runs {
                lost.entry(package).or_default().push(node);
            } else if fails && fails_on && in_spec.is_some_and(|package| package.version == version) {
                failed.entry((package, &entry.stage)).or_default().push(node);
            }
        }
    }
    let mut elsewhere: BTreeMap<(&str, String), BTreeSet<&str>> = BTreeMap::new();
    for effect in consequences.effects.iter().filter(|effect| effect.skyhook == name) {
        for node in effect.regardless.iter().filter_map(|node| cluster.node(node)) {
            let mut here = baseline.package_runs().of_skyhook_on(name, &node.name);
            let fails = |run: &&PackageRun<'_>| run.package == effect.package && run.trouble().is_some();
            if let Some(run) = here.find(fails) {
                let stage = (run.package.as_str(), run.stage.to_string());
                elsewhere.entry(stage).or_default().insert(&node.name);
            }
        }
    }
    if !failed.is_empty() || !elsewhere.is_empty() {
        // The model assumes that the stage succeeds this time.
        let effects = consequences.effects.iter_mut().filter(|effect| effect.skyhook == name);
        effects.for_each(|effect| effect.estimate = None);
        let rollouts = consequences.rollouts.iter_mut().filter(|rollout| rollout.skyhook == name);
        rollouts.for_each(|rollout| (rollout.estimate, rollout.uncertainty) = (None, None));
    }
    for ((package, stage), nodes) in failed {
        consequences.warn(format!(
            "{package} fails at stage {stage} on {}: it fails again unless the cause is fixed",
            some_nodes(&nodes)
        ));
    }
    for ((package, stage), nodes) in elsewhere {
        consequences.warn(format!(
            "{package} also fails at stage {stage} on {}, where this change starts nothing",
            some_nodes(&nodes)
        ));
    }
    for (package, nodes) in lost {
        consequences.warn(format!(
            "the uninstall of {package} is unfinished on {}: without its record, the operator does not start it again",
            some_nodes(&nodes)
        ));
    }
}

/// The custom resources for which this one waits on these nodes, and which fail there before the plan. The model assumes
/// that their stages succeed in the end.
fn failing_first<'a>(
    baseline: &Baseline<'_>,
    model: &Model<'a>,
    name: &str,
    nodes: &[&'a Node],
    is_cured: impl Fn((&str, &str)) -> bool,
) -> Vec<(&'a Skyhook, Vec<&'a str>)> {
    let mut nodes_by_earlier: BTreeMap<&str, (&Skyhook, Vec<&str>)> = BTreeMap::new();
    for node in nodes {
        let reason = model.progress(name, &node.name).map(|progress| progress.reason);
        let Some(WaitReason::Earlier { skyhook: earlier, everywhere, .. }) = reason else {
            continue;
        };
        if everywhere && nodes_by_earlier.contains_key(earlier.name()) {
            continue;
        }
        let awaited = if everywhere { model.unfinished(earlier).collect() } else { vec![*node] };
        let fails = |node: &&&Node| {
            let place = (earlier.name(), node.name.as_str());
            let record = baseline.cluster.on_node(node, place.0);
            let erroring = record.is_some_and(|on| on.operator_status() == Status::Erroring);
            let mut runs = baseline.package_runs().of_skyhook_on(place.0, place.1);
            !is_cured(place) && (erroring || runs.any(|run| run.trouble().is_some()))
        };
        let failing: Vec<&str> = awaited.iter().filter(fails).map(|node| node.name.as_str()).collect();
        if !failing.is_empty() {
            nodes_by_earlier.entry(earlier.name()).or_insert((earlier, Vec::new())).1.extend(failing);
        }
    }
    nodes_by_earlier.into_values().collect()
}

/// Adds the work that may follow on other nodes once the plan ignores a node whose batch is not recorded.
pub(super) fn add_freed(plan: &Plan, cluster: &Cluster, after: &Cluster, consequences: &mut Consequences) {
    let key = after.flavor().key("ignore");
    let ignores = plan.steps().filter(|step| match &step.change {
        Change::Metadata(metadata) => metadata.labels.get(&key).is_some_and(|edit| edit.to.is_some()),
        _ => false,
    });
    for node in ignores.filter_map(|step| after.node(&step.target.name)) {
        // The plan itself may remove the record of the batch.
        for skyhook in cluster.selecting(node).filter(|skyhook| may_free_others(after, skyhook, node)) {
            consequences.at_least(Grade::of_running(skyhook));
            let reference = skyhook.to_string();
            consequences
                .warn(format!("{reference} has no recorded batch: the operator may choose other nodes instead and start packages there"));
        }
    }
}
