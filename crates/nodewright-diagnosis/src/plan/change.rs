//! The kinds of changes to an object, as data: displayed, sent, simulated and inverted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::edit::{Rebased, lookup, normalise, pointer, test};
use super::fields::{self, Field};
use super::hold::{self, Hold};
use super::metadata::{self, Metadata};
use super::precondition::{check, is_deleting};
use super::step::is_as_made;
use super::{Edit, Guard, Kind, Step, Target, step};
use crate::api::skyhook::{BatchState, SkyhookStatus};
use crate::api::{DeploymentPolicy, Skyhook};
use crate::cluster::node::Taint;
use crate::cluster::{Cluster, NodeEdit, decode_leniently};

/// One change of one object, made by one request.
///
/// A change contains the replaced values, from which its guard, description and inverse are derived.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Change {
    /// Annotations and labels of any object, and the cordon of a node.
    Metadata(Metadata),
    /// Pauses a custom resource while the plan is applied.
    Hold(Hold),
    /// Ends the pause of a [`Change::Hold`].
    Release(Hold),
    /// Fields of a custom resource's spec.
    Spec(Vec<Field>),
    /// Fields of a custom resource's status.
    Status(Vec<Field>),
    /// Removes one finalizer from a custom resource; all others stay.
    Finalizer {
        entry: String,
        index: usize,
        /// The object right before the change, for undo: the object is deleted with its last finalizer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        was: Option<Box<Value>>,
    },
    /// Replaces the whole list of a node's taints.
    Taints { from: Vec<Value>, to: Vec<Value> },
    /// Removes or restores whole node conditions.
    Conditions { remove: Vec<Value>, restore: Vec<Value> },
    /// Deletes the object. `was` is the object for undo, set when it is read right before the deletion;
    /// `None` for kinds that are not recreated.
    Delete { was: Option<Box<Value>> },
    /// Creates the object.
    Create(Box<Value>),
}

/// Content type and body of the request for a change.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    pub content_type: &'static str,
    pub body: Value,
}

/// The kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    Create,
    Delete,
    Patch,
}

const JSON: &str = "application/json";
const JSON_PATCH: &str = "application/json-patch+json";
/// Content type of a patch that merges lists by key and can remove single items. Custom resources do not
/// support it.
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const UID: &str = "/metadata/uid";

impl Change {
    /// Preview lines for the change.
    pub fn describe(&self) -> Vec<String> {
        match self {
            Change::Metadata(metadata) => metadata.describe(),
            Change::Hold(hold) | Change::Release(hold) => hold.describe(),
            Change::Spec(fields) | Change::Status(fields) => fields::describe(fields),
            Change::Finalizer { entry, .. } => vec![format!("remove finalizer {entry}")],
            Change::Conditions { remove, restore } => {
                let line = |verb: &str, c: &Value| format!("{verb} condition {}", kind_of(c));
                let removed = remove.iter().map(|c| line("remove", c));
                removed.chain(restore.iter().map(|c| line("restore", c))).collect()
            }
            Change::Taints { from, to } => metadata::describe(from, to),
            Change::Delete { .. } => vec!["delete".to_owned()],
            Change::Create(_) => vec!["create".to_owned()],
        }
    }

    /// The verb and subresource of the request.
    pub fn endpoint(&self) -> (Verb, Option<&'static str>) {
        match self {
            Change::Metadata(_)
            | Change::Hold(_)
            | Change::Release(_)
            | Change::Spec(_)
            | Change::Taints { .. }
            | Change::Finalizer { .. } => (Verb::Patch, None),
            Change::Status(_) | Change::Conditions { .. } => (Verb::Patch, Some("status")),
            Change::Delete { .. } => (Verb::Delete, None),
            Change::Create(_) => (Verb::Create, None),
        }
    }

