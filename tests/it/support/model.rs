//! A model of a cluster: a map of objects by path. Plans are applied to it as `apply` does on a server.

use std::collections::BTreeMap;
use std::path::Path;

use kubectl_skyhook::plan::{PlanStage, Rebased};
use serde_json::Value;

use super::fake_api::with_managers;

/// Objects by the URL path of their step target.
pub type Objects = BTreeMap<String, Value>;

pub fn objects(text: &str) -> Objects {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).expect("YAML");
    let path = |object: &Value| {
        let version = object["apiVersion"].as_str().expect("an apiVersion");
        let kind = object["kind"].as_str().expect("a kind").to_lowercase();
        let plural = match kind.strip_suffix('y') {
            Some(stem) => format!("{stem}ies"),
            None => format!("{kind}s"),
        };
        let root = if version == "v1" { "api" } else { "apis" };
        let name = object["metadata"]["name"].as_str().expect("a name");
        match object["metadata"]["namespace"].as_str() {
            Some(namespace) => format!("/{root}/{version}/namespaces/{namespace}/{plural}/{name}"),
            None => format!("/{root}/{version}/{plural}/{name}"),
        }
    };
    let lists = |o: Value| match o["items"].as_array() {
        Some(items) if o["kind"].as_str().is_some_and(|k| k.ends_with("List")) => items.clone(),
        _ => vec![o],
    };
    let all = documents.into_iter().flat_map(lists);
    all.map(|o| (path(&o), o)).collect()
}

/// The objects of a capture: a file, or a directory of files.
pub fn capture_objects(path: &Path) -> Objects {
    if path.is_file() {
        return objects(&std::fs::read_to_string(path).expect("a file"));
    }
    let files = std::fs::read_dir(path).expect("a directory").map(|e| e.expect("an entry").path());
    let files = files.filter(|f| f.extension().is_some_and(|e| e != "txt"));
    files.flat_map(|file| capture_objects(&file)).collect()
}

/// Writes the objects to a file, as one list.
pub fn write(objects: &Objects, file: &Path) {
    let items: Vec<&Value> = objects.values().filter(|o| o["kind"].is_string()).collect();
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": items});
    std::fs::write(file, list.to_string()).expect("a write");
}

/// Applies stages to the model, as `apply` does on a server.
pub fn execute(stages: &[PlanStage], objects: &mut Objects) -> Result<(), String> {
    for step in stages.iter().flat_map(|s| &s.steps) {
        let object = objects.entry(step.target.path()).or_default();
        let mut step = step.clone();
        step.change.sign("a test");
        match step.rebase(&with_managers(object.clone())) {
            Rebased::Same(step) => step.apply_to(object).map_err(|e| e.to_string())?,
            Rebased::Done => {}
            Rebased::Moved(why) => return Err(format!("{}: {why}", step.target)),
        }
    }
    Ok(())
}

pub fn tidy(mut objects: Objects) -> Objects {
    for object in objects.values_mut() {
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.retain(|_, v| *v != serde_json::json!({}));
        }
        // Sort the members: their order does not matter, and `undo` appends restored members.
        *object = sorted(object);
    }
    objects
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let ordered: BTreeMap<&String, Value> = map.iter().map(|(k, v)| (k, sorted(v))).collect();
            serde_json::to_value(ordered).expect("a map")
        }
        Value::Array(list) => list.iter().map(sorted).collect(),
        other => other.clone(),
    }
}
