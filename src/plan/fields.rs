//! Single fields of a spec or a status.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::edit::{OnConflict, Rebased};
use super::pointer::{change, lookup, pointer, set, test};

/// One field: what it is, and what it shall be. `None` is absent; a zero is a value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Field {
    /// The members to go through, from the top of the object: one at least.
    #[serde(deserialize_with = "not_empty")]
    pub path: Vec<String>,
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub from: Option<Value>,
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub to: Option<Value>,
    /// What becomes of it whose old value is another one by now.
    #[serde(default, skip_serializing_if = "OnConflict::is_fail")]
    pub on_conflict: OnConflict,
}

/// A null that is written is a value, not an absence.
fn present<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

/// A file may say otherwise.
fn not_empty<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let path = Vec::deserialize(from)?;
    if path.is_empty() {
        return Err(serde::de::Error::custom("the path of a field is empty"));
    }
    Ok(path)
}

impl Field {
    /// A field that must still be what it was.
    pub fn new<S: Into<String>>(
        path: impl IntoIterator<Item = S>,
        from: Option<Value>,
        to: Option<Value>,
    ) -> Field {
        Field {
            path: path.into_iter().map(Into::into).collect(),
            from,
            to,
            on_conflict: OnConflict::Fail,
        }
    }

    /// The edit means the same whatever the old value is by then.
    pub fn whatever_it_is(mut self) -> Field {
        self.on_conflict = OnConflict::Overwrite;
        self
    }

    fn describe(&self) -> String {
        let name = self.path[1..].join(".");
        let text = |value: &Option<Value>| match value {
            None => "absent".to_owned(),
            Some(Value::Object(map)) if map.len() == 1 => "1 entry".to_owned(),
            Some(Value::Object(map)) => format!("{} entries", map.len()),
            Some(value) => value.to_string(),
        };
        format!("{name}: {} -> {}", text(&self.from), text(&self.to))
    }
}

pub(super) fn tests(fields: &[Field]) -> BTreeMap<String, Value> {
    let old = |f: &Field| (pointer(&f.path), json!(f.from));
    fields.iter().map(old).collect()
}

pub(super) fn operations(fields: &[Field]) -> Vec<Value> {
    let tests = tests(fields).into_iter().map(|(p, v)| test(&p, v));
    let changes = fields
        .iter()
        .filter_map(|f| change(&pointer(&f.path), f.from.as_ref(), f.to.as_ref()));
    tests.chain(changes).collect()
}

pub(super) fn write(fields: &[Field], object: &mut Value) {
    for field in fields.iter().filter(|f| f.from != f.to) {
        set(object, &field.path, field.to.clone());
    }
}

pub(super) fn inverse(fields: &[Field]) -> Vec<Field> {
    let back = |f: &Field| Field {
        from: f.to.clone(),
        to: f.from.clone(),
        path: f.path.clone(),
        on_conflict: f.on_conflict.inverse(),
    };
    fields.iter().rev().map(back).collect()
}

/// The change on the object that is there now; fields that are as wanted are left out.
pub(super) fn rebase(fields: &[Field], object: &Value) -> Rebased<Vec<Field>> {
    let mut now = Vec::new();
    for field in fields {
        let here = lookup(object, &pointer(&field.path)).cloned();
        if here == field.to {
            continue;
        }
        let parents = &field.path[..field.path.len() - 1];
        let orphan = lookup(object, &pointer(parents)).is_none();
        if orphan && field.to.is_none() {
            continue;
        }
        if here != field.from && field.on_conflict == OnConflict::KeepLive {
            continue;
        }
        if orphan || (here != field.from && field.on_conflict != OnConflict::Overwrite) {
            let name = field.path.join(".");
            return Rebased::Moved(match here {
                None => format!("{name} is gone"),
                Some(_) => format!("{name} has changed"),
            });
        }
        now.push(Field {
            from: here,
            ..field.clone()
        });
    }
    if now.is_empty() {
        Rebased::Done
    } else {
        Rebased::Same(now)
    }
}

/// With what was sent before, and is left out here because it stands on the object.
pub(super) fn and_sent(now: &[Field], sent: &[Field]) -> Vec<Field> {
    let newer = |old: &Field| now.iter().find(|f| f.path == old.path).cloned();
    let both = sent
        .iter()
        .map(|old| newer(old).unwrap_or_else(|| old.clone()));
    both.collect()
}

pub(super) fn describe(fields: &[Field]) -> Vec<String> {
    // An absent number or Boolean means zero to the operator: spelling it out is no news.
    let zero = |v: &Value| *v == json!(0) || *v == json!(false);
    let news =
        |f: &&Field| f.from != f.to && (f.from.is_some() || !f.to.as_ref().is_some_and(zero));
    let lines: Vec<String> = fields.iter().filter(news).map(Field::describe).collect();
    if lines.is_empty() && !fields.is_empty() {
        vec!["no effective change (defaults made explicit)".to_owned()]
    } else {
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_without_a_path_is_refused() {
        let read = |path: Value| serde_json::from_value::<Field>(json!({"path": path}));
        assert!(read(json!(["spec"])).is_ok());
        let error = read(json!([])).expect_err("no path");
        assert_eq!(error.to_string(), "the path of a field is empty");
    }
}