    /// The request for the change. JSON patches test all preconditions. Patches of conditions and deletions
    /// test only the uid, creations nothing.
    pub fn request(&self, target: &Target, guard: &Guard) -> Request {
        let patch = |operations| (JSON_PATCH, guarded(target, guard, operations));
        let (content_type, body) = match self {
            Change::Metadata(metadata) => patch(metadata.operations()),
            Change::Hold(hold) | Change::Release(hold) => patch(hold.operations()),
            Change::Spec(fields) | Change::Status(fields) => patch(fields::operations(fields)),
            Change::Taints { from, to } => patch(fields::operations(&[metadata::taints(from, to)])),
            Change::Finalizer { entry, index, .. } => {
                let at = finalizer(*index);
                let remove = json!({"op": "remove", "path": at});
                patch(vec![test(&at, json!(entry)), remove])
            }
            Change::Conditions { remove, restore } => {
                let gone = remove.iter().map(|c| json!({"type": kind_of(c), "$patch": "delete"}));
                let conditions: Vec<Value> = gone.chain(restore.iter().cloned()).collect();
                let mut body = json!({"status": {"conditions": conditions}});
                if let Some(uid) = &target.uid {
                    // The server answers 409 if the object has another uid.
                    body["metadata"] = json!({"uid": uid});
                }
                (STRATEGIC, body)
            }
            Change::Delete { .. } => {
                let mut body = json!({"propagationPolicy": "Background"});
                if let Some(uid) = &target.uid {
                    body["preconditions"] = json!({"uid": uid});
                }
                (JSON, body)
            }
            Change::Create(object) => (JSON, (**object).clone()),
        };
        Request { content_type, body }
    }

    /// Simulates the server's change to the object; null is no object.
    ///
    /// # Errors
    ///
    /// The first value that differs from the expected one. The object is unchanged then.
    pub fn apply_to(&self, object: &mut Value) -> Result<(), String> {
        check(object, &self.tests())?;
        self.write(object);
        Ok(())
    }

    /// [`Change::apply_to`] without checking the earlier values.
    pub(super) fn write(&self, object: &mut Value) {
        match self {
            Change::Metadata(metadata) => metadata.write(object),
            Change::Hold(hold) | Change::Release(hold) => hold.edits().write(object),
            Change::Spec(fields) | Change::Status(fields) => fields::write(fields, object),
            Change::Finalizer { entry, .. } => {
                if let Some(list) = list_mut(object, "/metadata/finalizers")
                    && let Some(index) = list.iter().position(|item| *item == json!(entry))
                {
                    list.remove(index);
                }
                let last = lookup(object, "/metadata/finalizers")
                    .and_then(Value::as_array)
                    .is_none_or(Vec::is_empty);
                if last && is_deleting(object) {
                    *object = Value::Null;
                }
            }
            Change::Taints { from, to } => fields::write(&[metadata::taints(from, to)], object),
            Change::Conditions { remove, restore } => {
                if let Some(list) = list_mut(object, "/status/conditions") {
                    let named =
                        |c: &Value, among: &[Value]| among.iter().any(|other| kind_of(other) == kind_of(c));
                    list.retain(|c| !named(c, remove) && !named(c, restore));
                    list.extend(restore.iter().cloned());
                }
            }
            Change::Delete { .. } => *object = Value::Null,
            Change::Create(made) => *object = (**made).clone(),
        }
        normalise(object);
    }

    /// The change that reverts this one; `None` if it cannot be reverted.
    pub fn inverse(&self) -> Option<Change> {
        Some(match self {
            Change::Metadata(metadata) => Change::Metadata(metadata.inverse()),
            Change::Hold(hold) => Change::Release(hold.inverse()),
            Change::Release(hold) => Change::Hold(hold.inverse()),
            Change::Spec(fields) => Change::Spec(fields::inverse(fields)),
            Change::Status(fields) => Change::Status(fields::inverse(fields)),
            Change::Conditions { remove, restore } => {
                Change::Conditions { remove: restore.clone(), restore: remove.clone() }
            }
            Change::Taints { from, to } => Change::Taints { from: to.clone(), to: from.clone() },
            // With other finalizers, the object was not deleted by this change.
            Change::Finalizer { was, .. } => {
                let was = was.as_deref().filter(|was| step::held_by_one(was))?;
                Change::Create(Box::new(step::as_new(was)))
            }
            Change::Delete { was } => Change::Create(was.clone()?),
            Change::Create(made) => {
                let mut made = made.clone();
                hold::strip(&mut made);
                Change::Delete { was: Some(made) }
            }
        })
    }

