//! What became of reading one source.

use std::fmt;

/// What became of reading one source. Unreadable is not empty, and empty is not healthy.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Read<T> {
    Ok(T),
    /// The server or the file would not give it.
    Unreadable(Unread),
    /// Nobody asked for it, or it is not in the input.
    #[default]
    NotRequested,
}

/// Why a source could not be read. Displays as a few words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread {
    /// The server's answer, where there was one.
    pub status: Option<u16>,
    pub message: String,
}

impl Unread {
    pub fn is_forbidden(&self) -> bool {
        self.status == Some(403)
    }

    /// The same, with what it is that could not be read.
    pub fn of(&self, what: &str) -> Unread {
        Unread {
            status: self.status,
            message: format!("{what}: {}", self.message),
        }
    }
}

impl From<String> for Unread {
    /// No server said so.
    fn from(message: String) -> Unread {
        Unread {
            status: None,
            message,
        }
    }
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl<T> Read<T> {
    pub fn ok(&self) -> Option<&T> {
        match self {
            Read::Ok(value) => Some(value),
            Read::Unreadable(_) | Read::NotRequested => None,
        }
    }

    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Read<U> {
        match self {
            Read::Ok(value) => Read::Ok(f(value)),
            Read::Unreadable(why) => Read::Unreadable(why),
            Read::NotRequested => Read::NotRequested,
        }
    }

    /// Whether it was tried, with or without success.
    pub fn was_asked(&self) -> bool {
        !matches!(self, Read::NotRequested)
    }

    /// How sure we are that what is not in here does not exist.
    pub fn absence(&self) -> Certainty {
        match self {
            Read::Ok(_) => Certainty::Proven,
            Read::Unreadable(_) => Certainty::Unknown,
            Read::NotRequested => Certainty::Presumed,
        }
    }
}

impl<T> Read<Vec<T>> {
    /// How many there are.
    pub fn count(&self) -> Read<usize> {
        match self {
            Read::Ok(items) => Read::Ok(items.len()),
            Read::Unreadable(why) => Read::Unreadable(why.clone()),
            Read::NotRequested => Read::NotRequested,
        }
    }

    /// The items, or none where nothing could be read. Ask [`Read::absence`] what "none" is worth.
    pub fn items(&self) -> &[T] {
        self.ok().map_or(&[], Vec::as_slice)
    }
}

/// How sure we are that a thing we do not see does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Certainty {
    /// The source could not be read: it may well exist.
    Unknown,
    /// The files given hold nothing of that kind, which may mean that none was captured.
    Presumed,
    /// The source was read whole.
    Proven,
}
