//! `package logs -f`: prints logs until all runs have finished.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{Sender, channel};
use tokio::time::Instant;

use super::{Args, about, warn_unreadable};
use crate::cluster::attempts::{Choice, ContainerLog, split_timestamp};
use crate::cluster::live::logs::{LogError, LogStream, Request, Since};
use crate::cluster::{Cluster, Node};
use crate::ctx::{ContactNotice, Ctx, WatchUpdate};
use crate::error::{Error, Exit, Result};
use crate::view::plural;
use crate::view::text::{self, Label, Line};

/// Maximum number of logs followed at once.
const AT_ONCE: usize = 64;
/// Maximum number of lines that wait to be printed.
const QUEUE: usize = 1024;
/// Delay before a broken log of a running container is requested again.
const AGAIN: Duration = Duration::from_secs(2);

pub async fn run(ctx: &mut Ctx, client: &Client, args: &Args, cluster: Cluster) -> Result<Exit> {
    let nodes = concerned(&cluster, args)?.len();
    let (sender, mut events) = channel(QUEUE);
    let mut following = Following {
        client,
        args,
        sender,
        slots: Arc::new(Semaphore::new(AT_ONCE)),
        runs: HashMap::new(),
        shown_notices: HashSet::new(),
        printer: Printer::new(args.prefix || nodes != 1, std::iter::empty()),
        printed: false,
        unread: false,
        first: true,
    };
    let mut watch = ctx.watch(cluster).await?;
    let mut interrupted = std::pin::pin!(ctx.interrupt());
    loop {
        report(ctx, watch.notice());
        let ready = watch.ready();
        let cluster = watch.cluster();
        let choices = super::choose(cluster, &args.nodes(cluster)?, args.wanted());
        let is_to_come = super::is_to_come(cluster, &concerned(cluster, args)?, args.wanted());
        let over = ready && !is_to_come && !choices.iter().any(|c| c.alive);
        following.begin(ctx, &choices);
        let mut again = std::pin::pin!(tokio::time::sleep(AGAIN));
        loop {
            if over && following.active() == 0 {
                return following.end(ctx, watch.cluster(), &choices);
            }
            tokio::select! {
                biased;
                () = &mut interrupted => return Ok(Exit::Interrupted),
                Some(event) = events.recv() => if !following.take(ctx, event)? {
                    return Ok(Exit::Done);
                },
                news = watch.news() => match news {
                    WatchUpdate::Changed => break,
                    WatchUpdate::Away => report(ctx, watch.notice()),
                    WatchUpdate::Lost(error) => return Err(Error::from(error)),
                },
                () = &mut again => break,
            }
        }
    }
}

fn report(ctx: &mut Ctx, notice: Option<ContactNotice>) {
    match notice {
        Some(ContactNotice::Lost(warning)) => ctx.warn(warning),
        Some(ContactNotice::Restored(note)) => ctx.note(note),
        None => {}
    }
}

/// The selected nodes that have keys of the custom resource, or are selected by it.
fn concerned<'a>(cluster: &'a Cluster, args: &Args) -> Result<Vec<&'a Node>> {
    let name = args.skyhook();
    let skyhook = cluster.skyhook(name);
    let mut nodes = args.nodes(cluster)?;
    nodes.retain(|node| {
        skyhook.is_some_and(|s| s.selects(node))
            || cluster.on_node(node, name).is_some_and(|on| on.has_keys())
    });
    Ok(nodes)
}

struct Following<'a> {
    client: &'a Client,
    args: &'a Args,
    sender: Sender<LogEvent>,
    slots: Arc<Semaphore>,
    runs: HashMap<Key, FollowedLog>,
    /// Messages that were printed on stderr, to print each once.
    shown_notices: HashSet<String>,
    printer: Printer,
    printed: bool,
    /// Whether a log could not be read.
    unread: bool,
    first: bool,
}

/// A log whose reading has started.
struct FollowedLog {
    /// The end of the log, `None` while it is followed.
    ended: Option<Instant>,
    reached: LogPosition,
}

