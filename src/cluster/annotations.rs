//! The annotations of a node, of which only the operator's are kept.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};

use crate::api::keys::NodeKey;

/// The annotations of the operator, of whichever generation, by key; a node carries many others.
#[derive(Default)]
pub struct Annotations(pub BTreeMap<String, String>);

impl<'de> Deserialize<'de> for Annotations {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Annotations, D::Error> {
        struct Ours;

        impl<'de> Visitor<'de> for Ours {
            type Value = Annotations;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Annotations, A::Error> {
                let mut ours = BTreeMap::new();
                while let Some(key) = map.next_key::<String>()? {
                    match NodeKey::is_ours(&key) {
                        true => {
                            ours.insert(key, map.next_value()?);
                        }
                        false => {
                            map.next_value::<AnyText>()?;
                        }
                    }
                }
                Ok(Annotations(ours))
            }
        }

        deserializer.deserialize_map(Ours)
    }
}

/// Text that nobody asks for.
struct AnyText;

impl<'de> Deserialize<'de> for AnyText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<AnyText, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = AnyText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E>(self, _: &str) -> Result<AnyText, E> {
                Ok(AnyText)
            }
        }

        deserializer.deserialize_str(Text)
    }
}
