//! One request of a plan: its object, its change and its preconditions.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::edit::{lookup, normalise, set, state_of};
use super::fields;
use super::{
    Change, FIELD_MANAGER, Guard, Permission, Plan, PlanStage, Rebased, Request, Target, Verb, hold,
    some_nodes,
};
use crate::api::keys::NodeKey;
use crate::api::{ApiFlavor, Status};

const OWNERS: &str = "/metadata/ownerReferences";

/// One change of one object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// The object.
    pub target: Target,
    /// The change, in the form that `apply-plan` and `undo` read.
    #[schemars(with = "Value")]
    pub change: Change,
    /// Values that the object must have, by JSON pointer; null means that the field must be absent.
    #[serde(default)]
    #[schemars(with = "std::collections::BTreeMap<String, Value>")]
    pub guard: Guard,
    /// Why the step is needed, as shown in the preview.
    pub reason: String,
    /// Whether the step is unnecessary if the object no longer exists; absent if false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_be_gone: bool,
    /// Entries of node states that must stay removed, even if the operator writes its cached state back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stays_removed: Vec<RemovedEntry>,
}

/// An entry of a node state that a step removes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RemovedEntry {
    /// The key of the node-state annotation.
    pub annotation: String,
    /// The key of the entry, as `name|version`.
    pub entry: String,
}

impl Step {
    pub fn new(target: Target, change: Change, reason: impl Into<String>) -> Step {
        Step {
            target,
            change,
            guard: Guard::default(),
            reason: reason.into(),
            may_be_gone: false,
            stays_removed: Vec::new(),
        }
    }

