//! `package logs` without `-f`: prints the existing logs.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::mem;
use std::ops::Range;

use futures::StreamExt;
use jiff::Timestamp;
use tempfile::SpooledTempFile;

use super::follow::Printer;
use super::{Args, warn_unreadable};
use crate::cluster::KeptLogs;
use crate::cluster::attempts::{Choice, ContainerLog, split_timestamp};
use crate::cluster::live::logs::{LogError, LogStream, Request};
use crate::ctx::Ctx;
use crate::error::{Error, Exit, Result};
use crate::view::plural;

/// Maximum number of logs read at once.
const AT_ONCE: usize = 8;

/// The log of one stage on one node.
#[derive(Default)]
struct Fetched {
    /// The index of the attempt whose log was read.
    attempt: Option<usize>,
    /// Containers with unreadable logs. A missing log, as after the deletion of a pod, is no error.
    errors: Vec<(String, LogError)>,
    /// Number of logs of healthy attempts that the capture does not contain.
    left_out: usize,
    /// Whether the reader has closed the pipe.
    reader_gone: bool,
}

/// The source of the logs.
pub enum LogSource<'a> {
    Server(&'a kube::Client),
    Capture {
        logs: &'a KeptLogs,
        /// The time of the capture.
        now: Timestamp,
    },
}

impl LogSource<'_> {
    /// Whether this is a capture whose index does not list the log.
    fn leaves_out(&self, piece: &ContainerLog) -> bool {
        matches!(self, LogSource::Capture { logs, .. } if !logs.lists(piece))
    }
}

/// Receives the lines of one stage on one node while they are read.
trait Lines {
    /// Starts a log, which is one of the logs of `attempt`.
    fn open(&mut self, log: Name, attempt: &[ContainerLog]);

    /// Receives a line, with its time if the log is timed; returns `false` if the reader has closed the pipe.
    fn take(&mut self, line: &[u8]) -> Result<bool>;
}

pub async fn run(ctx: &mut Ctx, origin: &LogSource<'_>, args: &Args, choices: &[Choice]) -> Result<Exit> {
    let fetched = match choices {
        [only] => {
            let mut lines =
                Printed { printer: Printer::new(args.prefix, std::iter::empty()), ctx, log: None };
            vec![fetch(origin, args, only, args.timestamps, &mut lines).await?]
        }
        many => merge(ctx, origin, args, many).await?,
    };
    if fetched.iter().any(|f| f.reader_gone) {
        return Ok(Exit::Done);
    }
    let mut failed = BTreeMap::new();
    for (choice, fetched) in choices.iter().zip(&fetched) {
        let unread = fetched.left_out > 0 || !fetched.errors.is_empty();
        super::about(ctx, choice, fetched.attempt, unread);
        failed.extend(fetched.errors.iter().map(|(what, error)| (what, error)));
    }
    let left_out: usize = fetched.iter().map(|fetched| fetched.left_out).sum();
    if left_out > 0 {
        let logs = plural(left_out, "log");
        ctx.note(format!("not in the capture: {logs}; `collect` keeps those of stages that fail or run"));
    }
    for (what, error) in &failed {
        warn_unreadable(ctx, what, error);
    }
    if failed.is_empty() { Ok(Exit::Done) } else { Ok(Exit::Failed) }
}

/// Reads several logs concurrently and prints their lines by time.
async fn merge(
    ctx: &mut Ctx,
    origin: &LogSource<'_>,
    args: &Args,
    choices: &[Choice],
) -> Result<Vec<Fetched>> {
    let spool = RefCell::new(Spool::new());
    let each = choices.iter().enumerate().map(|(number, choice)| {
        let mut lines = Spooled { spool: &spool, order: (number, 0), log: None };
        async move { fetch(origin, args, choice, true, &mut lines).await }
    });
    let fetched: Vec<Result<Fetched>> = futures::stream::iter(each).buffered(AT_ONCE).collect().await;
    let mut fetched = fetched.into_iter().collect::<Result<Vec<Fetched>>>()?;
    let pieces =
        choices.iter().zip(&fetched).filter_map(|(choice, f)| Some(&choice.attempts[f.attempt?].pieces));
    let mut printer = Printer::new(true, pieces.flatten());
    let mut reader_gone = false;
    spool.into_inner().merge(|log, line| {
        let text = if log.timed && !args.timestamps { split_timestamp(line).1 } else { line };
        let goes_on = printer.line(ctx, &log.node, &log.container, text)?;
        reader_gone = !goes_on;
        Ok(goes_on)
    })?;
    if let Some(first) = fetched.first_mut() {
        first.reader_gone = reader_gone;
    }
    Ok(fetched)
}

/// Prints lines immediately.
struct Printed<'a> {
    ctx: &'a mut Ctx,
    printer: Printer,
    log: Option<Name>,
}

impl Lines for Printed<'_> {
    fn open(&mut self, log: Name, attempt: &[ContainerLog]) {
        for piece in attempt {
            self.printer.note_source(&piece.node, &piece.container);
        }
        self.log = Some(log);
    }

    fn take(&mut self, line: &[u8]) -> Result<bool> {
        let Some(log) = &self.log else {
            return Ok(true);
        };
        self.printer.line(self.ctx, &log.node, &log.container, line)
    }
}

