//! The values that change, and who changed them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Api, FLAVOR, state_key};

/// Values by object and path; each entry of a node state has its own path.
pub type Leaves = BTreeMap<(String, String), Value>;

pub fn leaves(objects: &[Value]) -> Leaves {
    fn walk(at: &str, value: &Value, out: &mut Vec<(String, Value)>) {
        let entries = value.as_str().filter(|_| at.ends_with(&state_key()));
        let entries: Option<Value> = entries.map(|text| serde_json::from_str(text).expect("JSON"));
        match (entries, value) {
            (Some(Value::Object(entries)), _) => {
                let each = entries.into_iter();
                out.extend(each.map(|(entry, value)| (format!("{at} {entry}"), value)));
            }
            (None, Value::Object(members)) => {
                for (member, value) in members {
                    walk(&format!("{at}/{member}"), value, out);
                }
            }
            _ => out.push((at.to_owned(), value.clone())),
        }
    }
    let mut leaves = Leaves::new();
    for object in objects {
        let name = object["metadata"]["name"].as_str().expect("a name");
        let mut object = object.clone();
        let metadata = object["metadata"].as_object_mut().expect("metadata");
        metadata.retain(|key, _| !["resourceVersion", "managedFields", "generation"].contains(&key.as_str()));
        let mut all = Vec::new();
        walk("", &object, &mut all);
        leaves.extend(all.into_iter().map(|(at, value)| ((name.to_owned(), at), value)));
    }
    leaves
}

/// A change of one value; `None` means absent.
#[derive(Debug, Clone, PartialEq)]
pub struct ValueChange {
    pub object: String,
    pub place: String,
    pub from: Option<Value>,
    pub to: Option<Value>,
}

fn changes(before: &Leaves, after: &Leaves) -> Vec<ValueChange> {
    let mut keys: Vec<_> = before.keys().chain(after.keys()).collect();
    keys.sort_unstable();
    keys.dedup();
    let keys = keys.into_iter().filter(|key| before.get(*key) != after.get(*key));
    keys.map(|key| ValueChange {
        object: key.0.clone(),
        place: key.1.clone(),
        from: before.get(key).cloned(),
        to: after.get(key).cloned(),
    })
    .collect()
}

/// Our writes and those of others, in order.
#[derive(Debug, Default)]
pub struct History {
    pub requests: usize,
    /// The objects after the last write.
    pub now: Leaves,
    pub ours: Vec<ValueChange>,
    /// The changes of others, each with the number of our changes before it.
    pub theirs: Vec<(usize, ValueChange)>,
    /// Whether a user paused the custom resource and has not resumed it.
    pub paused_by_another: bool,
}

pub fn nodes_and_resources(api: &Api) -> Vec<Value> {
    let kinds = ["Node", FLAVOR.kind()];
    let of_interest = |o: &Value| kinds.iter().any(|kind| o["kind"] == *kind);
    let all = api.store.objects();
    all.into_iter().filter(of_interest).collect()
}

impl History {
    pub fn record_our_changes(&mut self, api: &Api) {
        let now = leaves(&nodes_and_resources(api));
        self.ours.extend(changes(&self.now, &now));
        self.now = now;
    }

    pub fn record_other_changes(&mut self, api: &Api) {
        let now = leaves(&nodes_and_resources(api));
        let before = self.ours.len();
        let changes = changes(&self.now, &now).into_iter();
        self.theirs.extend(changes.map(|change| (before, change)));
        self.now = now;
    }
}
