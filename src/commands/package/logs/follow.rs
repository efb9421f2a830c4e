//! What there is now, and what comes, until nothing more is to come.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::choose;
use super::printer::Printer;
use super::stream::{Event, Key, Place, stream};
use super::{Args, NEEDS, complain, left};
use crate::cluster::attempts::{Choice, Piece};
use crate::cluster::{Cluster, Node, Read, Source};
use crate::ctx::{self, Ctx};
use crate::error::{Exit, Result};
use crate::view::plural;

/// Logs that are followed at once.
const AT_ONCE: usize = 64;
/// Lines that wait to be printed.
const QUEUE: usize = 1024;
/// Looks are not taken faster than this, whatever is asked for.
const SHORTEST: Duration = Duration::from_millis(10);
/// A look at the pods that takes longer is given up, and taken again.
const PATIENCE: Duration = Duration::from_secs(60);
/// What is read anew while logs come.
const LIGHT: [Source; 2] = [Source::Pods, Source::Jobs];

pub async fn run(
    ctx: &mut Ctx,
    client: &kube::Client,
    args: &Args,
    mut cluster: Cluster,
) -> Result<Exit> {
    let nodes = concerned(&cluster, args)?.len();
    let (sender, mut events) = channel(QUEUE);
    let mut following = Following {
        client,
        args,
        sender,
        slots: Arc::new(Semaphore::new(AT_ONCE)),
        runs: HashMap::new(),
        said: HashSet::new(),
        printer: Printer::new(args.prefix || nodes != 1, std::iter::empty()),
        printed: false,
        unread: false,
        first: true,
        complained: false,
    };
    let mut interrupted = std::pin::pin!(ctx::interrupt());
    let mut whole = true;
    let mut quiet = 0_u32;
    loop {
        let choices = choose::choose(&cluster, &args.nodes(&cluster)?, args.wanted());
        following.begin(ctx, &choices);
        let alive = choices.iter().any(|c| c.alive);
        let idle = following.active() == 0 && !alive;
        if idle && whole {
            let to_come = choose::to_come(&cluster, &concerned(&cluster, args)?, args.wanted());
            if to_come.is_empty() {
                return following.end(ctx, &cluster, &choices);
            }
        }
        quiet = if idle { quiet + 1 } else { 0 };
        // Nodes are many and heavy: they are read only where they may tell that it is over.
        whole = quiet.is_power_of_two() || (quiet > 0 && quiet.is_multiple_of(15));
        let needs = if whole {
            NEEDS.to_vec()
        } else {
            LIGHT.to_vec()
        };
        let mut next: Pin<Box<dyn Future<Output = _>>> =
            Box::pin(next(ctx, client, args.interval, needs));
        let read = loop {
            tokio::select! {
                biased;
                () = &mut interrupted => return Ok(Exit::Interrupted),
                Some(event) = events.recv() => if !following.take(ctx, event)? {
                    return Ok(Exit::Done);
                },
                read = &mut next => break read,
            }
        };
        match read {
            Ok(read) => cluster = merged(cluster, read),
            Err(why) => {
                whole = false;
                following.complain(ctx, &why);
            }
        }
        if !following.drain(ctx, &mut events)? {
            return Ok(Exit::Done);
        }
    }
}

/// The nodes that the flags pick and the custom resource selects or has begun.
fn concerned<'a>(cluster: &'a Cluster, args: &Args) -> Result<Vec<&'a Node>> {
    let name = args.of.skyhook.as_str();
    let skyhook = cluster.skyhook(name);
    let mut nodes = args.nodes(cluster)?;
    nodes.retain(|node| {
        skyhook.is_some_and(|s| s.spec.node_selectors.matches(&node.labels))
            || cluster.on_node(node, name).is_some_and(|on| on.has_keys())
    });
    Ok(nodes)
}

/// Waits, then looks at the cluster again.
fn next(
    ctx: &Ctx,
    client: &kube::Client,
    interval: Duration,
    needs: Vec<Source>,
) -> impl Future<Output = std::result::Result<Cluster, String>> + use<> {
    let reload = ctx.reload(client, needs);
    async move {
        tokio::time::sleep(interval.max(SHORTEST)).await;
        match tokio::time::timeout(PATIENCE, reload).await {
            Ok(read) => read.map_err(|e| e.to_string()),
            Err(_) => Err("the API server does not answer".to_owned()),
        }
    }
}

