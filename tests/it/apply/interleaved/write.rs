//! Writes by the operator and by users.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Api, CR, FLAVOR, HOLDER, NODES, REASON, entry, state_key, status_key};

/// A write by the operator or a user.
#[derive(Debug, Clone)]
pub enum Write {
    /// The operator moves a package on a node to a stage and state.
    Entry(usize, &'static str, (&'static str, &'static str)),
    /// The operator removes a package from a node state.
    Forget(usize, &'static str),
    /// The operator writes the status of a node.
    Status(usize, &'static str),
    /// A user writes an unrelated annotation of a node.
    Note(usize, u8),
    Cordon(usize),
    /// The operator writes the status of the custom resource.
    Rollout(u8),
    /// A user edits the spec.
    Spec(u8),
    /// A user adds a finalizer that is not the operator's.
    Finalizer,
    /// A user writes an unrelated annotation of the custom resource.
    Mark(u8),
    /// A user pauses the custom resource with a reason, which replaces our hold.
    Pause,
    /// A user resumes the custom resource.
    Resume,
}

pub fn write() -> impl Strategy<Value = Write> {
    let places = prop::sample::select(vec![
        ("apply", "in_progress"),
        ("apply", "erroring"),
        ("config", "in_progress"),
        ("config", "complete"),
        ("uninstall", "in_progress"),
    ]);
    let package = || prop::sample::select(vec!["a", "b"]);
    let says = prop::sample::select(vec!["erroring", "in_progress", "complete"]);
    let node = 0..NODES.len();
    prop_oneof![
        4 => (node.clone(), package(), places).prop_map(|(n, p, at)| Write::Entry(n, p, at)),
        1 => (node.clone(), package()).prop_map(|(n, p)| Write::Forget(n, p)),
        2 => (node.clone(), says).prop_map(|(n, says)| Write::Status(n, says)),
        1 => (node.clone(), any::<u8>()).prop_map(|(n, v)| Write::Note(n, v)),
        1 => node.prop_map(Write::Cordon),
        2 => any::<u8>().prop_map(Write::Rollout),
        1 => any::<u8>().prop_map(Write::Spec),
        1 => Just(Write::Finalizer),
        1 => any::<u8>().prop_map(Write::Mark),
        2 => Just(Write::Pause),
        1 => Just(Write::Resume),
    ]
}

fn edit(api: &mut Api, plural: &str, name: &str, change: impl FnOnce(&mut Value)) {
    let mut object = api.store.find(plural, "", name).cloned().expect("the object exists");
    change(&mut object);
    // Every write changes the resource version.
    object["metadata"]["resourceVersion"] = Value::Null;
    api.store.load(object);
}

fn annotation<'a>(object: &'a mut Value, key: &str) -> &'a mut Value {
    &mut object["metadata"]["annotations"][key]
}

fn remove(object: &mut Value, key: &str) {
    if let Some(map) = object["metadata"]["annotations"].as_object_mut() {
        map.remove(key);
    }
}

impl Write {
    pub fn apply_to(&self, api: &mut Api) {
        let node = |api: &mut Api, at: usize, change: &dyn Fn(&mut Value)| {
            edit(api, "nodes", NODES[at], change);
        };
        let cr = |api: &mut Api, change: &dyn Fn(&mut Value)| {
            edit(api, FLAVOR.plural(), CR, change);
        };
        let entries = |node: &mut Value, change: &dyn Fn(&mut serde_json::Map<String, Value>)| {
            let text = node["metadata"]["annotations"][state_key()].as_str();
            let state = text.map(|text| serde_json::from_str(text).expect("JSON"));
            let mut state: serde_json::Map<String, Value> = state.unwrap_or_default();
            change(&mut state);
            if state.is_empty() {
                remove(node, &state_key());
            } else {
                *annotation(node, &state_key()) = json!(Value::Object(state).to_string());
            }
        };
        match self {
            Write::Entry(at, package, (stage, state)) => node(api, *at, &|node| {
                entries(node, &|all| {
                    let one = entry(package, stage, state);
                    let one: Value = serde_json::from_str(&format!("{{{one}}}")).expect("JSON");
                    let key = format!("{package}|1.0.0");
                    all.insert(key.clone(), one[&key].clone());
                });
            }),
            Write::Forget(at, package) => node(api, *at, &|node| {
                entries(node, &|all| {
                    all.remove(&format!("{package}|1.0.0"));
                });
            }),
            Write::Status(at, says) => node(api, *at, &|node| {
                *annotation(node, &status_key()) = json!(says);
                node["metadata"]["labels"][status_key()] = json!(says);
            }),
            Write::Note(at, value) => node(api, *at, &|node| {
                *annotation(node, "example.com/note") = json!(value.to_string());
            }),
            Write::Cordon(at) => node(api, *at, &|node| {
                node["spec"]["unschedulable"] = json!(true);
            }),
            Write::Rollout(value) => cr(api, &|cr| cr["status"]["completeNodes"] = json!(value)),
            Write::Spec(value) => cr(api, &|cr| cr["spec"]["priority"] = json!(value)),
            Write::Finalizer => cr(api, &|cr| {
                cr["metadata"]["finalizers"] = json!(["example.com/other"]);
            }),
            Write::Mark(value) => cr(api, &|cr| {
                *annotation(cr, "example.com/mark") = json!(value.to_string());
            }),
            Write::Pause => cr(api, &|cr| {
                *annotation(cr, &FLAVOR.key("pause")) = json!("true");
                *annotation(cr, REASON) = json!("mine");
                remove(cr, HOLDER);
            }),
            Write::Resume => cr(api, &|cr| {
                for key in [&FLAVOR.key("pause"), REASON, HOLDER] {
                    remove(cr, key);
                }
            }),
        }
    }
}

/// Simulates the operator: it acknowledges a pause.
pub fn acknowledge(api: &mut Api) {
    let cr = api.store.find(FLAVOR.plural(), "", CR);
    let cr = cr.expect("the custom resource exists");
    let asked = cr["metadata"]["annotations"][FLAVOR.key("pause")] == "true";
    let says = if asked { "paused" } else { "in_progress" };
    if cr["status"]["status"] != says {
        edit(api, FLAVOR.plural(), CR, |cr| cr["status"]["status"] = json!(says));
    }
}
