//! Interned text: text that is equal on thousands of objects is stored once.

use std::borrow::Borrow;
use std::cell::RefCell;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::shared::Interner;
use super::visit;

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
}
