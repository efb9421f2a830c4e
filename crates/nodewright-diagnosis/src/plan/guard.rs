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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_difference_is_named() {
        let guard = Guard::default()
            .not_deleting()
            .require("/metadata/annotations/example.com~1state", json!("a"))
            .require("/spec/priority", Value::Null);
        let object = |state: Value, priority: Value| json!({"metadata": {"annotations": {"example.com/state": state}}, "spec": {"priority": priority}});
        assert_eq!(guard.check(&object(json!("a"), Value::Null)), Ok(()));
        let wrong = |object: Value| guard.check(&object).expect_err("a difference");
        assert_eq!(wrong(object(json!("b"), Value::Null)), "annotations/example.com/state has changed");
        assert_eq!(wrong(json!({"spec": {}})), "annotations/example.com/state is gone");
        assert_eq!(wrong(object(json!("a"), json!(7))), "/spec/priority exists now");
        let mut deleted = object(json!("a"), Value::Null);
        deleted["metadata"]["deletionTimestamp"] = json!("2026-11-20T10:00:00Z");
        assert_eq!(wrong(deleted), "deletionTimestamp exists now");
    }

    /// A server fails a test inside a map that is missing.
    #[test]
    fn the_absence_of_a_value_in_a_missing_map_is_that_of_the_map() {
        let guard = Guard::default()
            .require("/metadata/annotations/a", Value::Null)
            .require("/metadata/labels/b", json!("x"));
        let tested = |object: Value| guard.testable(&object).values.into_keys().collect::<Vec<_>>();
        assert_eq!(tested(json!({"metadata": {}})), ["/metadata/annotations", "/metadata/labels/b"]);
        assert_eq!(
            tested(json!({"metadata": {"annotations": {"c": "y"}}})),
            ["/metadata/annotations/a", "/metadata/labels/b"]
        );
    }
}
