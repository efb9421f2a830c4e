//! Decoders for borrowed text, embedded JSON, and maps with duplicate keys.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

/// Deserializes a string, and returns the result of `read` without copying the string.
///
/// # Errors
///
/// Fails if the value is not a string.
pub fn text<'de, D: Deserializer<'de>, T>(from: D, read: impl FnOnce(&str) -> T) -> Result<T, D::Error> {
    struct Text<F>(F);

    impl<T, F: FnOnce(&str) -> T> Visitor<'_> for Text<F> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }

        fn visit_str<E>(self, text: &str) -> Result<T, E> {
            Ok((self.0)(text))
        }
    }

    from.deserialize_str(Text(read))
}

/// Name of the newtype struct that makes the protobuf decoder return embedded JSON as bytes.
pub const EMBEDDED_JSON: &str = "kubectl-skyhook embedded JSON";

/// Deserializes a value. JSON embedded in another encoding is decoded by `read`.
///
/// # Errors
///
/// Fails if `read` or decoding fails.
pub fn embedded_json<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
    read: impl FnOnce(&[u8]) -> serde_json::Result<T>,
) -> Result<T, D::Error> {
    struct Embedded<T, F>(F, PhantomData<T>);

    impl<'de, T: Deserialize<'de>, F: FnOnce(&[u8]) -> serde_json::Result<T>> Visitor<'de> for Embedded<T, F> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a value")
        }

        fn visit_newtype_struct<D: Deserializer<'de>>(self, from: D) -> Result<T, D::Error> {
            T::deserialize(from)
        }

        fn visit_bytes<E: Error>(self, json: &[u8]) -> Result<T, E> {
            (self.0)(json).map_err(E::custom)
        }
    }

    from.deserialize_newtype_struct(EMBEDDED_JSON, Embedded(read, PhantomData))
}

/// Deserializes a map as its entries in order, duplicate keys included. `expected` describes the map in error messages.
///
/// # Errors
///
/// Fails if the value is not a map, or a key or value does not decode.
pub fn entries<'de, D: Deserializer<'de>, K: Deserialize<'de>, V: Deserialize<'de>>(
    from: D,
    expected: &'static str,
) -> Result<Vec<(K, V)>, D::Error> {
    struct Entries<K, V>(&'static str, PhantomData<(K, V)>);

    impl<'de, K: Deserialize<'de>, V: Deserialize<'de>> Visitor<'de> for Entries<K, V> {
        type Value = Vec<(K, V)>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<(K, V)>, A::Error> {
            let mut entries = Vec::new();
            while let Some(entry) = map.next_entry()? {
                entries.push(entry);
            }
            Ok(entries)
        }
    }

    from.deserialize_map(Entries(expected, PhantomData))
}
