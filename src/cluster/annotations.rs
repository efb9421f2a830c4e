//! The annotations of a node, of which only those that are used are kept.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};

use super::cordon_marks;
use crate::api::keys::NodeKey;
use crate::api::visit;

/// The annotations of a node that are used, by key; nodes have many others.
#[derive(Default)]
pub struct Annotations {
    /// Of the operator, of whichever API.
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

/// The key of an annotation, copied only if it is used.
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

/// Text that is not used.
struct AnyText;

impl<'de> Deserialize<'de> for AnyText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<AnyText, D::Error> {
        visit::text(deserializer, |_| AnyText)
    }
}
