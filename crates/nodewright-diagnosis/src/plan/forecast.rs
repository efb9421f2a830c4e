//! Predicts the effects of a plan: applies its steps to a copy of the cluster, and runs the model on the
//! copy.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Value, json};

use super::planners::effects::interrupts;
use super::{Change, Consequences, Edit, Field, Grade, Kind, Metadata, Plan, Step};
use crate::api::keys::NodeKey;
use crate::api::skyhook::{BatchState, SkyhookStatus};
use crate::api::{Object, Skyhook};
use crate::cluster::node::Taint;
use crate::cluster::{Certainty, Cluster, NamedNodes, Node, NodeEdit, Source, decode_leniently};
use crate::model::{Effects, effects};

impl Plan {
    /// Replaces the effects on packages and nodes by those of all steps. Unknown effects are omitted; a
    /// warning then names the source that could not be read.
    pub fn forecast(&mut self, cluster: &Cluster) {
        self.consequences.effects.clear();
        self.consequences.rollouts.clear();
        if self.is_empty() {
            return;
        }
        let limited = self.few_nodes().map(|named| {
            let nodes = named.nodes.iter().map(String::as_str).collect();
            cluster.limited_to(&nodes)
        });
        let cluster = limited.as_ref().unwrap_or(cluster);
        let after = self.carried_out(cluster);
        let names = self.concerned(&after);
        let mut unread: BTreeSet<Source> = BTreeSet::new();
        if cluster.certainty_of_no_package_run() == Certainty::Unknown {
            unread.extend([Source::Pods, Source::Jobs]);
        } else {
            let known = |effects: &Effects<'_>| effects.unread.is_none();
            let all = effects(cluster, &after, &names);
            unread.extend(all.iter().filter_map(|effects| effects.unread));
            // The next batch starts sooner, so all of its work is an effect of the plan.
            let anyway = if self.leaves_batches() { Vec::new() } else { effects(cluster, cluster, &names) };
            self.consequences.cover(&started(cluster, &all, &anyway));
            for effects in all.iter().filter(|effects| known(effects)) {
                self.consequences.effects.extend(effects.packages());
                self.consequences.rollouts.push(effects.rollout());
            }
        }
        for source in unread {
            if let Some(why) = cluster.source(source).unread() {
                self.consequences.warn(format!(
                    "{source} cannot be read ({why}): the operator's next actions are not shown"
                ));
            }
        }
    }

    /// Whether the plan removes nodes from the batches of rollouts that continue.
    fn leaves_batches(&self) -> bool {
        let leaves = |field: &Field| matches!(&*field.path, [_, priority, _] if priority == "nodePriority");
        self.steps().any(|step| matches!(&step.change, Change::Status(fields) if fields.iter().any(leaves)))
    }

    /// The nodes of the plan, if it works only on nodes, pods and Jobs, and the nodes are few enough to be
    /// read by name. The forecast is then limited to these nodes, whether or not others were read.
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
        for stage in &self.stages {
            for step in &stage.steps {
                carry_out(&mut after, step, waited);
            }
            waited |= stage.until.is_some();
        }
        after
    }

    /// The custom resources whose rollouts the steps may change, in the operator's order.
    fn concerned<'c>(&self, after: &'c Cluster) -> Vec<&'c str> {
        let flavor = after.flavor();
        let mut names: BTreeSet<&str> = BTreeSet::new();
        let mut nodes: BTreeSet<&str> = BTreeSet::new();
        for step in self.steps().filter(|step| self.is_work(step)) {
            let target = step.target.name.as_str();
            match &step.change {
                Change::Metadata(metadata) if step.target.kind == Kind::Node => {
                    let keys = metadata.annotations.keys().chain(metadata.labels.keys());
                    for key in keys.filter_map(|key| NodeKey::parse(flavor, key)) {
                        match key.skyhook() {
                            Some(skyhook) => names.extend([skyhook]),
                            None => nodes.extend([target]),
                        }
                    }
                }
                Change::Taints { .. } => nodes.extend([target]),
                _ if matches!(step.target.kind, Kind::Pod | Kind::Job) => {
                    names.extend([self.subject.as_str()])
                }
                _ if step.target.kind == flavor.into() => names.extend([target]),
                _ => {}
            }
        }
        let on_nodes = |skyhook: &Skyhook| {
            let mut nodes = nodes.iter().filter_map(|name| after.node(name));
            nodes.any(|node| skyhook.selects(node))
        };
        let skyhooks = after.skyhooks.items().iter();
        let concerned = skyhooks.filter(|s| names.contains(s.name()) || on_nodes(s));
        concerned.map(Skyhook::name).collect()
    }
}

/// The side effects of the work that starts because of a plan: of `all` effects, without the work that the
/// operator would do anyway.
fn started(cluster: &Cluster, all: &[Effects<'_>], anyway: &[Effects<'_>]) -> Consequences {
    type Work<'a> = BTreeMap<(&'a str, &'a str), BTreeSet<(&'a str, &'a str)>>;
    fn work<'a>(effects: &'a [Effects<'_>]) -> Work<'a> {
        let mut work = Work::new();
        for effects in effects {
            for package in effects.packages.iter().filter(|package| !package.stages.is_empty()) {
                let what = (package.package, package.interrupt.unwrap_or_default());
                for node in &package.nodes {
                    work.entry((effects.skyhook, node.name.as_str())).or_default().insert(what);
                }
            }
        }
        work
    }
    let mut started = Consequences::default();
    let after = work(all);
    if after.is_empty() {
        return started;
    }
    let anyway = work(anyway);
    let mut by_node: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (place, packages) in &after {
        let known = anyway.get(place);
        for (package, interrupt) in packages {
            if known.is_some_and(|known| known.contains(&(package, interrupt))) {
                continue;
            }
            let interrupt = Some(*interrupt).filter(|kind| !kind.is_empty());
            started.at_least(Grade::of_rerun(interrupt));
            by_node.entry(place.1).or_default().extend(interrupt);
        }
    }
    for (node, kinds) in &by_node {
        started.nodes += 1;
        started.gpus += cluster.node(node).map_or(0, Node::gpus);
        interrupts(kinds, &mut started);
    }
    started
}

/// Applies a step to the simulated cluster. `waited`: an earlier stage waits for the operator. Removals of
/// packages from the spec are then skipped, because their uninstall is the effect to show.
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
        Kind::Pod => remove_deleted(after.pods.available_mut(), step),
        Kind::Job => remove_deleted(after.jobs.available_mut(), step),
        _ => {}
    }
}

fn remove_deleted<T: Object>(list: Option<&mut Vec<T>>, step: &Step) {
    let target = &step.target;
    let namespace = target.namespace.as_deref().unwrap_or_default();
    if let (Some(list), Change::Delete { .. }) = (list, &step.change) {
        list.retain(|object| object.key() != (namespace, target.name.as_str()));
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