/// Buffers lines until all logs are read.
struct Spooled<'a> {
    spool: &'a RefCell<Spool>,
    /// The index of the choice, and of its next log.
    order: (usize, usize),
    log: Option<usize>,
}

impl Lines for Spooled<'_> {
    fn open(&mut self, log: Name, _: &[ContainerLog]) {
        self.log = Some(self.spool.borrow_mut().open(self.order, log));
        self.order.1 += 1;
    }

    fn take(&mut self, line: &[u8]) -> Result<bool> {
        if let Some(log) = self.log {
            self.spool.borrow_mut().push(log, line)?;
        }
        Ok(true)
    }
}

/// Reads the first attempt that has a log, otherwise the last lines that the operator kept.
async fn fetch(
    origin: &LogSource<'_>,
    args: &Args,
    choice: &Choice,
    timed: bool,
    lines: &mut impl Lines,
) -> Result<Fetched> {
    let mut fetched = Fetched::default();
    for (at, attempt) in choice.attempts.iter().enumerate() {
        let mut any = false;
        for piece in &attempt.pieces {
            let mut read = PieceReader {
                args,
                timed,
                lines: &mut *lines,
                piece,
                attempt: &attempt.pieces,
                begun: false,
            };
            let end = read.read(origin).await?;
            any |= read.begun;
            match end {
                Ok(goes_on) => fetched.reader_gone = !goes_on,
                Err(error) if error.nothing_there() => {}
                Err(_) if attempt.failure.is_none() && origin.leaves_out(piece) => fetched.left_out += 1,
                Err(error) => {
                    let what = piece.place();
                    fetched.errors.push((what, error));
                }
            }
            if fetched.reader_gone {
                break;
            }
        }
        if any {
            fetched.attempt = Some(at);
            return Ok(fetched);
        }
    }
    if let Some(kept) = choice.last_logs.as_ref().filter(|_| !args.previous) {
        let name = Name { node: choice.node.clone(), container: choice.stage.clone(), timed: false };
        lines.open(name, &[]);
        for line in kept.split_inclusive('\n') {
            if !lines.take(line.as_bytes())? {
                fetched.reader_gone = true;
                break;
            }
        }
    }
    Ok(fetched)
}

/// Reads the log of one container.
struct PieceReader<'r, L> {
    args: &'r Args,
    /// Whether to read the lines with their times.
    timed: bool,
    lines: &'r mut L,
    piece: &'r ContainerLog,
    attempt: &'r [ContainerLog],
    /// Whether the log exists and its lines have started.
    begun: bool,
}

/// Whether the reader wants more lines, or why the log could not be read completely.
type ReadEnd = std::result::Result<bool, LogError>;

impl<L: Lines> PieceReader<'_, L> {
    async fn read(&mut self, origin: &LogSource<'_>) -> Result<ReadEnd> {
        match origin {
            LogSource::Server(client) => self.read_server(client).await,
            LogSource::Capture { logs, now } => self.read_capture(logs, *now),
        }
    }

    async fn read_server(&mut self, client: &kube::Client) -> Result<ReadEnd> {
        let request = Request {
            timestamps: self.timed,
            tail: self.args.lines(),
            since: self.args.since(),
            ..Request::from(self.piece)
        };
        let mut log = match LogStream::open(client, &request).await {
            Ok(log) => log,
            Err(error) => return Ok(Err(error)),
        };
        self.begin();
        loop {
            let line = match log.line().await {
                Ok(Some(line)) => line,
                Ok(None) => return Ok(Ok(true)),
                Err(error) => return Ok(Err(error)),
            };
            if !self.lines.take(&line)? {
                return Ok(Ok(false));
            }
        }
    }

    fn read_capture(&mut self, logs: &KeptLogs, now: Timestamp) -> Result<ReadEnd> {
        let kept = match logs.log(self.piece) {
            Ok(kept) => kept,
            Err(why) => return Ok(Err(LogError { code: None, why })),
        };
        self.begin();
        let oldest = self.args.since.map(|since| now.saturating_sub(since)).and_then(std::result::Result::ok);
        let mut at = None;
        let mut recent: Vec<&String> = Vec::new();
        for line in kept {
            at = split_timestamp(line.as_bytes()).0.or(at);
            if at.zip(oldest).is_none_or(|(at, oldest)| at >= oldest) {
                recent.push(line);
            }
        }
        let most = self.args.lines().map(usize::try_from).map_or(usize::MAX, |n| n.unwrap_or(usize::MAX));
        for line in &recent[recent.len().saturating_sub(most)..] {
            let line = line.as_bytes();
            if !self.lines.take(if self.timed { line } else { split_timestamp(line).1 })? {
                return Ok(Ok(false));
            }
        }
        Ok(Ok(true))
    }

    fn begin(&mut self) {
        self.begun = true;
        let (node, container) = (self.piece.node.clone(), self.piece.container.clone());
        self.lines.open(Name { node, container, timed: self.timed }, self.attempt);
    }
}

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
    /// Whether its lines begin with their times.
    pub timed: bool,
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
    /// Offsets and lengths of the chunks in the file; of those that remain to be read, in reverse order.
    chunks: Vec<(u64, usize)>,
    /// Lines that are not in the file yet.
    pending: Vec<u8>,
    /// The chunk that is read.
    chunk: Vec<u8>,
    /// The range of the current line in the chunk.
    line: Range<usize>,
    /// The time of the current line, or else of a line before it.
    time: Option<Timestamp>,
}

