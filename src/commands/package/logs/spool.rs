//! A buffer for the lines of many logs, which merges them by time in bounded memory.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Read, Seek, SeekFrom, Write};

use jiff::Timestamp;
use tempfile::SpooledTempFile;

use crate::error::{Error, Result};

/// Maximum size of the buffer in memory, in bytes. Above it, the lines go to an unnamed temporary file, which
/// no other process can open.
const IN_MEMORY: usize = 16 << 20;
/// Number of bytes of one log that are written and read at once.
const CHUNK: usize = 16 << 10;

/// The source of a log.
#[derive(Debug, Clone)]
pub struct Name {
    pub node: String,
    pub container: String,
}

/// The lines of all logs.
pub struct Spool {
    file: SpooledTempFile,
    logs: Vec<SpooledLog>,
}

struct SpooledLog {
    /// Tie-breaker: for equal times, the log with the lower order comes first.
    order: (usize, usize),
    name: Name,
    /// Offsets and lengths of the chunks in the file.
    chunks: Vec<(u64, usize)>,
    /// Encoded lines that are not in the file yet.
    pending: Vec<u8>,
}

pub struct SpooledLine<'s> {
    pub name: &'s Name,
    pub text: &'s [u8],
}

impl Spool {
    pub fn new() -> Spool {
        Spool { file: SpooledTempFile::new(IN_MEMORY), logs: Vec::new() }
    }

    /// Adds an empty log, and returns its index.
    pub fn open(&mut self, order: (usize, usize), name: Name) -> usize {
        self.logs.push(SpooledLog { order, name, chunks: Vec::new(), pending: Vec::new() });
        self.logs.len() - 1
    }

    /// Adds a line to a log.
    ///
    /// # Errors
    ///
    /// The disk is full, or there is no directory for temporary files.
    pub fn push(&mut self, log: usize, at: Option<Timestamp>, line: &[u8]) -> Result<()> {
        let log = &mut self.logs[log];
        encode(&mut log.pending, at, line);
        if log.pending.len() >= CHUNK {
            log.flush(&mut self.file).map_err(cannot_buffer)?;
        }
        Ok(())
    }

    /// Passes the lines of all logs to `take`, merged by time, until `take` returns `false`. The lines of one
    /// log keep their order; a line without a time directly follows the line before it.
    pub fn merge(mut self, mut take: impl FnMut(SpooledLine<'_>) -> Result<bool>) -> Result<()> {
        self.logs.sort_by_key(|log| log.order);
        let mut cursors: Vec<Cursor> = Vec::new();
        let mut next = BinaryHeap::new();
        for (at, log) in self.logs.iter_mut().enumerate() {
            let mut cursor = Cursor::of(log);
            if cursor.advance(&mut self.file).map_err(cannot_buffer)? {
                next.push(Reverse((cursor.time, at)));
            }
            cursors.push(cursor);
        }
        while let Some(Reverse((_, at))) = next.pop() {
            let (log, cursor) = (&self.logs[at], &mut cursors[at]);
            let line = SpooledLine { name: &log.name, text: cursor.line() };
            if !take(line)? {
                return Ok(());
            }
            if cursor.advance(&mut self.file).map_err(cannot_buffer)? {
                next.push(Reverse((cursor.time, at)));
            }
        }
        Ok(())
    }
}

impl SpooledLog {
    fn flush(&mut self, file: &mut SpooledTempFile) -> io::Result<()> {
        let offset = file.seek(SeekFrom::End(0))?;
        file.write_all(&self.pending)?;
        self.chunks.push((offset, self.pending.len()));
        self.pending.clear();
        Ok(())
    }
}

fn cannot_buffer(error: io::Error) -> Error {
    Error::failed(format!("cannot buffer the logs in a temporary file: {error}"))
        .hint("use --node, --tail or --since to read less, or set TMPDIR to a directory with more space")
}

/// A cursor over the lines of one log.
struct Cursor {
    /// The chunks that remain to be read, in reverse order.
    chunks: Vec<(u64, usize)>,
    pending: Vec<u8>,
    chunk: Vec<u8>,
    /// The range of the current line in the chunk.
    text: std::ops::Range<usize>,
    time: Option<Timestamp>,
}

impl Cursor {
    fn of(log: &mut SpooledLog) -> Cursor {
        let mut chunks = std::mem::take(&mut log.chunks);
        chunks.reverse();
        Cursor {
            chunks,
            pending: std::mem::take(&mut log.pending),
            chunk: Vec::new(),
            text: 0..0,
            time: None,
        }
    }

