//! `package logs` without `-f`: prints the logs that exist now.

use std::collections::BTreeMap;

use futures::StreamExt;
use jiff::Timestamp;

use super::printer::Printer;
use super::{Args, no_log, warn_unreadable};
use crate::cluster::KeptLogs;
use crate::cluster::attempts::{Choice, ContainerLog};
use crate::cluster::kept_logs::timed;
use crate::cluster::live::log::{LogError, LogStream, Request};
use crate::ctx::Ctx;
use crate::error::{Exit, Result};

/// Logs that are read at once.
const AT_ONCE: usize = 8;

/// What was read of one stage on one node.
struct Fetched {
    lines: Vec<Read>,
    /// The attempt that it is of.
    attempt: Option<usize>,
    /// Containers whose logs could not be read; what is gone is no error, but what there is to say.
    errors: Vec<(String, LogError)>,
}

/// A line, and where it comes from.
struct Read {
    at: Option<Timestamp>,
    node: String,
    container: String,
    line: Vec<u8>,
}

/// Where logs are read.
pub enum LogSource<'a> {
    Server(&'a kube::Client),
    Capture {
        logs: &'a KeptLogs,
        /// The capture's own time.
        now: Timestamp,
    },
}

pub async fn run(
    ctx: &mut Ctx,
    origin: &LogSource<'_>,
    args: &Args,
    choices: &[Choice],
) -> Result<Exit> {
    let prefixed = args.prefix || choices.len() > 1;
    let timed = args.timestamps || choices.len() > 1;
    let mut fetched: Vec<Fetched> = futures::stream::iter(choices)
        .map(|choice| fetch(origin, args, choice, timed))
        .buffered(AT_ONCE)
        .collect()
        .await;
    let mut lines: Vec<Read> = fetched.iter_mut().flat_map(|f| f.lines.drain(..)).collect();
    if choices.len() > 1 {
        // Equal times keep the order of nodes.
        lines.sort_by_key(|read| read.at);
    }
    let pieces: Vec<&ContainerLog> = choices
        .iter()
        .zip(&fetched)
        .flat_map(|(choice, f)| f.attempt.map(|at| &choice.attempts[at].pieces))
        .flatten()
        .collect();
    let mut printer = Printer::new(prefixed, pieces.into_iter());
    for read in &lines {
        if !printer.line(ctx, &read.node, &read.container, &read.line)? {
            return Ok(Exit::Done);
        }
    }
    let mut failed = BTreeMap::new();
    for (choice, fetched) in choices.iter().zip(&fetched) {
        no_log::about(ctx, choice, fetched.attempt, !fetched.errors.is_empty());
        failed.extend(fetched.errors.iter().map(|(what, error)| (what, error)));
    }
    for (what, error) in &failed {
        warn_unreadable(ctx, what, error);
    }
    if failed.is_empty() {
        Ok(Exit::Done)
    } else {
        Ok(Exit::Failed)
    }
}

/// The first attempt that gives anything, else what the operator has kept.
async fn fetch(origin: &LogSource<'_>, args: &Args, choice: &Choice, timed: bool) -> Fetched {
    let mut fetched = Fetched {
        lines: Vec::new(),
        attempt: None,
        errors: Vec::new(),
    };
    for (at, attempt) in choice.attempts.iter().enumerate() {
        let mut any = false;
        for piece in &attempt.pieces {
            match read(origin, args, piece, timed).await {
                Ok(lines) => {
                    any = true;
                    fetched.lines.extend(lines);
                }
                Err(error) if error.nothing_there() => {}
                Err(error) => {
                    let what = format!("{} in pod/{}", piece.container, piece.pod);
                    fetched.errors.push((what, error));
                }
            }
        }
        if any {
            fetched.attempt = Some(at);
            return fetched;
        }
    }
    if let Some(kept) = choice.last_logs.as_ref().filter(|_| !args.previous) {
        fetched.lines = kept
            .split_inclusive('\n')
            .map(|line| Read {
                at: None,
                node: choice.node.clone(),
                container: choice.stage.clone(),
                line: line.as_bytes().to_vec(),
            })
            .collect();
    }
    fetched
}

/// The lines of one container.
async fn read(
    origin: &LogSource<'_>,
    args: &Args,
    piece: &ContainerLog,
    with_times: bool,
) -> std::result::Result<Vec<Read>, LogError> {
    match origin {
        LogSource::Server(client) => from_server(client, args, piece, with_times).await,
        LogSource::Capture { logs, now } => from_capture(logs, *now, args, piece),
    }
}

async fn from_server(
    client: &kube::Client,
    args: &Args,
    piece: &ContainerLog,
    with_times: bool,
) -> std::result::Result<Vec<Read>, LogError> {
    let request = Request {
        timestamps: with_times,
        tail: args.lines(),
        since: args.since(),
        ..piece.request()
    };
    let mut log = LogStream::open(client, &request).await?;
    let mut lines = Vec::new();
    while let Some(line) = log.line().await? {
        if with_times {
            add_timed(&mut lines, args, piece, &line);
        } else {
            lines.push(Read::of(piece, None, line.to_vec()));
        }
    }
    Ok(lines)
}

fn from_capture(
    logs: &KeptLogs,
    now: Timestamp,
    args: &Args,
    piece: &ContainerLog,
) -> std::result::Result<Vec<Read>, LogError> {
    let kept = logs
        .log(piece)
        .map_err(|why| LogError { code: None, why })?;
    let mut lines = Vec::new();
    for line in kept {
        add_timed(&mut lines, args, piece, line.as_bytes());
    }
    let oldest = args.since.map(|since| now.saturating_sub(since));
    if let Some(Ok(oldest)) = oldest {
        lines.retain(|line| line.at.is_none_or(|at| at >= oldest));
    }
    let last = args.lines().map_or(lines.len(), |n| {
        usize::try_from(n).unwrap_or(usize::MAX).min(lines.len())
    });
    Ok(lines.split_off(lines.len() - last))
}

/// A line without a time belongs to the line before it.
fn add_timed(lines: &mut Vec<Read>, args: &Args, piece: &ContainerLog, line: &[u8]) {
    let (at, bare) = timed(line);
    let at = at.or_else(|| lines.last().and_then(|l| l.at));
    let shown = if args.timestamps { line } else { bare };
    lines.push(Read::of(piece, at, shown.to_vec()));
}

impl Read {
    fn of(piece: &ContainerLog, at: Option<Timestamp>, line: Vec<u8>) -> Read {
        Read {
            at,
            node: piece.node.clone(),
            container: piece.container.clone(),
            line,
        }
    }
}
