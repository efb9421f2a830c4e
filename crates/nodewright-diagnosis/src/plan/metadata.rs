//! Annotations and labels of one object, and the cordon and the taints of a node, changed in one patch.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Uncordon;
use super::edit::{Edit, Move, OnConflict, Rebased, lookup, pointer, test};
use super::fields::{self, Field};
use crate::api::keys::NodeKey;
use crate::cluster::Node;

/// Edits of an object's annotations and labels, and of a node's cordon.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, Edit>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, Edit>,
    /// The new value of `spec.unschedulable`; the current value is its opposite.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unschedulable: Option<bool>,
    /// Other owners of the cordon, checked before the uncordon.
    #[serde(skip_serializing_if = "Uncordon::is_default")]
    pub uncordon: Uncordon,
    /// Whether the object has no annotations: the patch then creates the map, and tests that it does not exist.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_annotations: bool,
    /// Whether the object has no labels, as for `no_annotations`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_labels: bool,
}

const CORDON: [&str; 2] = ["spec", "unschedulable"];
const VERSION: [&str; 2] = ["metadata", "resourceVersion"];

impl Metadata {
    pub fn annotation(mut self, key: impl Into<String>, edit: Edit) -> Metadata {
        self.annotations.insert(key.into(), edit);
        self
    }

    pub fn label(mut self, key: impl Into<String>, edit: Edit) -> Metadata {
        self.labels.insert(key.into(), edit);
        self
    }

    /// Adds the uncordon of the node, unless somebody outside the operator holds its cordon.
    pub fn uncordoned(mut self, node: &Node) -> Metadata {
        (self.uncordon, self.unschedulable) = Uncordon::of(node);
        self
    }

    /// Whether the edits make a node schedulable.
    pub fn uncordons(&self) -> bool {
        self.unschedulable == Some(false)
    }

    pub fn is_empty(&self) -> bool {
        self.annotations.is_empty() && self.labels.is_empty() && self.unschedulable.is_none()
    }

    /// Whether the edits only test values.
    fn changes_nothing(&self) -> bool {
        let mut edits = self.annotations.values().chain(self.labels.values());
        self.unschedulable.is_none() && edits.all(|e| e.from == e.to)
    }