    fn line(&self) -> &[u8] {
        &self.chunk[self.text.clone()]
    }

    /// Moves to the next line; `false` at the end.
    fn advance(&mut self, file: &mut SpooledTempFile) -> io::Result<bool> {
        if self.text.end == self.chunk.len() {
            self.chunk = match self.chunks.pop() {
                Some((offset, length)) => {
                    let mut chunk = vec![0; length];
                    file.seek(SeekFrom::Start(offset))?;
                    file.read_exact(&mut chunk)?;
                    chunk
                }
                None => std::mem::take(&mut self.pending),
            };
            self.text = 0..0;
        }
        let Some((time, text)) = decode(&self.chunk, self.text.end) else {
            return Ok(false);
        };
        (self.time, self.text) = (time, text);
        Ok(true)
    }
}

/// Number of bytes in front of each line: a flag for its time, the time's seconds and nanoseconds, and the
/// length of the line.
const HEADER: usize = 1 + 8 + 4 + 4;

fn encode(out: &mut Vec<u8>, at: Option<Timestamp>, line: &[u8]) {
    let time = at.unwrap_or_default();
    out.push(u8::from(at.is_some()));
    out.extend_from_slice(&time.as_second().to_le_bytes());
    out.extend_from_slice(&time.subsec_nanosecond().to_le_bytes());
    // Lines arrive in pieces of at most a mebibyte.
    let length = u32::try_from(line.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(line);
}

/// Decodes the header at `start`: the time of the line, and the range of its text.
fn decode(chunk: &[u8], start: usize) -> Option<(Option<Timestamp>, std::ops::Range<usize>)> {
    let header = chunk.get(start..start + HEADER)?;
    let (has_time, header) = header.split_first()?;
    let (seconds, header) = header.split_first_chunk()?;
    let (nanoseconds, header) = header.split_first_chunk()?;
    let length = u32::from_le_bytes(*header.first_chunk()?);
    let time = Timestamp::new(i64::from_le_bytes(*seconds), i32::from_le_bytes(*nanoseconds));
    let text = start + HEADER;
    let text = text..text + usize::try_from(length).ok()?;
    Some((time.ok().filter(|_| *has_time == 1), text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(second: i64) -> Option<Timestamp> {
        Timestamp::from_second(second).ok()
    }

    fn merged(spool: Spool) -> Vec<String> {
        let mut lines = Vec::new();
        let taken = spool.merge(|line| {
            let text = String::from_utf8_lossy(line.text);
            lines.push(format!("{}: {text}", line.name.node));
            Ok(true)
        });
        taken.expect("a disk");
        lines
    }

    fn name(node: &str) -> Name {
        Name { node: node.to_owned(), container: String::new() }
    }

    #[test]
    fn lines_are_merged_by_time_and_then_by_order() {
        let mut spool = Spool::new();
        let two = spool.open((1, 0), name("two"));
        let one = spool.open((0, 0), name("one"));
        for (log, at, text) in
            [(two, time(1), "a"), (two, time(3), "b"), (one, time(1), "c"), (one, time(2), "d")]
        {
            spool.push(log, at, text.as_bytes()).expect("memory");
        }
        let kept = spool.open((2, 0), name("kept"));
        spool.push(kept, None, b"e").expect("memory");
        let expected = ["kept: e", "one: c", "two: a", "one: d", "two: b"];
        assert_eq!(merged(spool), expected);
    }

    #[test]
    fn chunks_keep_their_order_on_disk() {
        let mut spool = Spool::new();
        spool.file = SpooledTempFile::new(0);
        let logs = ["one", "two"].map(|node| spool.open((0, 0), name(node)));
        let long = "x".repeat(CHUNK / 3);
        for second in 0..50 {
            for log in logs {
                let text = format!("{second} {long}");
                spool.push(log, time(second), text.as_bytes()).expect("a disk");
            }
        }
        let lines = merged(spool);
        let starts = lines.iter().map(|line| line.split(' ').nth(1).expect("a number"));
        let expected = (0..50).flat_map(|second| [second.to_string(), second.to_string()]);
        assert!(starts.eq(expected), "{}", lines.len());
    }
}
