//! Preconditions of a change.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::pointer::lookup;

/// Values that the object must have, by JSON pointer; null means absent.
///
/// A change itself tests the values that it replaces. The guard contains all other preconditions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Guard {
    pub values: BTreeMap<String, Value>,
}

impl Guard {
    /// Requires that the object is not being deleted.
    pub fn not_deleting(self) -> Guard {
        self.require("/metadata/deletionTimestamp", Value::Null)
    }

    /// Requires a value; null means absent.
    pub fn require(mut self, pointer: impl Into<String>, value: Value) -> Guard {
        self.values.insert(pointer.into(), value);
        self
    }

    /// The guard as a JSON Patch can test it on this object: the server fails a test inside a missing map, so the
    /// absence of the map is tested.
    pub fn testable(&self, object: &Value) -> Guard {
        let lift = |(pointer, expected): (&String, &Value)| {
            let mut at = pointer.as_str();
            while expected.is_null()
                && let Some((map, _)) = at.rsplit_once('/')
                && !map.is_empty()
                && lookup(object, map).is_none()
            {
                at = map;
            }
            (at.to_owned(), expected.clone())
        };
        Guard { values: self.values.iter().map(lift).collect() }
    }

    /// Checks every value; the error names the first difference.
    pub fn check(&self, object: &Value) -> Result<(), String> {
        check(object, &self.values)
    }
}

/// Checks every value; the error names the first difference.
pub(super) fn check<'a>(
    object: &Value,
    tests: impl IntoIterator<Item = (&'a String, &'a Value)>,
) -> Result<(), String> {
    for (pointer, expected) in tests {
        let found = lookup(object, pointer).unwrap_or(&Value::Null);
        if found != expected {
            let name = pointer.trim_start_matches("/metadata/");
            let name = name.replace("~1", "/").replace("~0", "~");
            return Err(match (expected, found) {
                (Value::Null, _) => format!("{name} exists now"),
                (_, Value::Null) => format!("{name} is gone"),
                _ => format!("{name} has changed"),
            });
        }
    }
    Ok(())
}
