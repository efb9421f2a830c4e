//! The compared part of objects.

use std::collections::BTreeMap;

use serde_json::{Value, json};

pub type Objects = BTreeMap<String, Value>;

const DELETING: &str = "deleting";
const BATCHES: &str = "batches";

/// The objects without what `undo` cannot restore: a recreated object is not being deleted and has no status,
/// and deleted pods and Jobs are not recreated.
pub fn without_deletion_and_runs(objects: &Objects) -> Objects {
    let mut objects = objects.clone();
    objects.retain(|name, _| !is_package_run(name));
    for object in objects.values_mut().filter_map(Value::as_object_mut) {
        object.remove(DELETING);
        object.remove(BATCHES);
    }
    objects
}

/// Whether this key of [`Objects`] is a pod or a Job.
fn is_package_run(name: &str) -> bool {
    name.starts_with("Pod/") || name.starts_with("Job/")
}

/// Each object by kind and name, without server metadata and without the status that the operator writes.
pub fn normalized(all: Vec<Value>) -> Objects {
    let mut objects = BTreeMap::new();
    for mut object in all {
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        let metadata = object["metadata"].as_object_mut().expect("metadata");
        let name = metadata["name"].as_str().unwrap_or_default().to_owned();
        // Compare only the existence of pods and Jobs.
        if matches!(kind.as_str(), "Pod" | "Job") {
            objects.insert(format!("{kind}/{name}"), json!("there"));
            continue;
        }
        metadata.retain(|key, value| {
            let counted = ["resourceVersion", "managedFields", "uid", "creationTimestamp", "generation"];
            !counted.contains(&key.as_str()) && *value != json!({})
        });
        if kind == "Skyhook" {
            let metadata = &object["metadata"];
            let [annotations, labels] = ["annotations", "labels"].map(|m| metadata[m].clone());
            let deleting = !metadata["deletionTimestamp"].is_null();
            object = json!({
                "annotations": annotations, "labels": labels, "spec": object["spec"], DELETING: deleting,
                BATCHES: {
                    "nodePriority": object["status"]["nodePriority"],
                    "compartmentStatuses": object["status"]["compartmentStatuses"],
                },
            });
        }
        if kind == "Node" {
            remove_progress(&mut object["metadata"]);
        }
        if let Some(conditions) = object["status"]["conditions"].as_array_mut() {
            conditions.sort_by_key(|c| c["type"].to_string());
            for condition in conditions {
                condition["lastHeartbeatTime"] = Value::Null;
            }
        }
        objects.insert(format!("{kind}/{name}"), canonical(&object));
    }
    objects
}

/// Removes the node status `in_progress`: `undelete` removes it where no pause of the operator has replaced it, and the
/// operator sets it again.
fn remove_progress(metadata: &mut Value) {
    for map in ["annotations", "labels"] {
        if let Some(map) = metadata[map].as_object_mut() {
            map.retain(|key, value| !(key.contains("/status_") && value == "in_progress"));
        }
    }
}

/// The value with sorted keys, without nulls, empty maps, zeros and `false`.
fn canonical(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut members: Vec<_> = map.iter().map(|(k, v)| (k.clone(), canonical(v))).collect();
            members.retain(|(_, v)| !v.is_null());
            members.sort_by(|a, b| a.0.cmp(&b.0));
            if members.is_empty() { Value::Null } else { Value::Object(members.into_iter().collect()) }
        }
        Value::Bool(false) => Value::Null,
        Value::Number(number) if number.as_i64() == Some(0) => Value::Null,
        Value::Array(list) => list.iter().map(canonical).collect(),
        other => other.clone(),
    }
}
