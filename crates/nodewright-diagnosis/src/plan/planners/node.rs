//! Changes to the operator's keys on a node.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::node;
use super::pause_guard;
use crate::api::keys;
use crate::api::{ApiFlavor, Meta, NodeState, Skyhook, Stage, State, Status};
use crate::cluster::node::Taint;
use crate::cluster::owners::Applier;
use crate::cluster::{Certainty, Cluster, Node, NodeRecord};
use crate::error::{Error, Result};
use crate::plan::step::as_new;
use crate::plan::{
    At, Change, Condition, Consequences, Edit, Field, Hold, Metadata, Move, OnConflict, Plan, PlanStage,
    Step, Target, some_nodes,
};

/// Removes the annotations, the label and the cordon of one custom resource from a node, in one patch.
///
/// The cordon stays while the custom resource selects the node: the rerun releases it. If the custom resource
/// was deleted, the node is uncordoned, unless another owner holds it too. Keys of the older API are removed
/// as well, or the operator would adopt them again.
pub fn clear_state(cluster: &Cluster, node: &Node, name: &str) -> Metadata {
    let taken = Removal { cordon: releases_cordon(cluster, node, name), records: true, updated: true };
    take_off(cluster, node, &owned(cluster, name), taken)
}

/// Cleans a node as the operator does once a custom resource is deleted, in one patch.
///
/// No owner remains to release the cordon, so it is removed, unless another owner holds the node too. A
/// readable node state with packages stays, together with its version: it records that files may still be on
/// the host. `purge` removes it as well. Keys that the operator has adopted are only a copy, and are removed.
pub fn clean(cluster: &Cluster, node: &Node, owners: &[Owner<'_>], purge: bool) -> Metadata {
    let updated = !cluster.operator().is_absent() && cluster.operator().may_write();
    let taken = Removal { cordon: true, records: purge, updated };
    take_off(cluster, node, owners, taken)
}

/// A custom resource, and the API whose key prefix its data has.
pub type Owner<'a> = (ApiFlavor, &'a str);

/// The custom resource with every key prefix that the operator reads: that of the active API, and for the
/// newer API also the older prefix, whose data the operator adopts.
pub fn owned<'a>(cluster: &Cluster, name: &'a str) -> Vec<Owner<'a>> {
    let active_api = cluster.flavor();
    let older = (active_api == ApiFlavor::NodeWright).then_some(ApiFlavor::Skyhook);
    std::iter::once(active_api).chain(older).map(|flavor| (flavor, name)).collect()
}

/// The keys to remove beyond status and drain.
#[derive(Debug, Clone, Copy)]
struct Removal {
    /// Whether to remove the cordon and its annotation.
    cordon: bool,
    /// Whether to remove the records of packages; empty and malformed records are always removed.
    records: bool,
    /// Whether the operator updates the values of an existing custom resource. Otherwise a changed value is of
    /// another owner, and is kept.
    updated: bool,
}

