//! Reasons of failures, as part of one line.

use crate::redact;

/// The reason of an I/O error, in lower case and without the error number of the system.
pub fn plain_reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

/// The first non-empty line of untrusted text, without secrets and control characters, and of bounded length.
pub fn first_line(text: &str) -> String {
    const LONGEST: usize = 300;
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    redact::text(line.unwrap_or_default()).chars().filter(|c| !c.is_control()).take(LONGEST).collect()
}
