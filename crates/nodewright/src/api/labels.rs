//! Labels of an object. Objects with equal keys share one set of labels.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::RandomState;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};

use super::name::Name;
use super::visit;

/// Labels sorted by key, stored as a set that objects with equal keys share, and the values that differ from
/// it.
#[derive(Clone, Default)]
pub struct Labels {
    like: Arc<[(Name, Name)]>,
    /// Values that differ from `like`, with the index of the label.
    own: Box<[(u32, Name)]>,
}

/// Shared sets of labels (samples), by the hash of their keys.
#[derive(Default)]
struct Samples {
    hasher: RandomState,
    /// The sample found last: the next object probably has the same keys.
    last: Arc<[(Name, Name)]>,
    by_keys: HashMap<u64, Arc<[(Name, Name)]>, RandomState>,
}

thread_local! {
    static SAMPLES: RefCell<Samples> = RefCell::default();
}

/// Maximum number of samples; then all are dropped. If every object has different keys, samples save no
/// memory.
const MOST_SAMPLES: usize = 1 << 12;

/// Identity of the keys: equal keys read on one thread have the same address.
fn keys(labels: &[(Name, Name)]) -> impl Iterator<Item = usize> {
    labels.iter().map(|(key, _)| key.place())
}

impl Samples {
    /// Returns the sample with these keys. If there is none, `labels` becomes the sample.
    fn find(&mut self, labels: &[(Name, Name)]) -> Arc<[(Name, Name)]> {
        let hash = self.hasher.hash_one(keys(labels).collect::<Vec<usize>>());
        self.last = match self.by_keys.get(&hash) {
            Some(known) if keys(known).eq(keys(labels)) => Arc::clone(known),
            _ => {
                if self.by_keys.len() >= MOST_SAMPLES {
                    self.by_keys.clear();
                }
                let new: Arc<[(Name, Name)]> = labels.into();
                self.by_keys.insert(hash, Arc::clone(&new));
                new
            }
        };
        Arc::clone(&self.last)
    }
}

/// Lookup of label values by key.
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
        let at = self.like.binary_search_by(|(k, _)| k.as_str().cmp(key)).ok()?;
        match self.own.binary_search_by_key(&at, |(own, _)| *own as usize) {
            Ok(own) => Some(&self.own[own].1),
            Err(_) => Some(&self.like[at].1),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.like.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Name, &Name)> {
        let mut own = self.own.iter().peekable();
        self.like.iter().zip(0..).map(move |((key, value), at)| {
            let own = own.next_if(|(own, _)| *own == at);
            (key, own.map_or(value, |(_, value)| value))
        })
    }

    /// The labels whose keys have this prefix.
    pub fn beginning_with(&self, prefix: &str) -> impl Iterator<Item = (&Name, &Name)> {
        let start = self.like.partition_point(|(key, _)| key.as_str() < prefix);
        let labels = self.like[start..].iter().zip(start as u32..);
        labels.take_while(move |((key, _), _)| key.starts_with(prefix)).map(|((key, value), at)| {
            let own = self.own.binary_search_by_key(&at, |(own, _)| *own);
            (key, own.map_or(value, |own| &self.own[own].1))
        })
    }

    pub fn keys(&self) -> impl Iterator<Item = &Name> {
        self.like.iter().map(|(key, _)| key)
    }
}

impl FromIterator<(Name, Name)> for Labels {
    /// The last of equal keys wins.
    fn from_iter<I: IntoIterator<Item = (Name, Name)>>(labels: I) -> Labels {
        let mut labels: Vec<(Name, Name)> = labels.into_iter().collect();
        labels.reverse();
        labels.sort_by(|a, b| a.0.cmp(&b.0));
        labels.dedup_by(|later, first| later.0 == first.0);
        let like = SAMPLES.with_borrow_mut(|samples| samples.find(&labels));
        let common = like.iter().map(|(_, value)| value);
        let own = (0..).zip(labels).zip(common).filter(|((_, (_, value)), common)| value != *common);
        let own = own.map(|((at, (_, value)), _)| (at, value)).collect();
        Labels { like, own }
    }
}

impl PartialEq for Labels {
    fn eq(&self, other: &Labels) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Labels {}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Labels, D::Error> {
        deserializer.deserialize_map(Entries)
    }
}

/// Decodes labels by comparing them with the previous object's: equal text is not interned again. After the
/// first different key, all text is interned.
struct Entries;

