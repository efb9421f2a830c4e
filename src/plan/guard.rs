//! What must still be so for a change to be made.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::pointer::lookup;

/// Values that the object must have, by JSON pointer; null means absent.
///
/// A change guards its replaced values by itself. This guards every other precondition.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Guard {
    pub values: BTreeMap<String, Value>,
}

impl Guard {
    pub fn none() -> Guard {
        Guard::default()
    }

    /// The object is not being deleted.
    pub fn not_deleting(self) -> Guard {
        self.value("/metadata/deletionTimestamp", Value::Null)
    }

    /// The value is unchanged; null for absent.
    pub fn value(mut self, pointer: impl Into<String>, value: Value) -> Guard {
        self.values.insert(pointer.into(), value);
        self
    }

    /// Whether every value is as expected; else what differs.
    pub fn check(&self, object: &Value) -> Result<(), String> {
        check(object, &self.values)
    }
}

/// Whether every value is as expected; else what differs about the first that is not.
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