impl Following<'_> {
    /// Starts to follow new logs, and logs that broke while their container runs.
    fn begin(&mut self, ctx: &mut Ctx, choices: &[Choice]) {
        for choice in choices {
            let best = choice.attempts.first();
            for piece in best.iter().flat_map(|a| &a.pieces) {
                self.follow(piece);
            }
            let silent = best.is_none_or(|a| a.pieces.is_empty());
            if silent && choice.alive && !choice.messages.is_empty() {
                let key = format!("{} {:?}", choice.reference, choice.messages);
                if self.shown_notices.insert(key) {
                    about(ctx, choice, None, false);
                }
            }
        }
        let waiting = self.active().saturating_sub(AT_ONCE);
        if waiting > 0 && self.shown_notices.insert("slots".to_owned()) {
            ctx.warn(format!(
                "following {AT_ONCE} logs at a time; waiting: {waiting}; use --node or -l to select fewer"
            ));
        }
        self.first = false;
    }

    fn follow(&mut self, piece: &ContainerLog) {
        let key = Key::from(piece);
        let reached = match self.runs.get(&key) {
            None => LogPosition::default(),
            Some(run) if piece.running && run.ended.is_some_and(|at| at.elapsed() >= AGAIN) => run.reached,
            Some(_) => return,
        };
        let from_start = !self.first || reached != LogPosition::default();
        let mut request = Request::from(piece);
        request.follow = piece.running;
        if !from_start {
            request.tail = self.args.lines();
            request.since = self.args.since();
        }
        self.runs.insert(key.clone(), FollowedLog { ended: None, reached });
        tokio::spawn(stream(
            self.client.clone(),
            request,
            key,
            reached,
            self.args.timestamps,
            self.slots.clone(),
            self.sender.clone(),
        ));
    }

    fn active(&self) -> usize {
        self.runs.values().filter(|run| run.ended.is_none()).count()
    }

    /// Prints a line or records an end; `false` if the reader has closed the pipe.
    fn take(&mut self, ctx: &mut Ctx, event: LogEvent) -> Result<bool> {
        match event {
            LogEvent::Line { key, line } => {
                self.printed = true;
                self.printer.line(ctx, &key.node, &key.container, &line)
            }
            LogEvent::End { key, reached, error } => {
                if let Some(error) = error.filter(|e| !e.nothing_there()) {
                    let what = format!("{} in pod/{}/{}", key.container, key.namespace, key.pod);
                    if self.shown_notices.insert(format!("{what}: {error}")) {
                        warn_unreadable(ctx, &what, &error);
                    }
                    self.unread = true;
                }
                self.runs.insert(key, FollowedLog { ended: Some(Instant::now()), reached });
                Ok(true)
            }
        }
    }

    fn end(&self, ctx: &mut Ctx, cluster: &Cluster, choices: &[Choice]) -> Result<Exit> {
        let nodes = concerned(cluster, self.args)?;
        let exit = if self.unread { Exit::Failed } else { Exit::Done };
        if !self.printed && choices.is_empty() {
            ctx.note(super::nothing(cluster, &nodes, self.args.wanted()));
            return Ok(exit);
        }
        for choice in choices {
            let newest = (!choice.attempts.is_empty()).then_some(0);
            about(ctx, choice, newest, false);
        }
        let package = &self.args.package;
        ctx.note(format!("No more output from {package} on {}.", plural(nodes.len(), "node")));
        Ok(exit)
    }
}

/// Maximum number of consecutive reconnects without a new line.
const RETRIES: u32 = 6;
/// Delay before the first reconnect; doubles with each further reconnect without a new line.
const FIRST_WAIT: Duration = Duration::from_millis(200);

/// One run of one container.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    pub node: String,
    pub namespace: String,
    pub pod: String,
    pub uid: String,
    pub container: String,
    pub run: i64,
}

/// How much of a log was read: the time of the last line, and the number of lines with exactly that time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogPosition {
    at: Option<Timestamp>,
    lines: usize,
}

/// A line of a log, or its end.
pub enum LogEvent {
    Line { key: Key, line: Vec<u8> },
    End { key: Key, reached: LogPosition, error: Option<LogError> },
}

/// Reads a log to its end. Reconnects after a broken connection, and continues after the last line.
pub async fn stream(
    client: Client,
    request: Request,
    key: Key,
    mut reached: LogPosition,
    with_times: bool,
    slots: Arc<Semaphore>,
    events: Sender<LogEvent>,
) {
    let _slot = slots.acquire().await;
    let mut failures = 0;
    let error = loop {
        let before = reached;
        match once(&client, &request, &key, &mut reached, with_times, &events).await {
            Ok(()) => break None,
            Err(error) if !error.passing() => break Some(error),
            Err(error) => {
                failures = if reached == before { failures + 1 } else { 1 };
                if failures > RETRIES {
                    break Some(error);
                }
                tokio::time::sleep(FIRST_WAIT * 2_u32.pow(failures - 1)).await;
            }
        }
    };
    // Without a receiver, the command has ended.
    let _ = events.send(LogEvent::End { key, reached, error }).await;
}

async fn once(
    client: &Client,
    request: &Request,
    key: &Key,
    reached: &mut LogPosition,
    with_times: bool,
    events: &Sender<LogEvent>,
) -> Result<(), LogError> {
    let mut request = Request { timestamps: true, ..request.clone() };
    if let Some(at) = reached.at {
        request.tail = None;
        request.since = Since::Time(at);
    }
    let mut log = LogStream::open(client, &request).await?;
    let mut again = RepeatFilter::from(*reached);
    while let Some(line) = log.line().await? {
        let (at, bare) = split_timestamp(&line);
        if at.is_some_and(|at| again.seen(at)) {
            continue;
        }
        reached.pass(at);
        let line = if with_times { line.to_vec() } else { bare.to_vec() };
        let key = key.clone();
        if events.send(LogEvent::Line { key, line }).await.is_err() {
            return Ok(());
        }
    }
    Ok(())
}