    fn maps(&self) -> [(&'static str, &BTreeMap<String, Edit>, bool); 2] {
        [("annotations", &self.annotations, self.no_annotations), ("labels", &self.labels, self.no_labels)]
    }

    /// The edited fields, in the order of the patch.
    fn fields(&self) -> Vec<Field> {
        let mut fields = Vec::new();
        for (map, edits, _) in self.maps() {
            for (key, edit) in edits {
                let [from, to] = [&edit.from, &edit.to].map(|value| value.clone().map(Value::from));
                fields.push(Field::new(["metadata", map, key], from, to));
            }
        }
        if let Some(to) = self.unschedulable {
            let stored = |cordoned: bool| cordoned.then_some(Value::Bool(true));
            fields.push(Field::new(CORDON, stored(!to), stored(to)));
        }
        fields
    }

    /// The old values, by pointer; null for absent.
    pub(super) fn tests(&self) -> BTreeMap<String, Value> {
        let mut tests = fields::tests(&self.fields());
        for (map, edits, missing) in self.maps() {
            if missing && !edits.is_empty() {
                // Test the map itself: the server fails a test inside a missing map.
                let map = pointer(&["metadata", map]);
                tests.retain(|field, _| !field.starts_with(&map));
                tests.insert(map, Value::Null);
            }
        }
        if let Some(version) = self.uncordon.version.as_ref().filter(|_| self.uncordons()) {
            tests.insert(pointer(&VERSION), json!(version));
        }
        tests
    }

    pub(super) fn operations(&self) -> Vec<Value> {
        let mut operations: Vec<Value> =
            self.tests().into_iter().map(|(at, value)| test(&at, value)).collect();
        for (map, edits, missing) in self.maps() {
            if missing && edits.values().any(|e| e.to.is_some()) {
                operations.push(json!({"op": "add", "path": pointer(&["metadata", map]), "value": {}}));
            }
        }
        operations.extend(fields::changes(&self.fields()));
        operations
    }

    pub(super) fn write(&self, object: &mut Value) {
        fields::write(&self.fields(), object);
    }

    pub(super) fn inverse(&self) -> Metadata {
        let back = |edits: &BTreeMap<String, Edit>| {
            edits.iter().map(|(key, edit)| (key.clone(), edit.inverse())).collect()
        };
        Metadata {
            annotations: back(&self.annotations),
            labels: back(&self.labels),
            unschedulable: self.unschedulable.map(|to| !to),
            uncordon: Uncordon { overruled: self.uncordon.overruled, ..Uncordon::default() },
            ..Metadata::default()
        }
    }

    /// Whether the edits restore a cordon of somebody outside the operator, which `--force-uncordon` has lifted.
    pub fn restores_foreign_cordon(&self) -> bool {
        self.unschedulable == Some(true) && self.uncordon.overruled
    }

    /// Whether only annotations and labels are edited.
    pub(super) fn keeps_cordon(&self) -> bool {
        self.unschedulable.is_none() && self.uncordon.is_default()
    }

    /// Rebases the change onto the current object, without edits that are already made.
    pub(super) fn rebase(&self, object: &Value) -> Rebased<Metadata> {
        let mut now = Metadata {
            no_annotations: lookup(object, "/metadata/annotations").is_none(),
            no_labels: lookup(object, "/metadata/labels").is_none(),
            ..Metadata::default()
        };
        let mut moved = Vec::new();
        for (map, edits, _) in self.maps() {
            for (key, edit) in edits {
                let here = lookup(object, &pointer(&["metadata", map, key])).and_then(Value::as_str);
                match edit.rebase(key, here) {
                    Rebased::Same(edit) if map == "labels" => {
                        now.labels.insert(key.clone(), edit);
                    }
                    Rebased::Same(edit) => {
                        now.annotations.insert(key.clone(), edit);
                    }
                    Rebased::Done => {}
                    Rebased::Moved(why) => moved.push(why),
                }
            }
        }
        let cordoned = lookup(object, &pointer(&CORDON)) == Some(&Value::Bool(true));
        now.unschedulable = self.unschedulable.filter(|to| *to != cordoned);
        if now.uncordons() {
            (now.uncordon, now.unschedulable) = self.uncordon.rebase(object);
        }
        if now.unschedulable == Some(true) {
            now.uncordon.overruled = self.uncordon.overruled;
        }
        if let Some(others) = now.uncordon.words().filter(|_| now.changes_nothing()) {
            moved.push(format!("it stays cordoned by {others}"));
        }
        if !moved.is_empty() {
            Rebased::Moved(moved.join("; "))
        } else if now.changes_nothing() {
            Rebased::Done
        } else {
            Rebased::Same(now)
        }
    }

    /// Adds the edits of an earlier request that a rebase has dropped because the object already has their values.
    pub(super) fn and_sent(&self, sent: &Metadata) -> Metadata {
        let both = |now: &BTreeMap<String, Edit>, sent: &BTreeMap<String, Edit>| {
            let mut all = sent.clone();
            all.extend(now.clone());
            all
        };
        Metadata {
            annotations: both(&self.annotations, &sent.annotations),
            labels: both(&self.labels, &sent.labels),
            unschedulable: self.unschedulable.or(sent.unschedulable),
            uncordon: if self.unschedulable.is_some() { &self.uncordon } else { &sent.uncordon }.clone(),
            ..self.clone()
        }
    }

    /// The edits of `first` and of this repetition of it, with the values that `first` replaced.
    pub(super) fn restoring(&self, first: &Metadata) -> Metadata {
        let mut both = self.and_sent(first);
        for (edits, first) in [(&mut both.annotations, &first.annotations), (&mut both.labels, &first.labels)]
        {
            for (key, edit) in edits {
                if let Some(first) = first.get(key) {
                    *edit = edit.restoring(key, first);
                }
            }
        }
        both
    }

    /// One line per key: old value, new value.
    pub(super) fn describe(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (map, edits, _) in self.maps() {
            let kind = map.trim_end_matches('s');
            for (key, edit) in edits {
                lines.extend(describe_edit(kind, key, edit));
            }
        }
        match self.unschedulable {
            Some(true) if self.restores_foreign_cordon() => {
                lines.push("cordon, as `kubectl cordon` does".to_owned());
            }
            Some(true) => lines.push("cordon".to_owned()),
            Some(false) if self.uncordon.unproven => lines.push(
                "uncordon, unless the node's managedFields show that someone else cordoned it".to_owned(),
            ),
            Some(false) => lines.push("uncordon".to_owned()),
            None => {}
        }
        let held = self.uncordon.words();
        lines.extend(held.map(|others| format!("keep cordoned for {others}")));
        lines
    }
}

/// Maximum length of a value in a preview line, in bytes; the diff shows longer values.
const LONGEST_SHOWN: usize = 40;
/// Maximum number of characters of a new value in a preview line.
const LONGEST_STARTED: usize = 60;

/// Whether the edit removes the exact value that was read of a key that the operator derives from a node state.
fn is_derived(edit: &Edit, key: &str) -> bool {
    edit.on_conflict.is_fail() && NodeKey::resource(key).is_some() && !NodeKey::holds_node_state(key)
}

fn describe_edit(kind: &str, key: &str, edit: &Edit) -> Vec<String> {
    if let OnConflict::MoveEntries(moves) = &edit.on_conflict {
        return moves.iter().map(Move::describe).collect();
    }
    let short = |text: &str| text.len() <= LONGEST_SHOWN;
    vec![match (&edit.from, &edit.to) {
        (from, to) if from == to => return Vec::new(),
        // Omit values that the operator derives: they differ between nodes and do not matter.
        (Some(_), None) if edit.on_conflict == OnConflict::Overwrite || is_derived(edit, key) => {
            format!("remove {kind} {key}")
        }
        (None, Some(to)) => {
            let start: String = to.chars().take(LONGEST_STARTED).collect();
            let more = if start.len() < to.len() { "…" } else { "" };
            format!("set {kind} {key}={start}{more}")
        }
        (Some(from), Some(to)) if short(from) && short(to) => {
            format!("change {kind} {key}: {from} -> {to}")
        }
        (Some(from), None) if short(from) => format!("remove {kind} {key}={from}"),
        (_, Some(_)) => format!("change {kind} {key}"),
        (_, None) => format!("remove {kind} {key}"),
    }]
}

const PATH: [&str; 2] = ["spec", "taints"];

/// A node's taints as a field. The server does not store an empty list.
pub(super) fn taints(from: &[Value], to: &[Value]) -> Field {
    let [from, to] = [from, to].map(|taints| (!taints.is_empty()).then(|| Value::from(taints)));
    Field::new(PATH, from, to)
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
    let now = lookup(object, &pointer(&PATH)).and_then(Value::as_array).cloned().unwrap_or_default();
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
    difference(from, to)
        .map(|t| line("remove", t))
        .chain(difference(to, from).map(|t| line("add", t)))
        .collect()
}
