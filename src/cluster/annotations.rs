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
                while let Some(key) = map.next_key::<String>()? {
                    if NodeKey::is_ours(&key) {
                        all.ours.insert(key, map.next_value()?);
                    } else if cordon_marks::is_annotation(&key) {
                        all.of_others.insert(key, map.next_value()?);
                    } else {
                        map.next_value::<AnyText>()?;
                    }
                }
                Ok(all)
            }
        }

        deserializer.deserialize_map(Map)
    }
}

/// Text that is not used.
struct AnyText;

impl<'de> Deserialize<'de> for AnyText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<AnyText, D::Error> {
        visit::text(deserializer, |_| AnyText)
    }
}
