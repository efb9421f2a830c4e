//! An object and its [`Summary`], both from one pass over the text.
//!
//! Of a type there must be so many that a pass over all of them counts, as it does with nodes.

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};

use super::summary::{At, Key, KeyTarget, Summary, Values};

/// Decodes a text, with what is to be known of it beforehand.
///
/// # Errors
///
/// It is no JSON, or no such object.
pub fn decode<'de, T: Deserialize<'de>>(text: &'de [u8]) -> serde_json::Result<(Summary, T)> {
    let mut summary = Summary::default();
    let mut reader = serde_json::Deserializer::from_slice(text);
    let beside = Beside {
        of: &mut reader,
        summary: &mut summary,
        at: At::Top,
    };
    let object = T::deserialize(beside)?;
    reader.end()?;
    Ok((summary, object))
}

/// Something that values are decoded with, and where they stand in the object.
struct Beside<'s, T> {
    of: T,
    summary: &'s mut Summary,
    at: At,
}

impl<'s, T> Beside<'s, T> {
    fn swap<U>(self, of: U) -> (T, Beside<'s, U>) {
        let Beside {
            of: own,
            summary,
            at,
        } = self;
        (own, Beside { of, summary, at })
    }
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Beside<'_, D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        let (reader, visitor) = self.swap(visitor);
        reader.deserialize_any(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        let (reader, visitor) = self.swap(visitor);
        reader.deserialize_option(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let (reader, visitor) = self.swap(visitor);
        reader.deserialize_newtype_struct(name, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.of.deserialize_enum(name, variants, visitor)
    }

    /// What is of no use to the object may be of use to the summary.
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.of.deserialize_any(Values(self.summary, self.at))?;
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Beside<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.of.expecting(f)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<V::Value, E> {
        self.of.visit_bool(value)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<V::Value, E> {
        self.of.visit_i64(value)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<V::Value, E> {
        self.of.visit_u64(value)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<V::Value, E> {
        self.of.visit_f64(value)
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.of.visit_unit()
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.of.visit_none()
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<V::Value, E> {
        Values(self.summary, self.at).text(text);
        self.of.visit_str(text)
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<V::Value, E> {
        Values(self.summary, self.at).text(text);
        self.of.visit_borrowed_str(text)
    }

    fn visit_some<D: Deserializer<'de>>(self, reader: D) -> Result<V::Value, D::Error> {
        let (visitor, reader) = self.swap(reader);
        visitor.visit_some(reader)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, reader: D) -> Result<V::Value, D::Error> {
        let (visitor, reader) = self.swap(reader);
        visitor.visit_newtype_struct(reader)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, list: A) -> Result<V::Value, A::Error> {
        self.at = At::Else;
        let (visitor, list) = self.swap(list);
        visitor.visit_seq(list)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        let (visitor, map) = self.swap(map);
        visitor.visit_map(ObservedMap {
            map,
            found: KeyTarget::Nothing,
        })
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Beside<'_, A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.of.next_element_seed(Beside {
            of: seed,
            summary: self.summary,
            at: self.at,
        })
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Beside<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<S::Value, D::Error> {
        let (seed, reader) = self.swap(reader);
        seed.deserialize(reader)
    }
}

/// The members of an object, and what the last key leads to.
struct ObservedMap<T> {
    map: T,
    found: KeyTarget,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for ObservedMap<Beside<'_, A>> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        let ObservedMap { map, found } = self;
        let at = map.at;
        map.of.next_key_seed(KeyOf {
            of: seed,
            at,
            found,
        })
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        let map = &mut self.map;
        let at = match std::mem::replace(&mut self.found, KeyTarget::Nothing) {
            KeyTarget::Value(at) => at,
            KeyTarget::Items => {
                map.summary.has_items = true;
                At::Else
            }
            KeyTarget::Label(label) => {
                map.summary.has(&label);
                return map.of.next_value_seed(seed);
            }
            KeyTarget::Nothing => return map.of.next_value_seed(seed),
        };
        map.of.next_value_seed(Beside {
            of: seed,
            summary: map.summary,
            at,
        })
    }
}

/// A key on its way to whom it is for.
struct KeyOf<'f, T> {
    of: T,
    at: At,
    found: &'f mut KeyTarget,
}

impl<'de, K: DeserializeSeed<'de>> DeserializeSeed<'de> for KeyOf<'_, K> {
    type Value = K::Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<K::Value, D::Error> {
        let KeyOf { of, at, found } = self;
        of.deserialize(KeyOf {
            of: reader,
            at,
            found,
        })
    }
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for KeyOf<'_, D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        let KeyOf { of, at, found } = self;
        of.deserialize_str(KeyOf {
            of: visitor,
            at,
            found,
        })
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for KeyOf<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.of.expecting(f)
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<V::Value, E> {
        *self.found = Key(self.at).leads_to(key);
        self.of.visit_str(key)
    }

    fn visit_borrowed_str<E: Error>(self, key: &'de str) -> Result<V::Value, E> {
        *self.found = Key(self.at).leads_to(key);
        self.of.visit_borrowed_str(key)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cluster::Node;

    #[test]
    fn it_is_what_two_passes_give() {
        let node = json!({
            "apiVersion": "v1",
            "kind": "Node",
            "items": null,
            "metadata": {
                "name": "a",
                "namespace": "none",
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "deletionTimestamp": "2027-01-01T00:00:00Z",
                "annotations": {"seenAt": "2027-01-01T00:00:00Z"},
                "labels": {crate::api::ApiFlavor::Skyhook.key("name"): "gpu", "a\"b": "c\\d"},
                "managedFields": [{"manager": "kubelet", "time": "2027-01-01T00:00:00Z"}],
                "ownerReferences": [{"kind": "Other"}],
            },
            "spec": {"unschedulable": true, "taints": [{"key": "x", "timeAdded": "2027-01-01T00:00:00Z"}]},
            "status": {
                "conditions": [
                    {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-02-02T00:00:00Z",
                     "lastTransitionTime": "2026-02-01T00:00:00Z"},
                ],
                "capacity": {"nvidia.com/gpu": "8"},
                "images": [{"names": ["x"], "sizeBytes": 7}],
                "nodeInfo": {"osImage": "x"},
                "other": {"list": [1, -1, 1.5, true, null, "t", {"bootAt": "2026-03-01T00:00:00Z"}]},
            },
        });
        for text in [node.to_string(), format!("{node:#}")] {
            let (summary, one) = decode::<Node>(text.as_bytes()).expect("a node");
            assert_eq!(summary, serde_json::from_str(&text).expect("a summary"));
            assert_eq!(one, serde_json::from_str(&text).expect("a node"));
        }
        for bad in ["", "{", "7", r#"{"metadata": null}"#, "{} {}"] {
            assert!(decode::<Node>(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
