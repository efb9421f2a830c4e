//! The logs of a capture, reduced to their last lines.

use std::collections::HashMap;

use jiff::Timestamp;

use super::attempts::ContainerLog;
use super::capture::ReadOutcome;
use super::capture::index::LogEntry;

/// Number of last lines kept per log of a capture, and requested per live log: a report shows the same lines
/// for both.
pub const LINES: usize = 100;
/// Maximum number of bytes kept per log.
const BYTES: usize = 1 << 20;

/// The logs of a capture.
#[derive(Debug, Clone, Default)]
pub struct KeptLogs {
    entries: Vec<LogEntry>,
    texts: HashMap<String, Vec<String>>,
}

impl KeptLogs {
    /// The logs of an index, with the last lines of their files.
    pub fn new(entries: Vec<LogEntry>, texts: HashMap<String, Vec<String>>) -> KeptLogs {
        KeptLogs { entries, texts }
    }

    /// The last lines of the first log that is not empty, and the index of this log.
    ///
    /// # Errors
    ///
    /// The reason why the first missing log is not in the capture. An empty log is not an error.
    pub fn tail(
        &self,
        pieces: &[ContainerLog],
        lines: usize,
    ) -> Result<Option<(usize, Vec<String>)>, String> {
        let mut failed = None;
        for (at, piece) in pieces.iter().enumerate() {
            match self.log(piece) {
                Ok([]) => {}
                Ok(found) => {
                    let last = found[found.len().saturating_sub(lines)..].iter();
                    let lines = last.map(|line| strip_timestamp(line).to_owned());
                    return Ok(Some((at, lines.collect())));
                }
                Err(why) => {
                    failed.get_or_insert(why);
                }
            }
        }
        failed.map_or(Ok(None), Err)
    }

    /// The last lines of a log, with their timestamps.
    ///
    /// # Errors
    ///
    /// The reason why the log is missing from the capture. An empty log is not an error.
    pub fn log(&self, piece: &ContainerLog) -> Result<&[String], String> {
        let Some(entry) = self.entries.iter().find(|log| log.matches(piece)) else {
            return Err("the capture does not include this log".to_owned());
        };
        match (entry.outcome, &entry.file) {
            (ReadOutcome::Read, None) => Ok(&[]),
            (ReadOutcome::Read, Some(file)) => {
                let text = self.texts.get(file);
                let text = text.ok_or_else(|| format!("{file} is missing from the capture"))?;
                Ok(text)
            }
            _ => Err(entry.message.clone().unwrap_or_default()),
        }
    }
}

impl LogEntry {
    /// Whether the entry is for this container log.
    pub fn matches(&self, piece: &ContainerLog) -> bool {
        let names = |namespace: &str, pod: &str, container: &str| {
            self.namespace == namespace && self.pod == pod && self.container == container
        };
        self.previous == piece.previous && names(&piece.namespace, &piece.pod, &piece.container)
    }
}

/// The last lines of a log that was read with timestamps.
pub fn last_lines(log: &[u8]) -> Vec<String> {
    let mut room = BYTES;
    let all: Vec<&[u8]> = log.split_inclusive(|b| *b == b'\n').collect();
    let last = all.iter().rev().copied().take(LINES);
    let fits = |line: &&[u8]| {
        let fits = line.len() <= room;
        room = room.saturating_sub(line.len());
        fits
    };
    let mut last: Vec<String> =
        last.take_while(fits).map(|line| String::from_utf8_lossy(line).into_owned()).collect();
    last.reverse();
    last
}

/// Splits a line into the timestamp that Kubernetes puts in front, and the text.
pub fn split_timestamp(line: &[u8]) -> (Option<Timestamp>, &[u8]) {
    let end = line.iter().position(|b| *b == b' ').unwrap_or(0);
    let time = std::str::from_utf8(&line[..end]).ok();
    match time.and_then(|t| t.parse().ok()) {
        Some(time) => (Some(time), &line[end + 1..]),
        None => (None, line),
    }
}

fn strip_timestamp(line: &str) -> &str {
    let kept = split_timestamp(line.as_bytes()).1.len();
    &line[line.len() - kept..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_told_from_the_line() {
        let (time, line) = split_timestamp(b"2026-11-20T17:43:15.123456789Z a b\n");
        assert_eq!(time.map(|t| t.to_string()).as_deref(), Some("2026-11-20T17:43:15.123456789Z"));
        assert_eq!(line, b"a b\n");
        assert_eq!(split_timestamp(b"a b\n"), (None, &b"a b\n"[..]));
        assert_eq!(split_timestamp(b"2026-11-20T17:43:15Z \n").1, b"\n");
    }

    #[test]
    fn the_last_lines_are_kept_and_bounded() {
        let many: String = (0..500).map(|n| format!("2026-11-20T17:43:15Z line {n}\n")).collect();
        let kept = last_lines(many.as_bytes());
        let last = "2026-11-20T17:43:15Z line 499\n";
        assert_eq!((kept.len(), kept[99].as_str()), (LINES, last));
        let long = format!("{}\n", "x".repeat(BYTES / 2)).repeat(5);
        let kept = last_lines(long.as_bytes());
        assert!(kept.concat().len() <= BYTES, "{}", kept.len());
    }
}