impl<'de> Visitor<'de> for Entries {
    type Value = Labels;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Labels, A::Error> {
        let like = SAMPLES.with_borrow(|samples| Arc::clone(&samples.last));
        let (mut own, mut at) = (Vec::new(), 0);
        let different = loop {
            let expected = like.get(at);
            match map.next_key_seed(Compared(expected.map(|(key, _)| key)))? {
                Some(None) => {
                    let value = map.next_value_seed(Compared(expected.map(|(_, value)| value)))?;
                    own.extend(value.map(|value| (at as u32, value)));
                    at += 1;
                }
                key => break key.flatten(),
            }
        };
        if different.is_none() && at == like.len() {
            let own = own.into();
            return Ok(Labels { like, own });
        }
        let mut labels = like[..at].to_vec();
        for (at, value) in own {
            labels[at as usize].1 = value;
        }
        if let Some(key) = different {
            labels.push((key, map.next_value()?));
            while let Some(entry) = map.next_entry()? {
                labels.push(entry);
            }
        }
        Ok(labels.into_iter().collect())
    }
}

/// Decodes text; `None` if it equals the expected text.
struct Compared<'a>(Option<&'a Name>);

impl<'de> DeserializeSeed<'de> for Compared<'_> {
    type Value = Option<Name>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Option<Name>, D::Error> {
        visit::text(from, |text| {
            let same = self.0.is_some_and(|expected| expected == text);
            (!same).then(|| text.into())
        })
    }
}

/// A `metav1.LabelSelector`. Empty selects everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LabelSelector {
    pub match_labels: BTreeMap<String, String>,
    pub match_expressions: Vec<Requirement>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct Requirement {
    pub key: String,
    pub operator: String,
    pub values: Vec<String>,
}

impl LabelSelector {
    pub fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }

    /// Whether the labels satisfy every requirement.
    ///
    /// A requirement with an unknown operator matches nothing, because such a selector is invalid.
    pub fn matches(&self, labels: &impl Labelled) -> bool {
        self.match_labels.iter().all(|(key, value)| labels.value(key) == Some(value.as_str()))
            && self.match_expressions.iter().all(|r| r.matches(labels))
    }

    /// The requirements that the labels do not satisfy.
    pub fn unmet(&self, labels: &impl Labelled) -> Vec<Unmet<'_>> {
        let exact =
            self.match_labels.iter().filter(|(key, value)| labels.value(key) != Some(value.as_str())).map(
                |(key, value)| Unmet {
                    key,
                    wants: format!("{key}={value}"),
                    change: format!("{key}={value}"),
                },
            );
        let others = self.match_expressions.iter().filter(|requirement| !requirement.matches(labels));
        let others = others.map(|Requirement { key, operator, values }| {
            let listed = values.join(",");
            let (wants, change) = match operator.as_str() {
                "In" => {
                    let first = values.first().map_or("", String::as_str);
                    (format!("{key} in ({listed})"), format!("{key}={first}"))
                }
                "NotIn" => (format!("{key} notin ({listed})"), format!("{key}-")),
                "Exists" => (key.clone(), format!("{key}=")),
                _ => (format!("!{key}"), format!("{key}-")),
            };
            Unmet { key, wants, change }
        });
        exact.chain(others).collect()
    }
}

/// A requirement of a selector that labels do not satisfy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unmet<'a> {
    /// The key of the label.
    pub key: &'a str,
    /// The requirement as kubectl writes selectors: `zone in (a,b)`.
    pub wants: String,
    /// The change that satisfies it, as an argument of `kubectl label`.
    pub change: String,
}

impl Requirement {
    fn matches(&self, labels: &impl Labelled) -> bool {
        let value = labels.value(&self.key);
        let listed = value.is_some_and(|v| self.values.iter().any(|listed| listed == v));
        match self.operator.as_str() {
            "In" => listed,
            "NotIn" => !listed,
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            // Only in selectors from the command line, where kubectl accepts `Gt` and `Lt`.
            "Gt" => self.compares(value, i64::gt),
            "Lt" => self.compares(value, i64::lt),
            _ => false,
        }
    }

