//! Interned text: text that is equal on thousands of objects is stored once.

use std::borrow::Borrow;
use std::cell::RefCell;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::shared::Interner;
use super::{LabelSelector, visit};

/// Text that shares its memory with equal text read on the same thread.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

/// Maximum length of interned text in bytes: longer texts are rarely equal.
const LONGEST: usize = 4096;

thread_local! {
    static WORDS: RefCell<Interner<str>> = RefCell::default();
}

impl Name {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Number of distinct texts interned on this thread.
    pub fn interned() -> usize {
        WORDS.with_borrow(Interner::len)
    }

    /// The address of the text. Names with the same address are equal; equal names may have different
    /// addresses.
    pub fn place(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Name {
        if text.len() > LONGEST {
            Name(text.into())
        } else {
            Name(WORDS.with_borrow_mut(|words| words.find(text, |text| text.into())))
        }
    }
}

impl From<String> for Name {
    fn from(text: String) -> Name {
        text.as_str().into()
    }
}

impl From<&Name> for String {
    fn from(name: &Name) -> String {
        name.as_str().to_owned()
    }
}

impl Default for Name {
    fn default() -> Name {
        "".into()
    }
}

impl Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

macro_rules! compares_with {
    ($($other:ty),+) => {$(
        impl PartialEq<$other> for Name {
            fn eq(&self, other: &$other) -> bool {
                let other: &str = other.as_ref();
                self.as_str() == other
            }
        }

        impl PartialEq<Name> for $other {
            fn eq(&self, other: &Name) -> bool {
                other == self
            }
        }
    )+};
}

compares_with!(str, &str, String);

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Name, D::Error> {
        visit::text(deserializer, |text| Name::from(text))
    }
}

/// Whether the text is a DNS-1123 subdomain, as the names of nodes, pods and custom resources are.
pub fn is_object_name(text: &str) -> bool {
    const LONGEST: usize = 253;
    let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let label = |label: &str| {
        let bytes = label.as_bytes();
        bytes
            .first()
            .zip(bytes.last())
            .is_some_and(|(first, last)| alphanumeric(*first) && alphanumeric(*last))
            && bytes.iter().all(|b| alphanumeric(*b) || *b == b'-')
    };
    text.len() <= LONGEST && text.split('.').all(label)
}

/// Whether the text cannot be mistaken for a flag on a command line.
pub fn is_word(text: &str) -> bool {
    !text.starts_with('-')
}

/// Why a text is not a qualified name such as `example.com/pool`; `None` if it is one.
pub fn qualified_name_error(text: &str) -> Option<&'static str> {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    if prefix.is_some_and(|prefix| !is_object_name(prefix)) {
        return Some("has a prefix that is not a DNS name");
    }
    match name {
        "" => Some("has no name"),
        name => label_value_error(name),
    }
}

/// Why a text is not a label value; `None` if it is one.
pub fn label_value_error(text: &str) -> Option<&'static str> {
    let alphanumeric = |b: Option<&u8>| b.is_none_or(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    if bytes.len() > 63 {
        Some("is longer than 63 characters")
    } else if !bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b)) {
        Some("contains characters other than letters, digits, '-', '_' and '.'")
    } else if !(alphanumeric(bytes.first()) && alphanumeric(bytes.last())) {
        Some("must begin and end with a letter or digit")
    } else {
        None
    }
}

/// The invalid requirements of a selector: the path within the selector, and the error.
pub fn selector_errors(selector: &LabelSelector) -> Vec<(Vec<String>, String)> {
    let mut errors = Vec::new();
    for (key, value) in &selector.match_labels {
        let key_error = qualified_name_error(key).map(|why| format!("the key {key:?} {why}"));
        let value_error = label_value_error(value).map(|why| format!("the value {value:?} {why}"));
        for why in [key_error, value_error].into_iter().flatten() {
            errors.push((vec!["matchLabels".to_owned(), key.clone()], why));
        }
    }
    for (index, requirement) in selector.match_expressions.iter().enumerate() {
        let operator = requirement.operator.as_str();
        let why = match (operator, requirement.values.is_empty()) {
            ("In" | "NotIn", true) => Some(format!("{operator} requires values")),
            ("Exists" | "DoesNotExist", false) => Some(format!("{operator} takes no values")),
            ("In" | "NotIn" | "Exists" | "DoesNotExist", _) => None,
            _ => Some(format!("the operator must be In, NotIn, Exists or DoesNotExist, but is {operator:?}")),
        };
        let key = &requirement.key;
        let key_error = qualified_name_error(key).map(|why| format!("the key {key:?} {why}"));
        let value_errors = requirement
            .values
            .iter()
            .filter_map(|value| Some(format!("the value {value:?} {}", label_value_error(value)?)));
        for why in why.into_iter().chain(key_error).chain(value_errors) {
            errors.push((vec!["matchExpressions".to_owned(), index.to_string()], why));
        }
    }
    errors
}

/// The seconds of a duration of Go, such as `90s`, `1h30m`, `-1.5h` or `0`; `None` if the text is none.
pub fn duration_seconds(text: &str) -> Option<f64> {
    let mut rest = text.trim_start_matches(['-', '+']);
    if text.len() - rest.len() > 1 || rest.is_empty() {
        return None;
    }
    let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
    if rest == "0" {
        return Some(0.0);
    }
    let units = [
        ("ns", 1e-9),
        ("us", 1e-6),
        ("\u{b5}s", 1e-6),
        ("\u{3bc}s", 1e-6),
        ("ms", 1e-3),
        ("s", 1.0),
        ("m", 60.0),
        ("h", 3600.0),
    ];
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let unit = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let number: f64 = rest[..rest.len() - unit.len()].parse().ok()?;
        let (after, length) = units
            .iter()
            .filter_map(|(name, length)| Some((unit.strip_prefix(name)?, length)))
            .min_by_key(|(rest, _)| rest.len())?;
        seconds += number * length;
        rest = after;
    }
    Some(sign * seconds)
}

/// The parts of an image reference beside the repository.
pub struct ImageParts<'i> {
    /// Whether the registry has a port.
    pub port: bool,
    pub tag: Option<&'i str>,
    pub digest: Option<&'i str>,
}

impl ImageParts<'_> {
    /// Whether the image has neither a tag nor a digest.
    pub fn is_plain(&self) -> bool {
        self.tag.is_none() && self.digest.is_none()
    }

    pub fn of(image: &str) -> ImageParts<'_> {
        let (name, digest) = match image.split_once('@') {
            Some((name, digest)) => (name, Some(digest)),
            None => (image, None),
        };
        let (registry, last) = name.rsplit_once('/').unwrap_or(("", name));
        ImageParts { port: registry.contains(':'), tag: last.split_once(':').map(|(_, tag)| tag), digest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_words_share_their_memory() {
        let [one, two]: [Name; 2] = serde_json::from_str(r#"["Ready", "Ready"]"#).expect("words");
        assert_eq!(one, "Ready");
        assert!(Arc::ptr_eq(&one.0, &two.0));
        assert_eq!(serde_json::to_string(&one).expect("a word"), r#""Ready""#);
    }

    #[test]
    fn a_name_is_what_the_server_takes_for_one() {
        for name in ["a", "gpu-0001", "node-1.example.com", "0"] {
            assert!(is_object_name(name), "{name}");
        }
        let long = "a".repeat(254);
        for name in [
            "", ".", "..", "a..b", "a/b", "a%2Fb", "a b", "a\n", "a#b", "a?b", "A", "a_b", "-a", "a-",
            "a-.b", &long,
        ] {
            assert!(!is_object_name(name), "{name:?}");
        }
    }
}
