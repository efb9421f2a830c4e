//! The labels of an object, of which there are thousands: small, and shared word by word.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Index;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};

use super::name::Name;

/// Labels by key, in the order of keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels(Box<[(Name, Name)]>);

/// Anything that labels can be looked up in.
pub trait Labelled {
    fn value(&self, key: &str) -> Option<&str>;
}

impl Labelled for Labels {
    fn value(&self, key: &str) -> Option<&str> {
        self.get(key).map(Name::as_str)
    }
}

impl Labelled for BTreeMap<String, String> {
    fn value(&self, key: &str) -> Option<&str> {
        self.get(key).map(String::as_str)
    }
}

impl Labels {
    pub fn get(&self, key: &str) -> Option<&Name> {
        let at = self.0.binary_search_by(|(k, _)| k.as_str().cmp(key)).ok()?;
        Some(&self.0[at].1)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Name, &Name)> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    pub fn keys(&self) -> impl Iterator<Item = &Name> {
        self.0.iter().map(|(key, _)| key)
    }
}

impl FromIterator<(Name, Name)> for Labels {
    /// Of equal keys the last counts.
    fn from_iter<I: IntoIterator<Item = (Name, Name)>>(labels: I) -> Labels {
        let mut labels: Vec<(Name, Name)> = labels.into_iter().collect();
        labels.reverse();
        labels.sort_by(|a, b| a.0.cmp(&b.0));
        labels.dedup_by(|later, first| later.0 == first.0);
        Labels(labels.into())
    }
}

impl Index<&str> for Labels {
    type Output = Name;

    fn index(&self, key: &str) -> &Name {
        self.get(key).expect("the label is there")
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Labels, D::Error> {
        struct Map;

        impl<'de> Visitor<'de> for Map {
            type Value = Labels;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Labels, A::Error> {
                let mut labels = Vec::new();
                while let Some(label) = map.next_entry()? {
                    labels.push(label);
                }
                Ok(labels.into_iter().collect())
            }
        }

        deserializer.deserialize_map(Map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_in_order_and_the_last_of_equal_ones_counts() {
        let labels: Labels =
            serde_json::from_str(r#"{"b": "1", "a": "2", "b": "3"}"#).expect("labels");
        let pairs: Vec<(&str, &str)> = labels.iter().map(|(k, v)| (&**k, &**v)).collect();
        assert_eq!(pairs, [("a", "2"), ("b", "3")]);
        assert_eq!(labels.value("b"), Some("3"));
        assert_eq!(labels.value("c"), None);
    }
}
