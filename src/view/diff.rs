//! Diffs of the objects that a plan changes.

use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use crate::plan::{Change, Field, Metadata, Plan, Step};
use crate::view::text::{self, Label, Text};

/// Field paths of an object with their values as text.
type Side = Vec<(String, String)>;

/// A unified diff of every step that changes its object.
pub fn diff(plan: &Plan) -> Text {
    let mut text = Text::new();
    for step in plan.steps() {
        let (before, after) = sides(step);
        let (before, after) = (whole(&before), whole(&after));
        if before == after {
            continue;
        }
        text.line(text::heading(format!("--- {} (current)", step.target)));
        text.line(text::heading(format!("+++ {} (planned)", step.target)));
        let diff = TextDiff::from_lines(&before, &after);
        for group in diff.grouped_ops(3) {
            for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
                let (sign, label) = match change.tag() {
                    ChangeTag::Delete => ("-", Label::Error),
                    ChangeTag::Insert => ("+", Label::Good),
                    ChangeTag::Equal => (" ", Label::Plain),
                };
                text.line(label.span(format!("{sign}{}", change.value().trim_end_matches('\n'))));
            }
        }
    }
    text
}

fn whole(side: &Side) -> String {
    side.iter().map(|(_, text)| text.as_str()).collect()
}

/// The fields that a step changes, before and after.
fn sides(step: &Step) -> (Side, Side) {
    match &step.change {
        Change::Metadata(metadata) => metadata_sides(metadata),
        Change::Hold(hold) | Change::Release(hold) => metadata_sides(hold.edits()),
        Change::Spec(fields) | Change::Status(fields) => {
            let side = |value: fn(&Field) -> &Option<Value>| {
                let fields = fields.iter().filter_map(|f| {
                    let value = value(f).as_ref()?;
                    Some(field(f.path.join("."), value.to_string()))
                });
                fields.collect::<Side>()
            };
            (side(|f| &f.from), side(|f| &f.to))
        }
        Change::Finalizer { entry, .. } => {
            let line = format!("metadata.finalizers: {entry}\n");
            (vec![(line.clone(), line)], Vec::new())
        }
        Change::Taints { from, to } => (keyed_items("spec.taints", from), keyed_items("spec.taints", to)),
        Change::Conditions { remove, restore } => {
            let at = "status.conditions";
            (keyed_items(at, remove), keyed_items(at, restore))
        }
        Change::Delete { was } => {
            let was = was.as_deref().map_or("the object\n".into(), pretty);
            (vec![(String::new(), was)], Vec::new())
        }
        Change::Create(object) => (Vec::new(), vec![(String::new(), pretty(object))]),
    }
}

fn field(key: String, value: impl std::fmt::Display) -> (String, String) {
    let line = format!("{key}: {value}\n");
    (key, line)
}

fn metadata_sides(metadata: &Metadata) -> (Side, Side) {
    let (mut before, mut after) = (Side::new(), Side::new());
    for (map, edits) in [("annotations", &metadata.annotations), ("labels", &metadata.labels)] {
        for (key, edit) in edits {
            let side = |value: &Option<String>| {
                let value = value.as_ref()?;
                Some(field(format!("metadata.{map}.{key}"), readable(value)))
            };
            before.extend(side(&edit.from));
            after.extend(side(&edit.to));
        }
    }
    if let Some(to) = metadata.unschedulable {
        before.push(field("spec.unschedulable".to_owned(), !to));
        after.push(field("spec.unschedulable".to_owned(), to));
    }
    (before, after)
}

/// The value, with one member per line if it is a JSON map.
fn readable(value: &str) -> String {
    match serde_json::from_str::<serde_json::Map<String, Value>>(value) {
        Ok(map) => map.iter().fold(String::new(), |text, (key, entry)| format!("{text}\n  {key}: {entry}")),
        Err(_) => value.to_owned(),
    }
}

/// The items of a list, each under its identifying key.
fn keyed_items(at: &str, items: &[Value]) -> Side {
    let lines = items.iter().map(|item| {
        let line = format!("{at}: {item}\n");
        let identity = ["type", "key", "effect"].map(|member| item[member].to_string());
        (format!("{at}.{}", identity.join(".")), line)
    });
    lines.collect()
}

fn pretty(object: &Value) -> String {
    let text = serde_json::to_string_pretty(object).expect("a value is JSON");
    text + "\n"
}
