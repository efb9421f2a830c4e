//! Changes to the operator's keys on a node.

use std::collections::BTreeSet;

use serde_json::json;

use crate::api::{ApiFlavor, NodeState, Stage, State, Status, keys};
use crate::cluster::node::Taint;
use crate::cluster::{Cluster, Node, NodeRecord};
use crate::plan::planners::pause_guard::away;
use crate::plan::{At, Change, Edit, Metadata, Move, OnConflict};

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
    let updated = !cluster.operator_absent() && !away(cluster);
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
    let all = std::iter::once(active_api).chain(older);
    all.map(|flavor| (flavor, name)).collect()
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
            let adopted = cluster.skyhook(name).is_some() && cluster.is_adopted(node, name);
            let copy = adopted && !owners.contains(&(active_api, name));
            let records = taken.records || copy;
            let updated = taken.updated && cluster.skyhook(name).is_some();
            change = take_keys(change, *flavor, name, on, Removal { records, updated, ..taken });
            holds |= on.cordon && !copy;
        }
    }
    let released = taken.cordon && holds && node.cordoned() == Some(true);
    if released && !cluster.cordoned_for_others(node, owners) {
        change = change.uncordoned(node);
    }
    change
}

/// The annotations that record packages of a custom resource, without empty and malformed annotations.
fn records(on: &NodeRecord) -> BTreeSet<&str> {
    let Some(state) = &on.state else {
        return BTreeSet::new();
    };
    let entries = state.entries().iter();
    let mut keys: BTreeSet<&str> =
        entries.filter_map(|entry| Some(state.annotation_of(&entry.key)?.0)).collect();
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
    let ours = node.conditions().iter().filter(|c| prefixes.iter().any(|prefix| c.kind.starts_with(prefix)));
    let remove: Vec<serde_json::Value> = ours
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
        let edit = Edit::new(from.map(Status::as_str), Some(to.as_str()));
        edit.on_conflict(on_conflict())
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
    match (cluster.skyhooks.ok(), cluster.skyhook(name)) {
        // Custom resources that cannot be read may exist.
        (None, _) => false,
        (Some(_), None) => true,
        (Some(_), Some(skyhook)) => !skyhook.spec.node_selectors.matches(&node.labels),
    }
}

/// The change that removes the runtime-required taint from a node; `None` if the node has no such taint.
pub fn without_taint(cluster: &Cluster, node: &Node) -> Option<Change> {
    let taint = cluster.runtime_required_taint(node)?;
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
    let now = state.and_then(|s| s.annotations().find(|(key, _)| *key == annotation));
    let now = now.map(|(_, text)| text);
    let one = Move {
        entry: entry.to_owned(),
        from: None,
        to: Some(At { stage: stage.clone(), state: to.clone(), text: text.to_owned() }),
        onward: false,
        retried: false,
    };
    let after = one.moved_text(annotation, now);
    let edit = Edit::new(now, after.as_deref()).on_conflict(OnConflict::MoveEntries(vec![one]));
    Metadata::default().annotation(annotation, edit)
}

fn edit<'a>(
    state: &NodeState,
    wanted: impl Iterator<Item = (&'a str, Option<(&'a Stage, &'a State)>)>,
) -> Metadata {
    let mut change = Metadata::default();
    for (key, to) in wanted {
        let Some(entry) = state.entry(key) else {
            continue;
        };
        let from = At::of(state, entry);
        let to = to.map(|(stage, to)| At { stage: stage.clone(), state: to.clone(), ..from.clone() });
        let (annotation, text) = state.annotation_of(key).expect("the state has the entry");
        // Both entries may be in one annotation: apply the second edit to the result of the first.
        let so_far = change.annotations.remove(annotation);
        let one = Move { entry: key.to_owned(), from: Some(from), onward: to.is_none(), retried: false, to };
        let (to, mut moves) = match so_far {
            None => (one.moved_text_in(annotation, state), Vec::new()),
            Some(edit) => {
                let to = one.moved_text(annotation, edit.to.as_deref());
                match edit.on_conflict {
                    OnConflict::MoveEntries(moves) => (to, moves),
                    _ => (to, Vec::new()),
                }
            }
        };
        moves.push(one);
        let edit = Edit::new(Some(text), to.as_deref());
        let edit = edit.on_conflict(OnConflict::MoveEntries(moves));
        change = change.annotation(annotation, edit);
    }
    change
}