/// What was read last, and of what was not read this time, what was read before.
fn merged(before: Cluster, mut read: Cluster) -> Cluster {
    fn or<T>(read: &mut Read<T>, before: Read<T>) {
        if !matches!(read, Read::Ok(_)) {
            *read = before;
        }
    }
    or(&mut read.nodes, before.nodes);
    or(&mut read.skyhooks, before.skyhooks);
    or(&mut read.pods, before.pods);
    or(&mut read.jobs, before.jobs);
    or(&mut read.operators, before.operators);
    read
}

struct Following<'a> {
    client: &'a kube::Client,
    args: &'a Args,
    sender: Sender<Event>,
    slots: Arc<Semaphore>,
    runs: HashMap<Key, Run>,
    /// What was said on stderr, so as to say it once.
    said: HashSet<String>,
    printer: Printer,
    printed: bool,
    /// A log could not be read.
    unread: bool,
    first: bool,
    complained: bool,
}

/// A log that was begun.
struct Run {
    active: bool,
    reached: Place,
}

impl Following<'_> {
    /// Follows what is new, and what was cut off while its container runs on.
    fn begin(&mut self, ctx: &mut Ctx, choices: &[Choice]) {
        for choice in choices {
            let best = choice.attempts.first();
            for piece in best.iter().flat_map(|a| &a.pieces) {
                self.follow(piece);
            }
            let silent = best.is_none_or(|a| a.pieces.is_empty());
            if silent && choice.alive && !choice.says.is_empty() {
                let key = format!("{} {:?}", choice.reference, choice.says);
                if self.said.insert(key) {
                    left::about(ctx, choice, None, false);
                }
            }
        }
        let waiting = self.active().saturating_sub(AT_ONCE);
        if waiting > 0 && self.said.insert("slots".to_owned()) {
            ctx.warn(format!(
                "{AT_ONCE} logs are followed at once, and {waiting} wait until one of them ends; --node or -l narrows it"
            ));
        }
        self.first = false;
    }

    fn follow(&mut self, piece: &Piece) {
        let key = piece.key();
        let reached = match self.runs.get(&key) {
            None => Place::default(),
            Some(run) if !run.active && piece.running => run.reached,
            Some(_) => return,
        };
        let from_start = !self.first || reached != Place::default();
        let mut request = piece.request();
        request.follow = piece.running;
        if !from_start {
            request.tail = self.args.lines();
            request.since = self.args.since();
        }
        self.runs.insert(
            key.clone(),
            Run {
                active: true,
                reached,
            },
        );
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
        self.runs.values().filter(|run| run.active).count()
    }

    /// Prints a line or notes an end; `false` when nobody reads on.
    fn take(&mut self, ctx: &mut Ctx, event: Event) -> Result<bool> {
        match event {
            Event::Line { key, line } => {
                self.printed = true;
                self.printer.line(ctx, &key.node, &key.container, &line)
            }
            Event::End {
                key,
                reached,
                error,
            } => {
                if let Some(error) = error.filter(|e| !e.nothing_there()) {
                    let what = format!("{} in pod/{}", key.container, key.pod);
                    if self.said.insert(format!("{what}: {error}")) {
                        complain(ctx, &what, &error);
                    }
                    self.unread = true;
                }
                self.runs.insert(
                    key,
                    Run {
                        active: false,
                        reached,
                    },
                );
                Ok(true)
            }
        }
    }

    fn drain(&mut self, ctx: &mut Ctx, events: &mut Receiver<Event>) -> Result<bool> {
        while let Ok(event) = events.try_recv() {
            if !self.take(ctx, event)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn complain(&mut self, ctx: &mut Ctx, why: &str) {
        if !std::mem::replace(&mut self.complained, true) {
            ctx.warn(format!("{why}; still following"));
        }
    }

    fn end(&self, ctx: &mut Ctx, cluster: &Cluster, choices: &[Choice]) -> Result<Exit> {
        let nodes = concerned(cluster, self.args)?;
        let exit = if self.unread {
            Exit::Failed
        } else {
            Exit::Done
        };
        if !self.printed && choices.is_empty() {
            ctx.note(left::nothing(cluster, &nodes, self.args.wanted()));
            return Ok(exit);
        }
        for choice in choices {
            let newest = (!choice.attempts.is_empty()).then_some(0);
            left::about(ctx, choice, newest, false);
        }
        let package = &self.args.package;
        let held = cluster.skyhook(&self.args.of.skyhook);
        let why = match held {
            Some(s) if s.paused() => ", as the custom resource is paused",
            Some(s) if s.disabled() => ", as the custom resource is disabled",
            _ => "",
        };
        ctx.note(format!(
            "Nothing more to come of {package} on {}{why}.",
            plural(nodes.len(), "node")
        ));
        Ok(exit)
    }
}