    /// The field manager of the request. A restored cordon of somebody else is not this program's: later commands keep it.
    pub fn field_manager(&self) -> &'static str {
        match &self.change {
            Change::Metadata(metadata) if metadata.restores_foreign_cordon() => "kubectl-cordon",
            _ => FIELD_MANAGER,
        }
    }

    /// Marks the step as unnecessary once the object is deleted.
    pub fn may_be_gone(mut self) -> Step {
        self.may_be_gone = true;
        self
    }

    pub fn guard(mut self, guard: Guard) -> Step {
        self.guard = guard;
        self
    }

    pub fn stays_removed(mut self, entries: Vec<RemovedEntry>) -> Step {
        self.stays_removed = entries;
        self
    }

    /// The removed entries that are recorded on the object again; null is no object.
    pub fn written_back(&self, object: &Value) -> Vec<&str> {
        let is_back = |removed: &&RemovedEntry| {
            let key = removed.annotation.as_str();
            let text = object["metadata"]["annotations"][key].as_str();
            state_of(key, text).entry(&removed.entry).is_some()
        };
        self.stays_removed.iter().filter(is_back).map(|removed| removed.entry.as_str()).collect()
    }

    /// The custom resource whose deletion waits for the removed entries.
    pub fn owner_of_removed(&self) -> Option<Target> {
        let annotation = &self.stays_removed.first()?.annotation;
        ApiFlavor::ALL.into_iter().find_map(|flavor| match NodeKey::parse(flavor, annotation)? {
            NodeKey::NodeState { skyhook, .. } => Some(Target::skyhook(flavor, skyhook, None)),
            _ => None,
        })
    }

    /// The names of the custom resources that the step changes, or whose keys on a node it edits.
    pub fn custom_resources(&self) -> BTreeSet<&str> {
        if self.target.kind.is_skyhook() {
            return BTreeSet::from([self.target.name.as_str()]);
        }
        self.resource_names()
    }

    pub fn request(&self) -> Request {
        self.change.request(&self.target, &self.guard)
    }

    /// The URL path of the request.
    pub fn path(&self) -> String {
        match self.change.endpoint() {
            (Verb::Create, _) => self.target.collection(),
            (_, Some(subresource)) => format!("{}/{subresource}", self.target.path()),
            (_, None) => self.target.path(),
        }
    }

    /// The permissions that the step needs. `get` is included: a re-read distinguishes a conflict from a
    /// rejection.
    pub(super) fn permissions(&self) -> [Permission; 2] {
        let (group, _, resource) = self.target.kind.resource();
        let (verb, subresource) = self.change.endpoint();
        let permission = |verb, subresource: Option<&'static str>| Permission {
            verb,
            group,
            resource,
            subresource,
            namespace: self.target.namespace.clone(),
        };
        let verb = match verb {
            Verb::Create => "create",
            Verb::Delete => "delete",
            Verb::Patch => "patch",
        };
        [permission("get", None), permission(verb, subresource)]
    }

    /// Simulates the server's change to the object; null is no object.
    ///
    /// # Errors
    ///
    /// The first value that differs from the expected one. The object is unchanged then.
    pub fn apply_to(&self, object: &mut Value) -> Result<(), String> {
        self.identity().check(object)?;
        self.guard.check(object)?;
        self.change.apply_to(object)
    }

    /// Rebases the step onto the current object; null is no object.
    pub fn rebase(&self, object: &Value) -> Rebased<Step> {
        if !object.is_null() {
            let same = self.identity().check(object);
            if same.is_err() {
                return if self.change.removes() {
                    Rebased::Done
                } else {
                    Rebased::Moved("the object was recreated (its uid changed)".to_owned())
                };
            }
        }
        match self.change.rebase(object) {
            Rebased::Same(Change::Delete { was: Some(was) })
                if self.target.uid.is_none() && !is_as_made(object, &was) =>
            {
                Rebased::Moved("it was changed after it was created".to_owned())
            }
            Rebased::Same(change) => match self.guard.check(object) {
                Ok(()) => Rebased::Same(Step {
                    target: self.meant(object),
                    change: self.with_deleted_object(change, object),
                    guard: self.guard.testable(object),
                    ..self.clone()
                }),
                Err(reason) => Rebased::Moved(reason),
            },
            Rebased::Done => Rebased::Done,
            Rebased::Moved(reason) => Rebased::Moved(reason),
        }
    }

    /// Whether the object's metadata is enough to rebase the step.
    pub fn rebases_on_metadata(&self) -> bool {
        self.guard.values.keys().all(|pointer| pointer.starts_with("/metadata/"))
            && matches!(&self.change, Change::Metadata(change) if change.keeps_cordon())
    }

    /// The first difference between the stored object and the request. Compares only the fields of a spec
    /// that the request sets, not those that it removes.
    pub fn not_stored(&self, object: &Value) -> Option<String> {
        let Change::Spec(fields) = &self.change else {
            return None;
        };
        Some(match fields::not_stored(fields, object)? {
            (name, Some(stored)) => format!("the server stored {name} as {stored}, not as it was sent"),
            (name, None) => format!(
                "the server did not store {name}: the CustomResourceDefinition {} is older than this field; install the CRD \
                 of the running operator's version",
                self.target.kind.definition()
            ),
        })
    }

    /// Whether the current object makes the step unnecessary: it was deleted, or recreated under the same
    /// name. Null is no object.
    pub fn is_needless(&self, object: &Value) -> bool {
        let uid = self.target.uid.as_deref();
        let is_another = uid.is_some() && uid != object["metadata"]["uid"].as_str();
        self.may_be_gone && (object.is_null() || is_another)
    }

    /// This step, which repeats `first` after the operator has reverted it, with the values that `first` replaced: undo
    /// restores these, and not those that the operator has written in between.
    pub fn restoring(&self, first: &Step) -> Step {
        let change = match (&self.change, &first.change) {
            (Change::Metadata(now), Change::Metadata(first)) => Change::Metadata(now.restoring(first)),
            (change, _) => change.clone(),
        };
        Step { change, ..self.clone() }
    }

    /// This step merged with an earlier form that may have been executed.
    pub fn and_sent(&self, sent: &Step) -> Step {
        Step { change: self.change.and_sent(&sent.change), ..self.clone() }
    }

    /// The step that reverts this one; `None` if it cannot be reverted.
    pub fn inverse(&self) -> Option<Step> {
        Some(Step {
            // A recreated object has another uid.
            target: Target {
                uid: self.target.uid.clone().filter(|_| !self.change.removes()),
                ..self.target.clone()
            },
            change: self.change.inverse()?,
            guard: Guard::default(),
            reason: "restores the previous state".to_owned(),
            may_be_gone: self.may_be_gone,
            stays_removed: Vec::new(),
        })
    }

    /// Whether the step can be undone once applied; a deletion records its object only then.
    pub(super) fn is_undoable(&self) -> bool {
        let noted = matches!(self.change, Change::Delete { .. }) && self.target.kind.undo_recreates();
        noted || self.inverse().is_some()
    }

    /// Stores the object in its deletion, so that undo can recreate it. Without the owners, if the plan leaves
    /// them out: they are gone, and the garbage collector would delete the object again.
    fn with_deleted_object(&self, change: Change, object: &Value) -> Change {
        match change {
            Change::Delete { was } if self.target.kind.undo_recreates() => {
                let mut object = remade(object);
                if was.is_some_and(|was| lookup(&was, OWNERS).is_none()) {
                    set(&mut object, &["metadata", "ownerReferences"], None);
                }
                Change::Delete { was: Some(Box::new(object)) }
            }
            change => change,
        }
    }

    /// The target; a deletion names the uid that was read, so that a retry spares a recreated object.
    fn meant(&self, object: &Value) -> Target {
        let mut target = self.target.clone();
        if matches!(self.change, Change::Delete { .. }) && target.uid.is_none() {
            target.uid = object["metadata"]["uid"].as_str().map(str::to_owned);
        }
        target
    }

    fn identity(&self) -> Guard {
        match (&self.target.uid, &self.change) {
            (Some(uid), change) if !change.creates() => {
                Guard::default().require("/metadata/uid", Value::from(uid.as_str()))
            }
            _ => Guard::default(),
        }
    }
}

