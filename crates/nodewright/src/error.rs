//! Exit codes and user-facing errors with hints.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use crate::redact;

/// The exit code of the process; `-o` has no effect on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub enum Exit {
    /// The command succeeded; no finding reached the threshold.
    Done = 0,
    /// An error: the cluster, a file, or a name that matches nothing.
    Failed = 1,
    /// There are findings at or above `--fail-on`, or the awaited condition is blocked.
    Findings = 2,
    /// The command was refused: it was not confirmed, a precondition was not met, or a limit was exceeded.
    Refused = 3,
    /// Some objects were changed and others were not, the result is unknown, or a file is incomplete.
    Partly = 4,
    /// The command took longer than `--timeout`.
    TimedOut = 5,
    /// The command line is invalid.
    Usage = 64,
    /// The user interrupted the command.
    Interrupted = 130,
}

impl Exit {
    /// The precedence of exit codes if there are several. Findings come before errors, as in a single `diagnose`:
    /// findings are certain even if other data could not be read.
    pub const PRECEDENCE: [Exit; 8] = [
        Exit::Interrupted,
        Exit::Usage,
        Exit::Findings,
        Exit::Failed,
        Exit::TimedOut,
        Exit::Partly,
        Exit::Refused,
        Exit::Done,
    ];

    /// Every code with its meaning, as the man page and the README print it.
    pub const ALL: [(Exit, &str); 8] = [
        (Exit::Done, "success; for diagnose: no finding at or above --fail-on"),
        (Exit::Failed, "error: the cluster or a file could not be read, or an object was not found"),
        (Exit::Findings, "findings at or above --fail-on, or the awaited condition is blocked"),
        (Exit::Refused, "refused: not confirmed, a precondition failed, or a limit was exceeded"),
        (
            Exit::Partly,
            "partly applied: some objects were changed and some were not, or the result is unknown; collect: something is \
             missing from the file",
        ),
        (Exit::TimedOut, "timed out"),
        (Exit::Usage, "invalid command line"),
        (Exit::Interrupted, "interrupted"),
    ];

    pub fn code(self) -> u8 {
        self as u8
    }

    /// The exit code of several results: the first of [`Exit::PRECEDENCE`] that occurs.
    pub fn of_several(exits: impl IntoIterator<Item = Exit>) -> Exit {
        let exits: Vec<Exit> = exits.into_iter().collect();
        Exit::PRECEDENCE.into_iter().find(|exit| exits.contains(exit)).unwrap_or(Exit::Done)
    }
}

/// A user-facing error: one line, and hints.
#[derive(Debug)]
pub struct Error {
    pub exit: Exit,
    pub message: String,
    pub hints: Vec<String>,
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// A failure. The message is in lower case and follows `error: `.
    pub fn failed(message: impl fmt::Display) -> Error {
        Error { exit: Exit::Failed, message: message.to_string(), hints: Vec::new() }
    }

    /// An invalid command line.
    pub fn usage(message: impl fmt::Display) -> Error {
        Error { exit: Exit::Usage, ..Error::failed(message) }
    }

    /// Adds a hint: a command to run or a flag to pass.
    pub fn hint(mut self, hint: impl Into<String>) -> Error {
        self.hints.push(hint.into());
        self
    }

    /// A name that matches no object; the hint lists similar names.
    pub fn unknown<'a>(what: &str, name: &str, known: impl IntoIterator<Item = &'a str>) -> Error {
        let error = Error::failed(format!("{what} {name:?} not found"));
        let near = near(name, known);
        match near.as_slice() {
            [] => error,
            names => error.hint(format!("did you mean {}?", names.join(", "))),
        }
    }

    /// [`Error::unknown`]; without a similar name, the hint lists up to five existing names.
    pub fn unknown_among<'a>(what: &str, name: &str, known: impl IntoIterator<Item = &'a str>) -> Error {
        let mut known: Vec<&str> = known.into_iter().collect();
        known.sort_unstable();
        known.dedup();
        let error = Error::unknown(what, name, known.iter().copied());
        if !error.hints.is_empty() {
            return error;
        }
        let shown = known[..known.len().min(5)].join(", ");
        error.hint(match known.len() {
            0 => "none exist".to_owned(),
            1..=5 => format!("existing: {shown}"),
            many => format!("existing: {shown} and {} more", many - 5),
        })
    }
}

impl From<anyhow::Error> for Error {
    fn from(error: anyhow::Error) -> Error {
        Error::failed(format!("{error:#}"))
    }
}

/// The known names most similar to the typed one, best first, at most three.
pub fn near<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut near: Vec<(usize, &str)> = known
        .into_iter()
        .map(|k| (strsim::damerau_levenshtein(&name.to_lowercase(), &k.to_lowercase()), k))
        .filter(|(distance, k)| {
            let length = name.chars().count().max(k.chars().count());
            *distance <= 1 + length / 4 || k.starts_with(name)
        })
        .collect();
    near.sort_unstable();
    near.dedup();
    near.into_iter().take(3).map(|(_, k)| k).collect()
}

/// Whether a typed word is the beginning of another, or differs from it by one letter or one swap.
pub fn is_slip(typed: &str, word: &str) -> bool {
    strsim::damerau_levenshtein(typed, word) <= 1 || word.starts_with(typed)
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_every_code_once_and_in_order() {
        let codes: Vec<u8> = Exit::ALL.iter().map(|(exit, _)| exit.code()).collect();
        assert_eq!(codes, [0, 1, 2, 3, 4, 5, 64, 130]);
    }

    #[test]
    fn near_names_are_few_and_nearest_first() {
        let known = ["gpu-tune", "gpu-tone", "kernel", "gpu-tuned", "gpu-t"];
        assert_eq!(near("gpu-tunr", known), ["gpu-tune", "gpu-tone", "gpu-tuned"]);
        assert_eq!(near("zzz", known), Vec::<&str>::new());
    }
}
