//! Single fields of a spec or a status.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use super::edit::{OnConflict, Rebased, change, lookup, pointer, set, test};
use crate::text::plural;

/// One field with its old and new value. `None` is absent; a zero is a value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Field {
    /// The path of the field from the top of the object; not empty.
    #[serde(deserialize_with = "not_empty")]
    pub path: Vec<String>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub from: Option<Value>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub to: Option<Value>,
    /// The handling of a changed old value.
    #[serde(default, skip_serializing_if = "OnConflict::is_fail")]
    pub on_conflict: OnConflict,
}

/// Reads an explicit null as a value; only a missing member is absent.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

/// Rejects an empty path, which a saved plan may contain.
fn not_empty<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let path = Vec::deserialize(from)?;
    if path.is_empty() {
        return Err(serde::de::Error::custom("the path of a field is empty"));
    }
    Ok(path)
}

/// Maximum length of an object in the description of a field.
const SHOWN: usize = 60;

impl Field {
    /// A field that must have its old value.
    pub fn new<S: Into<String>>(
        path: impl IntoIterator<Item = S>,
        from: Option<Value>,
        to: Option<Value>,
    ) -> Field {
        Field { path: path.into_iter().map(Into::into).collect(), from, to, on_conflict: OnConflict::Fail }
    }

    /// Makes the edit valid for any old value, if the parent of the field exists.
    pub fn with_any_old_value(mut self) -> Field {
        self.on_conflict = OnConflict::Overwrite;
        self
    }

    fn has_effect(&self) -> bool {
        let zero = |v: &Value| *v == json!(0) || *v == json!(false);
        self.from != self.to && (self.from.is_some() || !self.to.as_ref().is_some_and(zero))
    }

    fn describe(&self) -> String {
        let name = self.path[1..].join(".");
        let text = |value: &Option<Value>| match (value, json!(value).to_string()) {
            (None, _) => "absent".to_owned(),
            (Some(Value::Object(map)), long) if long.len() > SHOWN => plural(map.len(), "entry"),
            (_, text) => text,
        };
        format!("{name}: {} -> {}", text(&self.from), text(&self.to))
    }
}

pub(super) fn tests(fields: &[Field]) -> BTreeMap<String, Value> {
    let old = |f: &Field| (pointer(&f.path), json!(f.from));
    fields.iter().map(old).collect()
}

pub(super) fn operations(fields: &[Field]) -> Vec<Value> {
    tests(fields).into_iter().map(|(p, v)| test(&p, v)).chain(changes(fields)).collect()
}

/// The operations that change the fields, without their tests.
pub(super) fn changes(fields: &[Field]) -> impl Iterator<Item = Value> {
    fields.iter().filter_map(|f| change(&pointer(&f.path), f.from.as_ref(), f.to.as_ref()))
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

/// Rebases the change onto the current object, without fields that already have their value or keep a changed
/// one.
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
        now.push(Field { from: here, ..field.clone() });
    }
    if now.is_empty() { Rebased::Done } else { Rebased::Same(now) }
}

/// The first field that the server stored with another value than the one sent, from its response to the write: its
/// name, and the stored value. `None` as value if the server dropped the field, as it does with fields that the
/// CustomResourceDefinition lacks.
pub(super) fn not_stored<'o>(fields: &[Field], object: &'o Value) -> Option<(String, Option<&'o Value>)> {
    fields.iter().find_map(|field| {
        let stored = lookup(object, &pointer(&field.path));
        differs(field.path.join("."), stored, field.to.as_ref()?)
    })
}

/// The first member that differs from the sent one; the server may have added others.
fn differs<'o>(name: String, stored: Option<&'o Value>, sent: &Value) -> Option<(String, Option<&'o Value>)> {
    if let (Some(Value::Object(stored)), Value::Object(sent)) = (stored, sent) {
        let mut members = sent.iter();
        return members
            .find_map(|(member, sent)| differs(format!("{name}.{member}"), stored.get(member), sent));
    }
    (stored.unwrap_or(&Value::Null) != sent).then_some((name, stored))
}

/// Adds the fields of an earlier request that a rebase has dropped because the object already has their
/// values.
pub(super) fn and_sent(now: &[Field], sent: &[Field]) -> Vec<Field> {
    let newer = |old: &Field| now.iter().find(|f| f.path == old.path).cloned();
    sent.iter().map(|old| newer(old).unwrap_or_else(|| old.clone())).collect()
}

/// Whether any field changes its meaning for the operator, which reads an absent number or Boolean as zero.
pub(super) fn have_effect(fields: &[Field]) -> bool {
    fields.iter().any(Field::has_effect)
}

pub(super) fn describe(fields: &[Field]) -> Vec<String> {
    let lines: Vec<String> = fields.iter().filter(|field| field.has_effect()).map(Field::describe).collect();
    if lines.is_empty() && !fields.is_empty() {
        vec!["only writes defaults that already apply".to_owned()]
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
