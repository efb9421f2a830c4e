//! Conversion of deleted objects into input for their recreation.

use serde_json::Value;

use super::hold;
use super::pointer::{lookup, normalise};

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
