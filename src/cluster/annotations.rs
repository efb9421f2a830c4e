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
    /// Annotations of the operator, of either API.
    pub ours: BTreeMap<String, String>,
    /// Annotations of other tools that may hold the cordon.
    pub of_others: BTreeMap<String, String>,
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
                        Key::Ours(key) => {
                            all.ours.insert(key, map.next_value()?);
                        }
                        Key::OfOthers(key) => {
                            all.of_others.insert(key, map.next_value()?);
                        }
                        Key::Unused => {
                            map.next_value::<AnyText>()?;
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
    Ours(String),
    OfOthers(String),
    Unused,
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Key, D::Error> {
        visit::text(deserializer, |key| {
            if NodeKey::is_ours(key) {
                Key::Ours(key.to_owned())
            } else if cordon_marks::is_annotation(key) {
                Key::OfOthers(key.to_owned())
            } else {
                Key::Unused
            }
        })
    }
}

/// A string that is checked for its type and dropped.
struct AnyText;

impl<'de> Deserialize<'de> for AnyText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<AnyText, D::Error> {
        visit::text(deserializer, |_| AnyText)
    }
}
