//! The annotations of a node that this program uses.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};

use super::cordon_marks;
use crate::api::keys::NodeKey;
use crate::api::visit;

/// Annotations of a node by key. Unused annotations, which are the majority, are dropped.
#[derive(Default)]
pub struct Annotations {
    /// The operator's annotations, of either API.
    pub operator: BTreeMap<String, String>,
    /// Annotations of other tools that may hold the cordon.
    pub cordon_marks: BTreeMap<String, String>,
}

impl<'de> Deserialize<'de> for Annotations {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Annotations, D::Error> {
        struct Map;

        impl<'de> Visitor<'de> for Map {
            type Value = Annotations;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Annotations, A::Error> {
                let mut all = Annotations::default();
                while let Some(key) = map.next_key()? {
                    match key {
                        Key::Operator(key) => {
                            all.operator.insert(key, map.next_value()?);
                        }
                        Key::CordonMark(key) => {
                            all.cordon_marks.insert(key, map.next_value()?);
                        }
                        Key::Unused => {
                            map.next_value::<Ignored>()?;
                        }
                    }
                }
                Ok(all)
            }
        }

        deserializer.deserialize_map(Map)
    }
}

/// Key of an annotation, copied only if the annotation is used.
enum Key {
    Operator(String),
    CordonMark(String),
    Unused,
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Key, D::Error> {
        visit::text(deserializer, |key| {
            if NodeKey::is_ours(key) {
                Key::Operator(key.to_owned())
            } else if cordon_marks::is_annotation(key) {
                Key::CordonMark(key.to_owned())
            } else {
                Key::Unused
            }
        })
    }
}

/// A value that must be a string and is dropped.
struct Ignored;

impl<'de> Deserialize<'de> for Ignored {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Ignored, D::Error> {
        visit::text(deserializer, |_| Ignored)
    }
}