impl Spool {
    pub fn new() -> Spool {
        Spool { file: SpooledTempFile::new(IN_MEMORY), logs: Vec::new() }
    }

    /// Adds an empty log, and returns its index.
    pub fn open(&mut self, order: (usize, usize), name: Name) -> usize {
        let (chunks, pending, chunk) = Default::default();
        self.logs.push(SpooledLog { order, name, chunks, pending, chunk, line: 0..0, time: None });
        self.logs.len() - 1
    }

    /// Adds a line to a log.
    ///
    /// # Errors
    ///
    /// The disk is full, or there is no directory for temporary files.
    pub fn push(&mut self, log: usize, line: &[u8]) -> Result<()> {
        let log = &mut self.logs[log];
        log.pending.extend_from_slice(line);
        // A truncated line must not run into the next one.
        if !line.ends_with(b"\n") {
            log.pending.push(b'\n');
        }
        if log.pending.len() >= CHUNK {
            log.flush(&mut self.file).map_err(cannot_buffer)?;
        }
        Ok(())
    }

    /// Passes the lines of all logs to `take`, merged by time, until `take` returns `false`. The lines of one
    /// log keep their order; a line without a time directly follows the line before it.
    pub fn merge(mut self, mut take: impl FnMut(&Name, &[u8]) -> Result<bool>) -> Result<()> {
        self.logs.sort_by_key(|log| log.order);
        let mut next = BinaryHeap::new();
        for (at, log) in self.logs.iter_mut().enumerate() {
            log.chunks.reverse();
            if log.advance(&mut self.file).map_err(cannot_buffer)? {
                next.push(Reverse((log.time, at)));
            }
        }
        while let Some(Reverse((_, at))) = next.pop() {
            let log = &mut self.logs[at];
            if !take(&log.name, &log.chunk[log.line.clone()])? {
                return Ok(());
            }
            if log.advance(&mut self.file).map_err(cannot_buffer)? {
                next.push(Reverse((log.time, at)));
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

    /// Moves to the next line; `false` at the end.
    fn advance(&mut self, file: &mut SpooledTempFile) -> io::Result<bool> {
        if self.line.end == self.chunk.len() {
            self.chunk = match self.chunks.pop() {
                Some((offset, length)) => {
                    let mut chunk = vec![0; length];
                    file.seek(SeekFrom::Start(offset))?;
                    file.read_exact(&mut chunk)?;
                    chunk
                }
                None => mem::take(&mut self.pending),
            };
            self.line = 0..0;
        }
        let start = self.line.end;
        let Some(line) = self.chunk[start..].split_inclusive(|byte| *byte == b'\n').next() else {
            return Ok(false);
        };
        self.line = start..start + line.len();
        if self.name.timed {
            self.time = split_timestamp(line).0.or(self.time);
        }
        Ok(true)
    }
}

fn cannot_buffer(error: io::Error) -> Error {
    Error::failed(format!("cannot buffer the logs in a temporary file: {error}"))
        .hint("use --node, --tail or --since to read less, or set TMPDIR to a directory with more space")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(second: i64, text: &str) -> Vec<u8> {
        let time = Timestamp::from_second(second).expect("a time");
        format!("{time} {text}\n").into_bytes()
    }

    fn merged(spool: Spool) -> Vec<String> {
        let mut lines = Vec::new();
        let taken = spool.merge(|log, line| {
            let text = if log.timed { split_timestamp(line).1 } else { line };
            lines.push(format!("{}: {}", log.node, String::from_utf8_lossy(text).trim_end()));
            Ok(true)
        });
        taken.expect("a disk");
        lines
    }

    fn name(node: &str) -> Name {
        Name { node: node.to_owned(), container: String::new(), timed: node != "kept" }
    }

    #[test]
    fn lines_are_merged_by_time_and_then_by_order() {
        let mut spool = Spool::new();
        let two = spool.open((1, 0), name("two"));
        let one = spool.open((0, 0), name("one"));
        for (log, at, text) in [(two, 1, "a"), (two, 3, "b"), (one, 1, "c"), (one, 2, "d")] {
            spool.push(log, &line(at, text)).expect("memory");
        }
        let kept = spool.open((2, 0), name("kept"));
        spool.push(kept, b"e").expect("memory");
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
                spool.push(log, &line(second, &format!("{second} {long}"))).expect("a disk");
            }
        }
        let lines = merged(spool);
        let starts = lines.iter().map(|line| line.split(' ').nth(1).expect("a number"));
        let expected = (0..50).flat_map(|second| [second.to_string(), second.to_string()]);
        assert!(starts.eq(expected), "{}", lines.len());
    }
}