    /// Rebases the change onto the current object; null is no object.
    pub fn rebase(&self, object: &Value) -> Rebased<Change> {
        fn wrap<T>(rebased: Rebased<T>, change: impl Fn(T) -> Change) -> Rebased<Change> {
            match rebased {
                Rebased::Same(inner) => Rebased::Same(change(inner)),
                Rebased::Done => Rebased::Done,
                Rebased::Moved(why) => Rebased::Moved(why),
            }
        }
        match self {
            // Skip an object that is already being deleted: undo would recreate it.
            Change::Delete { .. } if object.is_null() || is_deleting(object) => Rebased::Done,
            Change::Finalizer { .. } if object.is_null() => Rebased::Done,
            Change::Create(_) if object.is_null() => Rebased::Same(self.clone()),
            Change::Create(_) if is_deleting(object) => {
                Rebased::Moved("it still exists, and is being deleted".to_owned())
            }
            Change::Create(made) if is_as_made(object, made) => Rebased::Done,
            Change::Create(_) => Rebased::Moved("another object with that name exists".to_owned()),
            _ if object.is_null() => Rebased::Moved("it no longer exists".to_owned()),
            Change::Metadata(metadata) => wrap(metadata.rebase(object), Change::Metadata),
            Change::Hold(hold) => wrap(hold.rebase(object), Change::Hold),
            Change::Release(hold) => wrap(hold.rebase_end(object), Change::Release),
            Change::Spec(fields) => wrap(fields::rebase(fields, object), Change::Spec),
            Change::Status(fields) => wrap(fields::rebase(fields, object), Change::Status),
            Change::Finalizer { entry, .. } => {
                let list = lookup(object, "/metadata/finalizers").and_then(Value::as_array);
                match list.and_then(|l| l.iter().position(|f| f == entry)) {
                    Some(index) => Rebased::Same(Change::Finalizer {
                        entry: entry.clone(),
                        index,
                        was: Some(Box::new(object.clone())),
                    }),
                    None => Rebased::Done,
                }
            }
            Change::Taints { from, to } => {
                wrap(metadata::rebase(from, to, object), |(from, to)| Change::Taints { from, to })
            }
            Change::Conditions { .. } => {
                let mut after = object.clone();
                match self.apply_to(&mut after) {
                    Ok(()) if after == *object => Rebased::Done,
                    _ => Rebased::Same(self.clone()),
                }
            }
            Change::Delete { .. } => Rebased::Same(self.clone()),
        }
    }

    /// The change combined with an earlier form that may have been executed: undo has to revert both.
    pub fn and_sent(&self, sent: &Change) -> Change {
        match (self, sent) {
            (Change::Metadata(now), Change::Metadata(sent)) => Change::Metadata(now.and_sent(sent)),
            (Change::Spec(now), Change::Spec(sent)) => Change::Spec(fields::and_sent(now, sent)),
            (Change::Status(now), Change::Status(sent)) => Change::Status(fields::and_sent(now, sent)),
            _ => self.clone(),
        }
    }

    /// Whether the change has an effect on the operator.
    pub fn has_effect(&self) -> bool {
        match self {
            Change::Spec(fields) | Change::Status(fields) => fields::have_effect(fields),
            _ => true,
        }
    }

    /// Writes the holder into the change, if it sets or ends a pause or creates a paused object.
    pub fn sign(&mut self, holder: &str) {
        match self {
            Change::Hold(hold) => hold.sign(holder, false),
            Change::Release(hold) => hold.sign(holder, true),
            Change::Create(object) => hold::sign_made(object, holder),
            _ => {}
        }
    }

    /// Why the current value is kept instead of restored.
    pub fn left_to_another(&self, object: &Value) -> Option<String> {
        match self {
            Change::Release(hold) if hold.is_paused(object) => Some("paused by someone else".to_owned()),
            _ => None,
        }
    }

    /// Whether the change makes a node schedulable.
    pub fn uncordons(&self) -> bool {
        matches!(self, Change::Metadata(metadata) if metadata.uncordons())
    }

    /// Whether the change begins a pause.
    pub fn holds(&self) -> bool {
        matches!(self, Change::Hold(_))
    }

    pub fn creates(&self) -> bool {
        matches!(self, Change::Create(_))
    }

    /// Whether the change deletes the object, or lets its deletion finish.
    pub fn removes(&self) -> bool {
        matches!(self, Change::Delete { .. } | Change::Finalizer { .. })
    }