    fn compares(&self, value: Option<&str>, holds: fn(&i64, &i64) -> bool) -> bool {
        let number = |text: &str| text.parse::<i64>().ok();
        let bound = self.values.first();
        value
            .and_then(number)
            .zip(bound.and_then(|bound| number(bound)))
            .is_some_and(|(value, bound)| holds(&value, &bound))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Labels {
        /// Number of bytes stored for this object alone.
        pub fn own_bytes(&self) -> usize {
            size_of_val(&*self.own)
        }
    }

    #[test]
    fn labels_are_in_order_and_the_last_of_equal_keys_counts() {
        let labels: Labels = serde_json::from_str(r#"{"b": "1", "a": "2", "b": "3"}"#).expect("labels");
        let pairs: Vec<(&str, &str)> = labels.iter().map(|(k, v)| (&**k, &**v)).collect();
        assert_eq!(pairs, [("a", "2"), ("b", "3")]);
        assert_eq!(labels.value("b"), Some("3"));
        assert_eq!(labels.value("c"), None);
    }

    #[test]
    fn only_values_that_differ_are_kept_for_each_object() {
        let of = |host: &str, zone: &str| -> Labels {
            let pairs = [("host", host), ("os", "linux"), ("zone", zone)];
            pairs.map(|(key, value)| (key.into(), value.into())).into_iter().collect()
        };
        let (first, second) = (of("n1", "a"), of("n2", "a"));
        assert!(Arc::ptr_eq(&first.like, &second.like));
        assert_eq!((first.own.len(), second.own.len()), (0, 1));
        assert_eq!(second.value("host"), Some("n2"));
        assert_eq!(second.value("zone"), Some("a"));
        let values: Vec<&str> = second.iter().map(|(_, value)| &**value).collect();
        assert_eq!(values, ["n2", "linux", "a"]);
        assert_ne!(first, second);
        assert_eq!(second, of("n2", "a"));
    }

    #[test]
    fn labels_do_not_depend_on_those_of_the_last_object() {
        let read = |text: &str| {
            let labels: Labels = serde_json::from_str(text).expect("labels");
            let pairs = labels.iter().map(|(k, v)| format!("{k}={v}"));
            let beginning = labels.beginning_with("b").map(|(k, v)| format!("{k}={v}"));
            (pairs.collect::<Vec<_>>().join(","), beginning.collect::<Vec<_>>().join(","))
        };
        for (text, all, with_b) in [
            (r#"{"a": "1", "b": "2", "c": "3"}"#, "a=1,b=2,c=3", "b=2"),
            (r#"{"a": "1", "b": "4", "c": "3"}"#, "a=1,b=4,c=3", "b=4"),
            (r#"{"a": "5", "b": "6"}"#, "a=5,b=6", "b=6"),
            (r#"{"a": "5", "b": "7", "bc": "8"}"#, "a=5,b=7,bc=8", "b=7,bc=8"),
            (r#"{"a": "9", "aa": "0", "b": "7", "b": "8"}"#, "a=9,aa=0,b=8", "b=8"),
            (r#"{"a": "9", "aa": "1", "b": "7", "a": "8"}"#, "a=8,aa=1,b=7", "b=7"),
            (r#"{"b": "7", "aa": "1", "a": "9"}"#, "a=9,aa=1,b=7", "b=7"),
            ("{}", "", ""),
            (r#"{"b": "1"}"#, "b=1", "b=1"),
        ] {
            assert_eq!(read(text), (all.to_owned(), with_b.to_owned()), "{text}");
        }
    }

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect()
    }

    fn requirement(operator: &str, values: &[&str]) -> LabelSelector {
        LabelSelector {
            match_expressions: vec![Requirement {
                key: "pool".into(),
                operator: operator.into(),
                values: values.iter().map(|v| (*v).into()).collect(),
            }],
            ..LabelSelector::default()
        }
    }

    #[test]
    fn empty_selects_everything() {
        assert!(LabelSelector::default().matches(&labels(&[])));
    }

    #[test]
    fn follows_the_four_operators() {
        let gpu = labels(&[("pool", "gpu")]);
        let none = labels(&[]);
        for (operator, values, on_gpu, on_none) in [
            ("In", vec!["gpu", "cpu"], true, false),
            ("NotIn", vec!["gpu"], false, true),
            ("Exists", vec![], true, false),
            ("DoesNotExist", vec![], false, true),
            ("Near", vec![], false, false),
        ] {
            let selector = requirement(operator, &values);
            assert_eq!(selector.matches(&gpu), on_gpu, "{operator} on gpu");
            assert_eq!(selector.matches(&none), on_none, "{operator} on none");
            assert_eq!(selector.unmet(&gpu).is_empty(), on_gpu, "{operator} on gpu");
        }
    }
}
