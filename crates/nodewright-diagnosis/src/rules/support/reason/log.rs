//! The last lines of a log, prepared for display.

use std::sync::LazyLock;

use regex::Regex;
use schemars::JsonSchema;
use serde::Serialize;

use crate::redact;

/// Maximum number of lines.
const LINES: usize = 20;
/// Maximum number of characters in a line.
const LONGEST: usize = 300;
/// Maximum number of bytes in all lines.
const BYTES: usize = 4096;

/// The last lines of a container's log: few and short, without escape sequences and without apparent secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LogTail {
    /// The source of the lines: the container, or the log that the operator saved.
    pub from: String,
    /// The lines, oldest first.
    pub lines: Vec<String>,
}

impl LogTail {
    /// Prepares the last lines for display; `None` if all lines are blank.
    pub fn of<'l>(from: String, lines: impl IntoIterator<Item = &'l str>) -> Option<LogTail> {
        let plain: Vec<String> = lines.into_iter().map(plain).collect();
        let mut lines = redact::log::lines(&plain);
        lines.retain(|line| !line.trim().is_empty());
        let lines: Vec<String> = lines.iter().map(|line| short(line)).collect();
        let mut room = BYTES;
        let fits = |line: &&String| {
            let fits = line.len() <= room;
            room = room.saturating_sub(line.len());
            fits
        };
        let kept = lines.iter().rev().take(LINES).take_while(fits).count();
        let lines = lines[lines.len() - kept..].to_vec();
        (!lines.is_empty()).then_some(LogTail { from, lines })
    }

    /// At most `most` last lines. If none of them mentions a failure, the first is replaced by the last
    /// earlier line that does.
    pub fn last(&self, most: usize) -> Vec<&str> {
        static TELLING: LazyLock<Regex> = LazyLock::new(|| {
            let words = "error|fail|failed|failure|fatal|cannot|can't|could not|unable|denied|not found|no such|killed|\
                         traceback|exception|timed out|timeout|panic|refused|invalid|missing";
            Regex::new(&format!(r"(?i)(?-u:\b)(?:{words})(?-u:\b)")).expect("the pattern is valid")
        });
        let from = self.lines.len().saturating_sub(most);
        let telling = |line: &&String| TELLING.is_match(line);
        let mut shown: Vec<&str> = self.lines[from..].iter().map(String::as_str).collect();
        if !self.lines[from..].iter().any(|line| telling(&line))
            && let Some(line) = self.lines[..from].iter().rfind(telling)
            && let Some(first) = shown.first_mut()
        {
            *first = line;
        }
        shown
    }
}

/// Removes colours, control characters and overwritten progress bars from a line.
pub(super) fn plain(line: &str) -> String {
    static ESCAPES: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
            .expect("the pattern is valid")
    });
    let line = line.trim_end_matches(['\n', '\r']);
    let line = ESCAPES.replace_all(line, "");
    let last = line.rsplit('\r').find(|part| !part.trim().is_empty());
    let last = last.unwrap_or_default().replace('\t', " ");
    last.chars().filter(|c| !c.is_control()).collect()
}

fn short(line: &str) -> String {
    match line.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(lines: &[&str]) -> LogTail {
        LogTail::of("a test".to_owned(), lines.iter().copied()).expect("lines")
    }

    #[test]
    fn what_would_paint_the_terminal_is_taken_out() {
        let shown =
            log(&["\x1b[31mERROR\x1b[0m no\tdisk\r\n", "10%\r50%\r100%\n", "a\x07b\x1b]0;title\x07c\n"]);
        assert_eq!(shown.lines, ["ERROR no disk", "100%", "abc"]);
    }

    #[test]
    fn a_secret_in_the_middle_of_colours_is_one_still() {
        assert_eq!(log(&["tok\x1b[0men=hunter2"]).lines, ["token=<masked>"]);
    }

    #[test]
    fn lines_and_bytes_are_bounded_and_the_last_are_kept() {
        let many: Vec<String> = (0..50).map(|n| format!("line {n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let shown = log(&many);
        assert_eq!((shown.lines.len(), shown.lines[19].as_str()), (LINES, "line 49"));
        let long = "x".repeat(10_000);
        let shown = log(&[long.as_str(); 30]);
        assert!(shown.lines.iter().all(|l| l.chars().count() <= LONGEST + 1));
        assert!(shown.lines.concat().len() <= BYTES, "{}", shown.lines.concat().len());
        assert_eq!(LogTail::of(String::new(), ["", "\x1b[0m"]), None);
    }

    #[test]
    fn the_line_that_tells_is_among_those_shown() {
        let shown = log(&["a", "bash: nvidia-smi: command not found", "b", "c", "d"]);
        assert_eq!(shown.last(3), ["bash: nvidia-smi: command not found", "c", "d"]);
        assert_eq!(shown.last(1), ["bash: nvidia-smi: command not found"]);
        assert_eq!(log(&["a", "b"]).last(1), ["b"]);
    }
}