/// Metadata that only the server writes.
const OF_THE_SERVER: [&str; 8] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// The object as input for a create: without status and server-side metadata.
pub fn remade(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(members) = object.as_object_mut() {
        members.shift_remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|member, _| !OF_THE_SERVER.contains(&member.as_str()));
    }
    object
}

/// The object to recreate after its deletion: also without finalizers, which their owners add, and without
/// our own pause, which concerned the old object.
pub fn as_new(object: &Value) -> Value {
    let mut object = remade(object);
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.shift_remove("finalizers");
    }
    hold::strip(&mut object);
    normalise(&mut object);
    object
}

/// Whether the object has at most one finalizer.
pub fn held_by_one(object: &Value) -> bool {
    lookup(object, "/metadata/finalizers").and_then(Value::as_array).is_none_or(|all| all.len() <= 1)
}

/// Whether the object still has every created value. Additional members are allowed, additional list items
/// are not.
pub fn is_as_made(object: &Value, made: &Value) -> bool {
    match (object, made) {
        (Value::Object(object), Value::Object(made)) => made.iter().all(|(member, made)| {
            let is = object.get(member).unwrap_or(&Value::Null);
            is_as_made(is, made)
        }),
        // The server does not store empty maps and lists in metadata.
        (Value::Null, Value::Object(made)) => made.is_empty(),
        (Value::Null, Value::Array(made)) => made.is_empty(),
        (object, made) => object == made,
    }
}

/// Removes from the inverse of a plan the restored node status `in_progress` of custom resources that the plan
/// deletes or creates. Returns a warning with the nodes.
///
/// The operator works on all nodes with this status at once, more than a batch has (`model/selection.rs`). It
/// gives nodes without a status a new one.
pub fn leave_out_progress(plan: &Plan, inverse: &mut [PlanStage]) -> Option<String> {
    let replaced: BTreeSet<&str> = plan
        .steps()
        .filter(|step| step.target.kind.is_custom() && (step.change.creates() || step.change.removes()))
        .map(|step| step.target.name.as_str())
        .collect();
    let restores = |key: &str, to: Option<&str>| {
        let of = |flavor: &ApiFlavor| matches!(NodeKey::parse(*flavor, key), Some(NodeKey::Status(name)) if replaced.contains(name));
        to == Some(Status::InProgress.as_str()) && ApiFlavor::ALL.iter().any(of)
    };
    let mut nodes = Vec::new();
    for step in inverse.iter_mut().flat_map(|stage| &mut stage.steps) {
        let Change::Metadata(metadata) = &mut step.change else {
            continue;
        };
        let edits = metadata.annotations.len() + metadata.labels.len();
        metadata.annotations.retain(|key, edit| !restores(key, edit.to.as_deref()));
        metadata.labels.retain(|key, edit| !restores(key, edit.to.as_deref()));
        if metadata.annotations.len() + metadata.labels.len() < edits {
            nodes.push(step.target.name.clone());
        }
    }
    for stage in inverse {
        stage.steps.retain(|step| !matches!(&step.change, Change::Metadata(m) if m.is_empty()));
    }
    (!nodes.is_empty()).then(|| {
        format!(
            "the status in_progress of {} is not restored: the operator would work on all these nodes at once",
            some_nodes(nodes)
        )
    })
}
