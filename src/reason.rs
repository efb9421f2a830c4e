//! Why a system refused, as part of one line.

use crate::redact;

/// The reason of an I/O error, without the number that the system gives it.
pub fn plain_reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

/// The first line of text that came from elsewhere, harmless on a terminal, of bounded length and without secrets.
pub fn first_line(text: &str) -> String {
    const LONGEST: usize = 300;
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    redact::text(line.unwrap_or_default()).chars().filter(|c| !c.is_control()).take(LONGEST).collect()
}
