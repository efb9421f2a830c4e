//! `package logs` without `-f`: prints the existing logs.

use std::cell::RefCell;
use std::collections::BTreeMap;

use futures::StreamExt;
use jiff::Timestamp;

use super::printer::Printer;
use super::spool::{Name, Spool};
use super::{Args, no_log, warn_unreadable};
use crate::cluster::KeptLogs;
use crate::cluster::attempts::{Choice, ContainerLog};
use crate::cluster::kept_logs::split_timestamp;
use crate::cluster::live::log::{LogError, LogStream, Request};
use crate::ctx::Ctx;
use crate::error::{Exit, Result};

/// Maximum number of logs read at once.
const AT_ONCE: usize = 8;

/// The log of one stage on one node.
#[derive(Default)]
struct Fetched {
    /// The index of the attempt whose log was read.
    attempt: Option<usize>,
    /// Containers with unreadable logs. A missing log, as after the deletion of a pod, is no error.
    errors: Vec<(String, LogError)>,
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

/// Receives the lines of one stage on one node while they are read.
trait Lines {
    /// Starts a log, which is one of the logs of `attempt`.
    fn open(&mut self, log: Name, attempt: &[ContainerLog]);

    /// Receives a line; returns `false` if the reader has closed the pipe.
    fn take(&mut self, at: Option<Timestamp>, line: &[u8]) -> Result<bool>;
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
        no_log::about(ctx, choice, fetched.attempt, !fetched.errors.is_empty());
        failed.extend(fetched.errors.iter().map(|(what, error)| (what, error)));
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
    let shown = choices.iter().zip(&fetched);
    let pieces = shown.filter_map(|(choice, f)| Some(&choice.attempts[f.attempt?].pieces));
    let mut printer = Printer::new(true, pieces.flatten());
    let mut reader_gone = false;
    spool.into_inner().merge(|line| {
        let goes_on = printer.line(ctx, &line.name.node, &line.name.container, line.text)?;
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

    fn take(&mut self, _: Option<Timestamp>, line: &[u8]) -> Result<bool> {
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

    fn take(&mut self, at: Option<Timestamp>, line: &[u8]) -> Result<bool> {
        if let Some(log) = self.log {
            self.spool.borrow_mut().push(log, at, line)?;
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
        let name = Name { node: choice.node.clone(), container: choice.stage.clone() };
        lines.open(name, &[]);
        for line in kept.split_inclusive('\n') {
            if !lines.take(None, line.as_bytes())? {
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
        let mut last = None;
        loop {
            let line = match log.line().await {
                Ok(Some(line)) => line,
                Ok(None) => return Ok(Ok(true)),
                Err(error) => return Ok(Err(error)),
            };
            let goes_on =
                if self.timed { self.take_timed(&mut last, &line)? } else { self.lines.take(None, &line)? };
            if !goes_on {
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
        let oldest = self.args.since.map(|since| now.saturating_sub(since));
        let oldest = oldest.and_then(std::result::Result::ok);
        let mut at = None;
        let mut recent: Vec<&String> = Vec::new();
        for line in kept {
            at = split_timestamp(line.as_bytes()).0.or(at);
            if at.zip(oldest).is_none_or(|(at, oldest)| at >= oldest) {
                recent.push(line);
            }
        }
        let most = self.args.lines().map(usize::try_from);
        let most = most.map_or(usize::MAX, |n| n.unwrap_or(usize::MAX));
        let mut last = None;
        for line in &recent[recent.len().saturating_sub(most)..] {
            if !self.take_timed(&mut last, line.as_bytes())? {
                return Ok(Ok(false));
            }
        }
        Ok(Ok(true))
    }

    fn begin(&mut self) {
        self.begun = true;
        let name = Name { node: self.piece.node.clone(), container: self.piece.container.clone() };
        self.lines.open(name, self.attempt);
    }

    /// Passes on a line with its time. A line without a time gets the time of the previous line.
    fn take_timed(&mut self, last: &mut Option<Timestamp>, line: &[u8]) -> Result<bool> {
        let (at, bare) = split_timestamp(line);
        *last = at.or(*last);
        let shown = if self.args.timestamps { line } else { bare };
        self.lines.take(*last, shown)
    }
}
