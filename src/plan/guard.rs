//! What must still be so for a change to be made.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::pointer::lookup;

/// Values that must stand on the object, by JSON pointer; null says that there must be none.
///
/// A change guards the values it replaces by itself. This is for all else that it relies on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Guard {
    pub values: BTreeMap<String, Value>,
}

/// The first value that is not as expected, and how it differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    pub pointer: String,
    pub how: How,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    Appeared,
    Vanished,
    Changed,
}

impl Guard {
    pub fn none() -> Guard {
        Guard::default()
    }

    /// The object's deletion was not asked for.
    pub fn not_deleting(self) -> Guard {
        self.value("/metadata/deletionTimestamp", Value::Null)
    }

    /// The object's deletion was asked for at that time.
    pub fn deleting_since(self, time: &str) -> Guard {
        self.value("/metadata/deletionTimestamp", Value::from(time))
    }

    /// The value is unchanged; null for absent.
    pub fn value(mut self, pointer: impl Into<String>, value: Value) -> Guard {
        self.values.insert(pointer.into(), value);
        self
    }

    /// Whether every value is as expected.
    pub fn check(&self, object: &Value) -> Result<(), Broken> {
        check(object, &self.values)
    }
}

/// Whether every value is as expected.
pub(super) fn check<'a>(
    object: &Value,
    tests: impl IntoIterator<Item = (&'a String, &'a Value)>,
) -> Result<(), Broken> {
    for (pointer, expected) in tests {
        let found = lookup(object, pointer).unwrap_or(&Value::Null);
        if found != expected {
            let how = match (expected, found) {
                (Value::Null, _) => How::Appeared,
                (_, Value::Null) => How::Vanished,
                _ => How::Changed,
            };
            return Err(Broken {
                pointer: pointer.clone(),
                how,
            });
        }
    }
    Ok(())
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.pointer.trim_start_matches("/metadata/");
        let name = name.replace("~1", "/").replace("~0", "~");
        match self.how {
            How::Appeared => write!(f, "{name} exists now"),
            How::Vanished => write!(f, "{name} is gone"),
            How::Changed => write!(f, "{name} has changed"),
        }
    }
}
