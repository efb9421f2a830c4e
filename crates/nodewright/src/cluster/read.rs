//! The result of reading one source.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;

use crate::api::ApiFlavor;

/// The result of reading one source. An unreadable source does not count as empty, nor an empty one as
/// healthy.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Read<T> {
    Ok(T),
    /// Some items are missing, because their identity or a part of the source could not be read. The other
    /// items are used, but do not prove the absence of an object.
    Incomplete(T, Unread),
    /// The source could not be read.
    Unreadable(Unread),
    /// Not requested, or missing from the input.
    #[default]
    NotRequested,
}

/// The reason why a source could not be read, displayed as a short text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread {
    /// HTTP status of the error response, if there was a response.
    pub status: Option<u16>,
    pub message: String,
}

impl Unread {
    pub fn is_forbidden(&self) -> bool {
        self.status == Some(403)
    }

    /// The reason, prefixed with the name of the unreadable part.
    pub fn of(&self, what: &str) -> Unread {
        Unread { status: self.status, message: format!("{what}: {}", self.message) }
    }
}

impl From<String> for Unread {
    /// A reason without a response from a server.
    fn from(message: String) -> Unread {
        Unread { status: None, message }
    }
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

thread_local! {
    static SCANNED: Cell<usize> = const { Cell::new(0) };
}

/// Sum of the lengths of all lists that [`Read::items`] has returned on this thread. Tests compare the sums
/// for clusters of different sizes: a scan of one list for each item of another makes the sum grow
/// quadratically.
pub fn scanned_items() -> usize {
    SCANNED.get()
}

impl<T, E: Into<Unread>> From<Result<T, E>> for Read<T> {
    fn from(result: Result<T, E>) -> Read<T> {
        result.map_or_else(|error| Read::Unreadable(error.into()), Read::Ok)
    }
}

impl<T> Read<T> {
    pub fn ok(&self) -> Option<&T> {
        match self {
            Read::Ok(value) => Some(value),
            Read::Incomplete(..) | Read::Unreadable(_) | Read::NotRequested => None,
        }
    }

    /// The items, complete or not.
    pub fn available(&self) -> Option<&T> {
        match self {
            Read::Ok(value) | Read::Incomplete(value, _) => Some(value),
            Read::Unreadable(_) | Read::NotRequested => None,
        }
    }

    /// The items, complete or not.
    pub fn available_mut(&mut self) -> Option<&mut T> {
        match self {
            Read::Ok(value) | Read::Incomplete(value, _) => Some(value),
            Read::Unreadable(_) | Read::NotRequested => None,
        }
    }

    /// The items, complete or not.
    pub fn into_held(self) -> Option<T> {
        match self {
            Read::Ok(value) | Read::Incomplete(value, _) => Some(value),
            Read::Unreadable(_) | Read::NotRequested => None,
        }
    }

    /// The reason why the source was not read completely, if it was requested.
    pub fn unread(&self) -> Option<&Unread> {
        match self {
            Read::Incomplete(_, why) | Read::Unreadable(why) => Some(why),
            Read::Ok(_) | Read::NotRequested => None,
        }
    }

    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Read<U> {
        match self {
            Read::Ok(value) => Read::Ok(f(value)),
            Read::Incomplete(value, why) => Read::Incomplete(f(value), why),
            Read::Unreadable(why) => Read::Unreadable(why),
            Read::NotRequested => Read::NotRequested,
        }
    }

    /// Marks a complete result as incomplete: a part could not be read.
    pub fn mark_incomplete(self, why: Unread) -> Read<T> {
        match self {
            Read::Ok(value) => Read::Incomplete(value, why),
            other => other,
        }
    }

    /// Whether the source was requested, with or without success.
    pub fn was_asked(&self) -> bool {
        !matches!(self, Read::NotRequested)
    }

    /// How certain it is that an object missing from the items does not exist.
    pub fn absence(&self) -> Certainty {
        match self {
            Read::Ok(_) => Certainty::Proven,
            Read::Incomplete(..) | Read::Unreadable(_) => Certainty::Unknown,
            Read::NotRequested => Certainty::Presumed,
        }
    }
}

impl<T> Read<Vec<T>> {
    /// The number of items.
    pub fn count(&self) -> Read<usize> {
        match self {
            Read::Ok(items) => Read::Ok(items.len()),
            Read::Incomplete(items, why) => Read::Incomplete(items.len(), why.clone()),
            Read::Unreadable(why) => Read::Unreadable(why.clone()),
            Read::NotRequested => Read::NotRequested,
        }
    }

    /// The items that pass `keep`.
    pub fn filtered(&self, keep: impl Fn(&T) -> bool) -> Read<Vec<T>>
    where
        T: Clone,
    {
        let kept = |items: &[T]| items.iter().filter(|item| keep(item)).cloned().collect();
        match self {
            Read::Ok(items) => Read::Ok(kept(items)),
            Read::Incomplete(items, why) => Read::Incomplete(kept(items), why.clone()),
            Read::Unreadable(why) => Read::Unreadable(why.clone()),
            Read::NotRequested => Read::NotRequested,
        }
    }

    /// The items that were read; empty if there are none. See [`Read::absence`] for the meaning of an empty
    /// result.
    pub fn items(&self) -> &[T] {
        let items = self.indexed();
        SCANNED.set(SCANNED.get() + items.len());
        items
    }

    /// The items for access by position. The access does not count as a scan.
    pub(super) fn indexed(&self) -> &[T] {
        self.available().map_or(&[], Vec::as_slice)
    }

    /// Records that an item is missing, with the reason.
    pub fn lacks(&mut self, why: impl FnOnce() -> Unread) {
        match std::mem::take(self) {
            Read::Ok(items) => *self = Read::Incomplete(items, why()),
            Read::NotRequested => *self = Read::Incomplete(Vec::new(), why()),
            before => *self = before,
        }
    }
}

/// How certain it is that an object that was not read does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Certainty {
    /// The source could not be read: the object may exist.
    Unknown,
    /// The source was not requested, or the files contain no objects of this kind, perhaps because none were
    /// captured.
    Presumed,
    /// The source was read completely.
    Proven,
}

/// Resource versions by list.
#[derive(Debug, Clone, Default)]
pub struct ResourceVersions(BTreeMap<String, String>);

impl ResourceVersions {
    pub fn note(&mut self, list: String, version: String) {
        // Without a resource version, a watch cannot continue.
        if !version.is_empty() {
            self.0.insert(list, version);
        }
    }

    pub fn of(&self, list: &str) -> Option<&str> {
        self.0.get(list).map(String::as_str)
    }

    /// Drops the versions of lists of custom resources, because custom resources have been written since.
    pub fn without_custom(mut self) -> ResourceVersions {
        let custom = |list: &str| ApiFlavor::ALL.iter().any(|flavor| list.contains(&flavor.api_version()));
        self.0.retain(|list, _| !custom(list));
        self
    }
}