    /// The change that ends exactly this pause; `None` if this is no pause or has no holder yet.
    pub fn end(&self) -> Option<Change> {
        match self {
            Change::Hold(hold) => Some(Change::Release(hold.end_of_itself()?)),
            _ => None,
        }
    }

    /// Whether the change begins or ends a pause, which only protects other changes.
    pub fn is_hold(&self) -> bool {
        matches!(self, Change::Hold(_) | Change::Release(_))
    }

    /// The old values that the change relies on, by pointer; null for absent.
    fn tests(&self) -> BTreeMap<String, Value> {
        match self {
            Change::Metadata(metadata) => metadata.tests(),
            Change::Hold(hold) | Change::Release(hold) => hold.tests().into_iter().collect(),
            Change::Spec(fields) | Change::Status(fields) => fields::tests(fields),
            Change::Taints { from, to } => fields::tests(&[metadata::taints(from, to)]),
            Change::Finalizer { entry, index, .. } => BTreeMap::from([(finalizer(*index), json!(entry))]),
            Change::Conditions { .. } | Change::Delete { .. } => BTreeMap::new(),
            Change::Create(_) => BTreeMap::from([(String::new(), Value::Null)]),
        }
    }
}

/// Prepends tests of the uid and the guard to the operations.
fn guarded(target: &Target, guard: &Guard, operations: Vec<Value>) -> Value {
    let uid = target.uid.iter().map(|uid| test(UID, json!(uid)));
    let guards = guard.values.iter().map(|(p, v)| test(p, v.clone()));
    uid.chain(guards).chain(operations).collect()
}

fn finalizer(index: usize) -> String {
    pointer(&["metadata", "finalizers", &index.to_string()])
}

fn kind_of(condition: &Value) -> &str {
    condition["type"].as_str().unwrap_or_default()
}

fn list_mut<'a>(object: &'a mut Value, pointer: &str) -> Option<&'a mut Vec<Value>> {
    object.pointer_mut(pointer).and_then(Value::as_array_mut)
}

/// Applies a step to the simulated cluster. `waited`: an earlier stage waits for the operator. Removals of
/// packages from the spec are then skipped, because their uninstall is the effect to show, and deletions of policies,
/// because their custom resources still exist in the simulation.
pub(super) fn carry_out(after: &mut Cluster, step: &Step, waited: bool) {
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
            // While it holds, the operator adopts no custom resource.
            let holds = after.migration().holding().next().is_some();
            let Some(skyhooks) = after.skyhooks.available_mut() else {
                return;
            };
            match &step.change {
                Change::Delete { .. } => {
                    // The operator adds its finalizer to a custom resource that it has not seen yet.
                    let stays = |s: &Skyhook| !s.metadata.finalizers.is_empty() || s.is_untouched() && !holds;
                    skyhooks.retain(|s| s.name() != target.name || stays(s));
                    skyhooks
                        .iter_mut()
                        .filter(|s| s.name() == target.name)
                        .for_each(|s| s.metadata.deletion_timestamp = Some(taken_at));
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
        kind if kind == after.flavor().other().into() => {
            // The newer operator removes the finalizer of the older API in its first reconcile.
            if let (Change::Delete { .. }, Some(older)) = (&step.change, after.legacy.available_mut()) {
                older.retain(|skyhook| skyhook.name() != target.name);
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
        Change::Metadata(metadata) => Some(NodeEdit {
            annotations: values(&metadata.annotations),
            labels: values(&metadata.labels),
            unschedulable: metadata.unschedulable,
            taints: None,
        }),
        Change::Taints { to, .. } => {
            let taints: Vec<Taint> = serde_json::from_value(json!(to)).ok()?;
            Some(NodeEdit { taints: Some(taints), ..NodeEdit::default() })
        }
        _ => None,
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
    let mut edited = decode_leniently::<Skyhook>((!object.is_null()).then_some(object)?).ok()?;
    let changed = edited.whole["spec"] != live.whole["spec"];
    edited.metadata.generation = live.metadata.generation + i64::from(changed);
    edited.status = live.status.clone();
    // A condition of the current generation shows what the operator supports; the edit does not change that.
    for condition in &mut edited.status.conditions {
        if condition.observed_generation == Some(live.metadata.generation) {
            condition.observed_generation = Some(edited.metadata.generation);
        }
    }
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