fn take_off(cluster: &Cluster, node: &Node, owners: &[Owner<'_>], taken: Removal) -> Metadata {
    let active_api = cluster.flavor();
    let mut change = Metadata::default();
    let mut holds = false;
    for (flavor, name) in owners {
        if let Some(on) = node.keys(*flavor).of(name) {
            // Older keys are only a copy if an existing owner has adopted them: the owner maintains its own
            // keys and cordon.
            let adopted = cluster.skyhook(name).is_some() && cluster.migration().is_adopted(node, name);
            let copy = adopted && !owners.contains(&(active_api, name));
            let records = taken.records || copy;
            let updated = taken.updated && cluster.skyhook(name).is_some();
            change = take_keys(change, *flavor, name, on, Removal { records, updated, ..taken });
            holds |= on.cordon && !copy;
        }
    }
    let released = taken.cordon && holds && node.cordoned() == Some(true);
    if released && cluster.other_cordons(node, owners).is_empty() {
        change = change.uncordoned(node);
    }
    change
}

/// The annotations that record packages of a custom resource, without empty and malformed annotations.
fn records(on: &NodeRecord) -> BTreeSet<&str> {
    let Some(state) = &on.state else {
        return BTreeSet::new();
    };
    let mut keys: BTreeSet<&str> =
        state.entries().iter().filter_map(|entry| Some(state.annotation_of(&entry.key)?.0)).collect();
    for malformed in state.malformed() {
        keys.remove(malformed.annotation.as_str());
    }
    keys
}

/// Whether [`clean`] without `purge` leaves the record of packages on a node.
pub fn is_recorded(on: &NodeRecord) -> bool {
    !records(on).is_empty()
}

/// Removes the conditions of custom resources from a node; `None` if there are no such conditions.
///
/// Conditions are part of the status, and need their own request.
pub fn without_conditions(node: &Node, owners: &[Owner<'_>]) -> Option<Change> {
    let prefixes: Vec<String> =
        owners.iter().map(|(flavor, name)| format!("{}/", flavor.key(name))).collect();
    let remove: Vec<serde_json::Value> = node
        .conditions()
        .iter()
        .filter(|c| prefixes.iter().any(|prefix| c.kind.starts_with(prefix)))
        .map(|c| {
            json!({
                "type": c.kind,
                "status": c.status,
                "reason": c.reason,
                "message": c.message,
                "lastTransitionTime": c.last_transition_time.map(|t| t.to_string()),
            })
        })
        .collect();
    let restore = Vec::new();
    (!remove.is_empty()).then_some(Change::Conditions { remove, restore })
}

fn take_keys(
    mut change: Metadata,
    flavor: ApiFlavor,
    name: &str,
    on: &NodeRecord,
    taken: Removal,
) -> Metadata {
    let kept = if taken.records { BTreeSet::new() } else { records(on) };
    if let Some(state) = &on.state {
        for (key, text) in state.annotations().filter(|(key, _)| !kept.contains(key)) {
            let unreadable = state.malformed().iter().any(|m| m.annotation == key);
            let fails = unreadable || !taken.updated;
            let on_conflict = if fails { OnConflict::Fail } else { OnConflict::IfStillFailing };
            change = change.annotation(key, Edit::new(Some(text), None).on_conflict(on_conflict));
        }
    }
    let status = keys::status(flavor, name);
    let on_conflict = if taken.updated { OnConflict::Overwrite } else { OnConflict::Fail };
    let follows = |value: &str| Edit::new(Some(value), None).on_conflict(on_conflict.clone());
    if let Some(value) = &on.status {
        change = change.annotation(&status, follows(value.as_str()));
    }
    if let Some(value) = &on.status_label {
        change = change.label(&status, follows(value.as_str()));
    }
    let version = on.version.as_ref().filter(|_| kept.is_empty());
    for (kind, value) in [
        ("version", version),
        ("drainStart", on.drain_start.as_ref()),
        ("drainBlocked", on.drain_blocked.as_ref()),
    ] {
        if let Some(value) = value {
            change = change.annotation(flavor.key(&format!("{kind}_{name}")), follows(value));
        }
    }
    if let Some(value) = on.cordon_value.as_ref().filter(|_| taken.cordon) {
        change = change.annotation(keys::cordon(flavor, name), follows(value));
    }
    change
}

/// Sets the operator's status of a custom resource on a node, and its label.
///
/// Only the status `in_progress` overwrites a concurrent write by the operator: with this status, the
/// operator chooses the node.
pub fn status(flavor: ApiFlavor, name: &str, on: &NodeRecord, to: &Status) -> Metadata {
    let key = keys::status(flavor, name);
    let on_conflict = || match to {
        Status::InProgress => OnConflict::Overwrite,
        _ => OnConflict::KeepLive,
    };
    let set = |from: Option<&Status>| {
        Edit::new(from.map(Status::as_str), Some(to.as_str())).on_conflict(on_conflict())
    };
    let mut change = Metadata::default();
    if on.status.as_ref() != Some(to) {
        change = change.annotation(&key, set(on.status.as_ref()));
    }
    if let Some(label) = on.status_label.as_ref().filter(|l| *l != to) {
        change = change.label(&key, set(Some(label)));
    }
    change
}

/// Adds the removal of the status `in_progress` of a custom resource, and of its label.
pub fn without_progress(mut change: Metadata, flavor: ApiFlavor, name: &str, on: &NodeRecord) -> Metadata {
    let key = keys::status(flavor, name);
    let removal = |status: &Status| Edit::new(Some(status.as_str()), None).on_conflict(OnConflict::KeepLive);
    let in_progress = |status: &&Status| **status == Status::InProgress;
    if let Some(status) = on.status.as_ref().filter(in_progress) {
        change = change.annotation(&key, removal(status));
    }
    if let Some(status) = on.status_label.as_ref().filter(in_progress) {
        change = change.label(&key, removal(status));
    }
    change
}

/// Whether the cordon of a custom resource is an orphan: its owner no longer exists, or no longer selects the
/// node.
pub fn releases_cordon(cluster: &Cluster, node: &Node, name: &str) -> bool {
    let selects = |skyhook: &Skyhook| skyhook.selects(node);
    // Custom resources that cannot be read may exist.
    cluster.skyhooks.ok().is_some() && !cluster.skyhook(name).is_some_and(selects)
}

/// The change that removes the runtime-required taint from a node; `None` if the node has no such taint.
pub fn without_taint(cluster: &Cluster, node: &Node) -> Option<Change> {
    let taint = cluster.runtime_required().on(node)?;
    let rest = node.taints().iter().filter(|t| *t != taint);
    Some(Change::Taints {
        from: node.taints().iter().map(Taint::document).collect(),
        to: rest.map(Taint::document).collect(),
    })
}

/// Removes entries from a node state and keeps all others.
pub fn remove_entries(state: &NodeState, entries: &[String]) -> Metadata {
    edit(state, entries.iter().map(|entry| (entry.as_str(), None)))
}

/// Moves entries of a node state to a stage and state.
pub fn moved(state: &NodeState, entries: &[String], stage: &Stage, to: &State) -> Metadata {
    edit(state, entries.iter().map(|entry| (entry.as_str(), Some((stage, to)))))
}

/// Adds an entry to a node state, which may not exist yet; `text` is the entry as JSON.
pub fn added(
    state: Option<&NodeState>,
    annotation: &str,
    entry: &str,
    stage: &Stage,
    to: &State,
    text: &str,
) -> Metadata {
    let now = state.and_then(|s| s.annotations().find(|(key, _)| *key == annotation)).map(|(_, text)| text);
    let one = Move {
        entry: entry.to_owned(),
        from: None,
        to: Some(At { stage: stage.clone(), state: to.clone(), text: text.to_owned() }),
        onward: false,
        retried: false,
    };
    Metadata::default().annotation(annotation, Edit::moving(annotation, now, vec![one]))
}

fn edit<'a>(
    state: &NodeState,
    wanted: impl Iterator<Item = (&'a str, Option<(&'a Stage, &'a State)>)>,
) -> Metadata {
    let mut moves: BTreeMap<&str, (&str, Vec<Move>)> = BTreeMap::new();
    for (key, to) in wanted {
        let Some(entry) = state.entry(key) else {
            continue;
        };
        let from = At::of(state, entry);
        let to = to.map(|(stage, to)| At { stage: stage.clone(), state: to.clone(), ..from.clone() });
        let (annotation, text) = state.annotation_of(key).expect("the state has the entry");
        let one = Move { entry: key.to_owned(), from: Some(from), onward: to.is_none(), retried: false, to };
        moves.entry(annotation).or_insert((text, Vec::new())).1.push(one);
    }
    let edits = moves.into_iter().map(|(annotation, (text, moves))| {
        (annotation.to_owned(), Edit::moving(annotation, Some(text), moves))
    });
    Metadata { annotations: edits.collect(), ..Metadata::default() }
}

/// Maximum wait for the deletion of the old object, in seconds.
const AT_MOST: u64 = 60;
/// Maximum wait for the operator to see the new object, in seconds.
const SEEN_WITHIN: u64 = 20;
/// The annotation for the reason of the recreation.
const REASON: &str = "kubectl-skyhook/undelete-reason";

/// A custom resource that is recreated.
pub struct Recreation<'a> {
    cluster: &'a Cluster,
    flavor: ApiFlavor,
    /// The new custom resource, with the status of the old one.
    pub skyhook: Skyhook,
    object: Value,
    stages: Vec<PlanStage>,
    /// The end of our pause, which is on the old object or on the new one.
    release: Option<Hold>,
    pub consequences: Consequences,
}

impl<'a> Recreation<'a> {
    /// # Errors
    ///
    /// The saved object is not a custom resource.
    pub fn of(cluster: &'a Cluster, was: &Value, reason: Option<&str>) -> Result<Recreation<'a>> {
        let flavor = cluster.flavor();
        let mut was = was.clone();
        was["apiVersion"] = json!(flavor.api_version());
        was["kind"] = json!(flavor.kind());
        // The new object is not being deleted.
        if let Some(metadata) = was["metadata"].as_object_mut() {
            metadata.shift_remove("deletionTimestamp");
        }
        let skyhook: Skyhook = serde_json::from_value(was.clone())
            .map_err(|e| Error::failed(format!("the saved object cannot be read: {e}")))?;
        let mut object = as_new(&was);
        if let Some(reason) = reason {
            object["metadata"]["annotations"][REASON] = json!(reason);
        }
        Ok(Recreation {
            cluster,
            flavor,
            skyhook,
            object,
            stages: Vec::new(),
            release: None,
            consequences: Consequences::default(),
        })
    }

    fn purpose(&self) -> String {
        format!("undelete {}", self.skyhook.name())
    }

    fn target(&self, uid: Option<&str>) -> Target {
        Target::skyhook(self.flavor, self.skyhook.name(), uid)
    }

    /// Adds steps that restore the keys removed from nodes. The wait of the creation relies on these steps: the
    /// operator must not see the new object before the keys are restored.
    pub fn restore(&mut self, steps: &[Step]) {
        let mut gone: Vec<&str> = Vec::new();
        let mut kept = Vec::new();
        for step in steps {
            let node = self.cluster.node(&step.target.name);
            let same =
                |n: &&Node| step.target.uid.is_none() || step.target.uid.as_deref() == n.uid.as_deref();
            match node.filter(same) {
                Some(_) => kept.push(step.clone()),
                None => gone.push(&step.target.name),
            }
        }
        if !gone.is_empty() {
            self.consequences.warn(format!(
                "data removed from deleted or replaced nodes is not restored: {}",
                some_nodes(gone)
            ));
        }
        if !kept.is_empty() {
            self.stages.push(PlanStage::of(kept));
        }
    }

    /// Pauses the old object if the operator may act on it, removes the operator's finalizer, and waits until
    /// the object is deleted.
    pub fn let_go(&mut self, old: &Skyhook, no_pause: bool) {
        if !no_pause && pause_guard::acts(self.cluster, old) {
            let [pause, _] = pause_guard::ends(self.cluster, old, &self.purpose());
            let [_, release] = pause_guard::pair(self.cluster, old, &self.purpose());
            self.stages.push(pause);
            self.release = Some(release);
        }
        let target = self.target(old.metadata.uid.as_deref());
        let entry = self.flavor.finalizer();
        let mut all = old.metadata.finalizers.iter();
        if let Some(index) = all.position(|f| *f == entry) {
            let change = Change::Finalizer { entry, index, was: Some(Box::new(old.whole.clone())) };
            let why = "the old object must be gone before the new one is created";
            let removal = PlanStage::of(vec![Step::new(target.clone(), change, why)]);
            self.stages.push(removal.awaiting(target, Condition::Gone, AT_MOST));
        }
        self.consequences.warn(format!(
            "Kubernetes cannot cancel a deletion, so {old} is removed and immediately recreated"
        ));
        let package_runs = self.cluster.package_runs();
        let at_work = package_runs.all().iter().filter(|run| run.skyhook == old.name() && run.alive());
        let nodes = some_nodes(at_work.map(|run| run.node));
        if !nodes.is_empty() {
            self.consequences.warn(format!(
                "package pods are running on {nodes}: removing the old object kills them while they modify the hosts"
            ));
        }
    }

    /// Removes the status `in_progress` from nodes: the operator would work on all of them at once. A pause of
    /// the old object has replaced this status.
    pub fn clear_progress(&mut self) {
        if self.release.is_some() {
            return;
        }
        let name = self.skyhook.name();
        let mut steps = Vec::new();
        for node in self.cluster.nodes.iter().filter(|node| self.skyhook.selects(node)) {
            let mut change = Metadata::default();
            for (flavor, name) in node::owned(self.cluster, name) {
                if let Some(on) = node.keys(flavor).of(name) {
                    change = node::without_progress(change, flavor, name, on);
                }
            }
            if !change.is_empty() {
                let why = "otherwise the operator works on all nodes with this status at once";
                steps.push(Step::new(Target::of_node(node), Change::Metadata(change), why));
            }
        }
        if !steps.is_empty() {
            self.stages.push(PlanStage::of(steps));
        }
    }

    /// Creates the new object, with the part of the status that the operator cannot derive again.
    pub fn make(&mut self) {
        let target = self.target(None);
        let create = |object: Value, condition: Condition| {
            let change = Change::Create(Box::new(object));
            let creation =
                PlanStage::of(vec![Step::new(target.clone(), change, "restores the saved object")]);
            creation.awaiting(target.clone(), condition, SEEN_WITHIN)
        };
        // Without `configUpdates` in the status, packages with only a changed configuration would be
        // interrupted again.
        let updates = self.skyhook.whole["status"]["configUpdates"].clone();
        if updates.as_object().is_none_or(|updates| updates.is_empty()) {
            self.stages.push(create(self.object.clone(), Condition::Exists));
            return;
        }
        let status = |field: Field| {
            let why = "otherwise packages whose configuration has changed would run their interrupts again";
            PlanStage::of(vec![Step::new(target.clone(), Change::Status(vec![field]), why)])
        };
        if !self.cluster.operator().may_write() {
            let status_alone = json!({"configUpdates": updates});
            let field = Field::new(["status"], None, Some(status_alone));
            self.stages.push(create(self.object.clone(), Condition::Exists));
            self.stages.push(status(field));
            return;
        }
        // Create the object paused: the operator then writes the rest of the status, and starts nothing yet.
        let mut held = self.object.clone();
        if pause_guard::acts(self.cluster, &self.skyhook) {
            let key = self.flavor.key("pause");
            let annotations = |key: &str| self.object["metadata"]["annotations"][key].as_str();
            let [hold, end] = Hold::around(&key, &self.purpose(), annotations, None);
            hold.mark(&mut held);
            self.release = Some(end);
        }
        let field = Field::new(["status", "configUpdates"], None, Some(updates));
        self.stages.push(create(held, Condition::Seen));
        self.stages.push(status(field.with_any_old_value()));
    }

    pub fn plan(mut self, title: String) -> Plan {
        if let Some(end) = self.release.take() {
            let end = pause_guard::end(self.target(None), end);
            self.stages.push(end);
        }
        let (cluster, skyhook) = (self.cluster, &self.skyhook);
        let mut consequences = self.consequences;
        consequences.warn(
            "the uid, status and batch state are not preserved; packages that were not complete, or whose uninstall had started, \
             run again (see the effects)",
        );
        let policy = &skyhook.spec.deployment_policy;
        let policies = cluster.policies.items();
        if !policy.is_empty()
            && cluster.policies.absence() == Certainty::Proven
            && policies.iter().all(|p| p.metadata.name != *policy)
        {
            consequences.warn(format!(
                "deployment policy {policy} is gone: the operator rejects a custom resource that refers \
                 to it"
            ));
        }
        Plan { stages: self.stages, consequences, ..Plan::new(title, skyhook.name()) }
    }
}

/// Warns about custom resources whose change a GitOps tool would revert, and names the source to edit
/// instead. Such a change edits the spec, or deletes, releases or recreates the custom resource.
pub fn warn(cluster: &Cluster, plan: &mut Plan) {
    let flavor = cluster.flavor();
    warn_by(plan, |target| {
        let ours = target.kind == flavor.into();
        Some(cluster.skyhook(&target.name).filter(|_| ours)?.metadata.clone())
    });
}

/// [`warn`], from the metadata of the objects themselves.
pub fn warn_of(plan: &mut Plan, objects: &[(Target, Value)]) {
    warn_by(plan, |target| {
        let (_, metadata) = objects.iter().find(|(of, _)| of.same_object_name(target))?;
        serde_json::from_value(metadata.clone()).ok()
    });
}

fn warn_by(plan: &mut Plan, metadata: impl Fn(&Target) -> Option<Meta>) {
    let steps = plan.steps().filter(|step| step.target.kind.is_custom());
    let warnings: Vec<String> = steps.filter_map(|step| warning(plan, step, &metadata)).collect();
    for warning in warnings {
        plan.consequences.warn(warning);
    }
}

fn warning(plan: &Plan, step: &Step, metadata: &impl Fn(&Target) -> Option<Meta>) -> Option<String> {
    let meta = match &step.change {
        Change::Create(object) => serde_json::from_value(object["metadata"].clone()).ok()?,
        // The plan recreates the object.
        change if change.removes() && plan.changes(&step.target, Change::creates) => return None,
        Change::Spec(_) | Change::Finalizer { .. } | Change::Delete { .. } => metadata(&step.target)?,
        _ => return None,
    };
    let applier = Applier::of(&meta, step.target.kind.kind())?;
    let then = match step.change {
        Change::Spec(_) => applier.on_edits(),
        Change::Create(_) => applier.on_creation(),
        _ => applier.on_deletion(),
    };
    Some(format!("{} is applied by {}: {then}", step.target, applier.name()))
}
