//! `package logs -f`: prints logs until all runs have finished.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::sync::mpsc::{Sender, channel};
use tokio::time::Instant;

use super::choose;
use super::printer::Printer;
use super::stream::{Key, LogEvent, LogPosition, stream};
use super::{Args, no_log, warn_unreadable};
use crate::api::Skyhook;
use crate::cluster::attempts::{Choice, ContainerLog};
use crate::cluster::live::log::Request;
use crate::cluster::{Cluster, Node};
use crate::ctx::{self, ContactNotice, Ctx, WatchUpdate};
use crate::error::{Error, Exit, Result};
use crate::view::plural;

/// Maximum number of logs followed at once.
const AT_ONCE: usize = 64;
/// Maximum number of lines that wait to be printed.
const QUEUE: usize = 1024;
/// Delay before a broken log of a running container is requested again.
const AGAIN: Duration = Duration::from_secs(2);

pub async fn run(ctx: &mut Ctx, client: &kube::Client, args: &Args, cluster: Cluster) -> Result<Exit> {
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
    let mut interrupted = std::pin::pin!(ctx::interrupt());
    loop {
        report(ctx, watch.notice());
        let ready = watch.ready();
        let cluster = watch.cluster();
        let choices = choose::choose(cluster, &args.nodes(cluster)?, args.wanted());
        let to_come = choose::to_come(cluster, &concerned(cluster, args)?, args.wanted());
        let over = ready && to_come.is_empty() && !choices.iter().any(|c| c.alive);
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
    client: &'a kube::Client,
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
                    no_log::about(ctx, choice, None, false);
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
            ctx.note(no_log::nothing(cluster, &nodes, self.args.wanted()));
            return Ok(exit);
        }
        for choice in choices {
            let newest = (!choice.attempts.is_empty()).then_some(0);
            no_log::about(ctx, choice, newest, false);
        }
        let package = &self.args.package;
        let skyhook = cluster.skyhook(self.args.skyhook());
        let stopped = skyhook.and_then(Skyhook::stopped);
        let why = stopped.map_or_else(String::new, |how| format!(", because the custom resource is {how}"));
        ctx.note(format!("No more output from {package} on {}{why}.", plural(nodes.len(), "node")));
        Ok(exit)
    }
}
