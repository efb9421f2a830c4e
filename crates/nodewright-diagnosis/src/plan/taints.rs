//! The taints of a node: a list without keys, so it is tested and written as a whole.

use std::collections::BTreeMap;

use serde_json::Value;

use super::edit::{Rebased, change, lookup, pointer, set, test};

const PATH: [&str; 2] = ["spec", "taints"];

/// The list as stored on the object, where an empty list is absent.
fn stored_list(taints: &[Value]) -> Option<Value> {
    (!taints.is_empty()).then(|| Value::from(taints.to_vec()))
}

pub(super) fn tests(from: &[Value]) -> BTreeMap<String, Value> {
    BTreeMap::from([(pointer(&PATH), stored_list(from).unwrap_or_default())])
}

pub(super) fn operations(from: &[Value], to: &[Value]) -> Vec<Value> {
    let at = pointer(&PATH);
    let (from, to) = (stored_list(from), stored_list(to));
    let guard = test(&at, from.clone().unwrap_or_default());
    std::iter::once(guard).chain(change(&at, from.as_ref(), to.as_ref())).collect()
}

pub(super) fn write(to: &[Value], object: &mut Value) {
    set(object, &PATH, stored_list(to));
}

/// Whether both are the same taint: key and effect identify a taint of a node.
fn same(a: &Value, b: &Value) -> bool {
    a["key"] == b["key"] && a["effect"] == b["effect"]
}

/// The first list without the items of the second.
fn difference<'a>(these: &'a [Value], those: &'a [Value]) -> impl Iterator<Item = &'a Value> {
    let missing = |t: &&Value| !those.iter().any(|other| same(t, other));
    these.iter().filter(missing)
}

/// Rebases the removal and addition of taints onto the current list.
pub(super) fn rebase(from: &[Value], to: &[Value], object: &Value) -> Rebased<(Vec<Value>, Vec<Value>)> {
    let now = lookup(object, &pointer(&PATH)).and_then(Value::as_array);
    let now = now.cloned().unwrap_or_default();
    if now == from && now != to {
        return Rebased::Same((from.to_vec(), to.to_vec()));
    }
    let off: Vec<Value> = difference(from, to).cloned().collect();
    let mut after: Vec<Value> = difference(&now, &off).cloned().collect();
    let on: Vec<Value> =
        difference(to, from).filter(|t| !now.iter().any(|other| same(t, other))).cloned().collect();
    after.extend(on);
    if after == now { Rebased::Done } else { Rebased::Same((now, after)) }
}

pub(super) fn describe(from: &[Value], to: &[Value]) -> Vec<String> {
    let line = |verb: &str, taint: &Value| {
        let text = |key: &str| taint[key].as_str().unwrap_or_default().to_owned();
        let value = match text("value") {
            empty if empty.is_empty() => empty,
            value => format!("={value}"),
        };
        format!("{verb} taint {}{value}:{}", text("key"), text("effect"))
    };
    let off = difference(from, to).map(|t| line("remove", t));
    off.chain(difference(to, from).map(|t| line("add", t))).collect()
}