impl LogPosition {
    fn pass(&mut self, at: Option<Timestamp>) {
        match at {
            Some(at) if self.at == Some(at) => self.lines += 1,
            Some(at) => (self.at, self.lines) = (Some(at), 1),
            None => {}
        }
    }
}

/// Drops lines that are repeated after a reconnect.
struct RepeatFilter {
    until: LogPosition,
    same: usize,
}

impl From<LogPosition> for RepeatFilter {
    fn from(until: LogPosition) -> RepeatFilter {
        RepeatFilter { until, same: 0 }
    }
}

impl RepeatFilter {
    fn seen(&mut self, at: Timestamp) -> bool {
        let Some(until) = self.until.at else {
            return false;
        };
        self.same += usize::from(at == until);
        at < until || (at == until && self.same <= self.until.lines)
    }
}

impl From<&ContainerLog> for Key {
    fn from(log: &ContainerLog) -> Key {
        Key {
            node: log.node.clone(),
            namespace: log.namespace.clone(),
            pod: log.pod.clone(),
            uid: log.uid.clone(),
            container: log.container.clone(),
            run: log.run,
        }
    }
}

/// Prints lines of several pods with prefixes, or of one pod unchanged.
pub struct Printer {
    prefixed: bool,
    /// The nodes in the order of first appearance, which determines their colors.
    nodes: Vec<String>,
    /// The largest widths of a node and a container name so far.
    width: (usize, usize),
    /// The source of the last line, if lines have no prefix.
    last: Option<(String, String)>,
    /// Whether the last line had no line break.
    open: bool,
}

impl Printer {
    pub fn new<'a>(prefixed: bool, pieces: impl Iterator<Item = &'a ContainerLog>) -> Printer {
        let mut printer = Printer { prefixed, nodes: Vec::new(), width: (0, 0), last: None, open: false };
        for piece in pieces {
            printer.note_source(&piece.node, &piece.container);
        }
        printer
    }

    /// Prints a line; `false` if the reader has closed the pipe.
    pub fn line(&mut self, ctx: &mut Ctx, node: &str, container: &str, line: &[u8]) -> Result<bool> {
        self.note_source(node, container);
        if !self.prefixed {
            self.announce(ctx, node, container)?;
            self.open = line.last().is_some_and(|b| *b != b'\n');
            return ctx.log(&Line::default(), line);
        }
        let at = self.nodes.iter().position(|n| n == node).unwrap_or(0);
        let tint = Label::Tint(u8::try_from(at % 6).unwrap_or(0));
        let (wide, wider) = self.width;
        let prefix = tint.span(format!("{node:wide$} {container:wider$}")) + text::dim(" │ ");
        // A truncated line must not run into the next one.
        match line.last() {
            Some(b'\n') => ctx.log(&prefix, line),
            _ => ctx.log(&prefix, &[line, b"\n"].concat()),
        }
    }

    /// Prints a new source on stderr if lines have no prefix.
    fn announce(&mut self, ctx: &mut Ctx, node: &str, container: &str) -> Result<()> {
        let now = (node.to_owned(), container.to_owned());
        if self.last.as_ref() == Some(&now) {
            return Ok(());
        }
        if std::mem::take(&mut self.open) {
            ctx.log(&Line::default(), b"\n")?;
        }
        let mut note = text::Text::new();
        note.line(text::dim(format!("{node} {container}:")));
        ctx.note(note);
        self.last = Some(now);
        Ok(())
    }

    /// Widens the prefix for the names of a log.
    pub fn note_source(&mut self, node: &str, container: &str) {
        if !self.nodes.iter().any(|n| n == node) {
            self.nodes.push(node.to_owned());
        }
        self.width.0 = self.width.0.max(node.len());
        self.width.1 = self.width.1.max(container.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_last_moment_are_counted() {
        let time = |text: &str| text.parse::<Timestamp>().expect("a time");
        let (a, b, c) =
            (time("2026-11-20T12:00:00.1Z"), time("2026-11-20T12:00:00.2Z"), time("2026-11-20T12:00:00.3Z"));
        let mut reached = LogPosition::default();
        for at in [a, b, b] {
            reached.pass(Some(at));
        }
        let mut again = RepeatFilter::from(reached);
        let seen = [a, b, b, b, c].map(|at| again.seen(at));
        assert_eq!(seen, [true, true, true, false, false]);
    }
}
