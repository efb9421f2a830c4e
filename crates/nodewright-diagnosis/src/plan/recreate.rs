//! Conversion of deleted objects into input for their recreation.

use std::collections::BTreeSet;

use serde_json::Value;

use super::pointer::{lookup, normalise};
use super::{Change, Plan, PlanStage, hold};
use crate::api::keys::NodeKey;
use crate::api::{ApiFlavor, Status};
use crate::view::NodeSet;

/// Maximum number of node-name ranges in a warning.
const SHOWN: usize = 6;

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
    let finalizers = lookup(object, "/metadata/finalizers").and_then(Value::as_array);
    finalizers.is_none_or(|all| all.len() <= 1)
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
        .filter(|step| step.target.kind.is_custom())
        .filter(|step| {
            matches!(step.change, Change::Finalizer { .. } | Change::Delete { .. } | Change::Create(_))
        })
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
            NodeSet::of(nodes).limited(SHOWN)
        )
    })
}
