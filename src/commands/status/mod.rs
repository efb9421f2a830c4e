mod overview;
mod page;
mod tree;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::shared::command::command;
use super::shared::diagnosis::Diagnosis;
use super::shared::mutes::MuteFlags;
use super::shared::status::item::SkyhookProgress;
use super::shared::status::{self, StatusReport, label};
use super::shared::{progress, scope};
use crate::api::Skyhook;
use crate::apply::StopReason;
use crate::args::connection::duration;
use crate::args::listing::Sorting;
use crate::cluster::live::WATCHED;
use crate::cluster::{Cluster, Source};
use crate::ctx::{self, AimProgress, Ctx};
use crate::error::{Exit, Result};
use crate::model::ProgressState;
use crate::outlook::Summary;
use crate::plan::{Condition, Goal};
use crate::rules::support::mute::Mutes;
use crate::rules::{self, Scope};
use crate::view::text::{self, Line, Text};
use crate::view::{NodeSet, View, count, document, human, plural};
use crate::wait::{BlockerCheck, Blockers, Wait};

/// Show the progress of each custom resource, on one page
///
/// Without a name: one row per custom resource with its assessment, complete and failed nodes, the estimated remaining
/// time, and the cause or the object that it waits for; then the causes. The glossary explains the assessments. With
/// -o wide, more columns; SINCE is the time for which the oldest stage or drain in progress has been running.
///
/// With a name: who changed its spec last, its compartments with the nodes that are next, packages by stage, pods and jobs at work, latest events
/// and causes; the packages that are to be uninstalled, node by node; and a deletion, with the packages that it waits
/// for, every remedy, least disruptive first, and the remedy to use now. With -o wide, nothing is left out.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook status
  kubectl skyhook status gpu-tune

  # Scripts: .state is Complete, Progressing, Waiting, Deleting, Degraded, Blocked, Stuck, Paused, Disabled, Gone or Unknown
  kubectl skyhook status -o json | jq -r '.items[] | select(.state==\"Stuck\") | .name'
  kubectl skyhook status -o json | jq -r '.items[] | \"\\(.name) \\(.completePercent)% \\(.message)\"'
  kubectl skyhook status -o json | jq -r '.items[] | .name as $s | .packages[] | select(.inSpec and .complete < .nodes) | \"\\($s) \\(.name)\"'
  kubectl skyhook status -o jsonpath='{.items[?(@.state!=\"Complete\")].name}'")]
pub struct Args {
    /// Show only these custom resources
    #[arg(value_name = "NAME", value_parser = crate::args::nodes::skyhook)]
    names: Vec<String>,
    #[command(flatten)]
    sorting: Sorting,

    /// Watch until all are complete, or none makes progress any more
    ///
    /// Exits with 0 if all are complete, with 2 and the cause if nothing makes progress until someone intervenes, and with
    /// 5 on timeout. On a terminal, the page is redrawn in place; in a pipe, each change is printed as a line.
    #[arg(short, long, conflicts_with = "sort_by")]
    watch: bool,

    /// With --watch: how long to watch; 0 watches forever
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = duration, requires = "watch")]
    timeout: Duration,

    #[command(flatten)]
    muting: MuteFlags,
}

command! {
    "status": Args => run,
    needs: Scope::default().needs(),
    watches: &WATCHED,
    prints: { "Status": status::Document },
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    let needs = Scope::default().needs();
    if args.watch {
        return watch(ctx, args, &needs).await;
    }
    let cluster = ctx.load(&needs).await?;
    scope::readable(&cluster, Source::Skyhooks)?;
    let muting = args.muting.load(ctx, &cluster)?;
    let mut page = view(&cluster, args, &muting.mutes)?;
    page.sort(&args.sorting)?;
    page.only_rows = ctx.global().output.no_headers;
    if page.is_empty() && cluster.skyhooks.unread().is_none() {
        ctx.note(format!("There is no {}.", cluster.flavor().kind()));
    }
    scope::warn_unreadable(ctx, &cluster, &needs);
    ctx.show(&page)?;
    Ok(muting.exit(scope::exit_without(&cluster, &Source::ESSENTIAL)))
}

async fn watch(ctx: &mut Ctx, args: &Args, needs: &[Source]) -> Result<Exit> {
    progress::refuse_watch(ctx, Some("kubectl skyhook wait -o json"))?;
    let cluster = progress::load_within(ctx, needs, args.timeout).await?;
    scope::readable(&cluster, Source::Skyhooks)?;
    scope::readable(&cluster, Source::Nodes)?;
    args.names.iter().try_for_each(|name| scope::known_skyhook(&cluster, name))?;
    scope::warn_unreadable(ctx, &cluster, needs);
    let mut live = Live::new(&cluster, &args.names);
    let ended = ctx.wait(&mut live, cluster, args.timeout).await?;
    if let (StopReason::Blocked { .. }, Some(found)) = (&ended, Diagnosis::of_blockers(&live.blockers)) {
        ctx.show(&found)?;
        return Ok(Exit::Findings);
    }
    ctx.show(&live.last(ctx.redraws()))?;
    progress::exit(&ended, args.timeout)
}

fn view<'a>(cluster: &'a Cluster, args: &Args, mutes: &Mutes) -> Result<StatusReport<'a>> {
    args.names.iter().try_for_each(|name| scope::known_skyhook(cluster, name))?;
    let report = rules::diagnose(cluster, &Scope::default()).mute(cluster, mutes);
    let mut status = StatusReport::new(cluster, report, &args.names);
    status.mute_words = args.muting.words();
    Ok(status)
}

/// Maximum number of transitions below the screen.
const TRANSITIONS: usize = 5;
/// Maximum number of node-name ranges of a transition.
const RUNS: usize = 3;

/// The state of a watch of custom resources.
pub struct Live {
    /// The watched custom resources; empty for all.
    pub names: Vec<String>,
    pub blockers: Blockers,
    /// The last displayed assessment, counts and message of each custom resource, without times.
    shown: BTreeMap<String, String>,
    /// The unfinished custom resources with their assessments.
    open: Vec<(String, ProgressState)>,
    /// The custom resources that were being deleted at the last check.
    deleting: BTreeSet<String>,
    /// Node states of named custom resources.
    states: BTreeMap<(String, String), ProgressState>,
    transitions: VecDeque<Line>,
    /// Number of complete nodes at the start of the watch, and its time.
    begin: Option<(usize, Timestamp)>,
    whole: Text,
    /// The lines of the first check; `None` after further checks.
    first: Option<Vec<Line>>,
    looked: bool,
}

/// The end of a watch.
pub struct Last(Text);

impl View for Last {
    fn blocks(&self, _wide: bool) -> Text {
        self.0.clone()
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    fn document(&self) -> Value {
        Value::Null
    }
}

impl Live {
    pub fn new(cluster: &Cluster, names: &[String]) -> Live {
        Live {
            names: names.to_vec(),
            blockers: Blockers::new(cluster, None),
            shown: BTreeMap::new(),
            open: Vec::new(),
            deleting: BTreeSet::new(),
            states: BTreeMap::new(),
            transitions: VecDeque::new(),
            begin: None,
            whole: Text::new(),
            first: None,
            looked: false,
        }
    }

    /// The last screen, which a terminal has cleared; in a pipe the lines that were not printed yet.
    pub fn last(&self, redraws: bool) -> Last {
        if redraws {
            return Last(self.whole.clone());
        }
        let mut text = Text::new();
        for line in self.first.iter().flatten().filter(|_| self.open.is_empty()) {
            text.line(line.clone());
        }
        Last(text)
    }

    /// One line per custom resource, or set of nodes, that changed.
    fn changes(&mut self, status: &StatusReport<'_>) -> Vec<Line> {
        let time = status.cluster.taken_at.strftime("%H:%M:%S");
        let mut changes = Vec::new();
        for item in &status.document.items {
            let key = unchanging(item);
            if self.shown.get(&item.name) != Some(&key) {
                changes.push(text::dim(format!("{time} ")) + summary(item));
                self.shown.insert(item.name.clone(), key);
            }
        }
        let mut moved: BTreeMap<(String, String), Vec<&str>> = BTreeMap::new();
        for name in &self.names {
            for (node, on) in status.outlook.on_nodes(name) {
                let state = on.counted();
                let before = self.states.insert((name.clone(), node.name.to_string()), state);
                if before.is_some_and(|before| before != state) {
                    moved.entry((name.clone(), state.word())).or_default().push(&node.name);
                }
            }
        }
        for ((name, to), nodes) in moved {
            let set = NodeSet::of(&nodes).limited(RUNS);
            changes.push(text::dim(format!("{time} ")) + format!("{name}  {set} {to}"));
        }
        if self.looked {
            self.transitions.extend(changes.iter().cloned());
        }
        while self.transitions.len() > TRANSITIONS {
            self.transitions.pop_front();
        }
        changes
    }

    /// The rate since the start of the watch: `12 nodes completed in 3m, 4.0 per minute`.
    fn rate(&mut self, status: &StatusReport<'_>) -> Option<String> {
        let complete = status.document.items.iter().map(|item| item.summary.node_states.complete).sum();
        let now = status.cluster.taken_at;
        let (before, since) = *self.begin.get_or_insert((complete, now));
        let took = now.duration_since(since);
        let done = complete.checked_sub(before).filter(|done| *done > 0)?;
        let minutes = (took.as_secs_f64() / 60.0).max(1.0 / 60.0);
        Some(format!(
            "{} completed in {}, {:.1} per minute",
            plural(done, "node"),
            human(took),
            done as f64 / minutes
        ))
    }
}

/// A custom resource as a line: `gpu-tune  Progressing 78% (31/40), 2 failed, ~6m: driver apply on 3 nodes`.
fn summary(item: &SkyhookProgress) -> Line {
    let Summary { assessment, node_states, remaining, message, .. } = &item.summary;
    let assessed = label(*assessment).span(format!("{assessment:?}"));
    let mut line = text::heading(&item.name) + "  " + assessed + " " + item.summary.complete();
    if node_states.failed > 0 {
        line = line + format!(", {} failed", count(node_states.failed));
    }
    if let Some(remaining) = remaining {
        line = line + format!(", {remaining}");
    }
    match message.as_str() {
        "" => line,
        message => line + ": " + message,
    }
}

/// The line without the estimate and ages, which change all the time without an event.
fn unchanging(item: &SkyhookProgress) -> String {
    let summary = &item.summary;
    let message = match summary.assessment {
        ProgressState::Deleting | ProgressState::Paused | ProgressState::Disabled => "",
        _ => &summary.message,
    };
    format!("{:?} {} {} {message}", summary.assessment, summary.complete(), summary.node_states.failed)
}

/// Whether the custom resource needs no further work.
fn ended(assessment: ProgressState) -> bool {
    matches!(assessment, ProgressState::Complete | ProgressState::Gone)
}

impl ctx::Aim for Live {
    fn look(&mut self, cluster: &Cluster) -> AimProgress {
        let report = rules::diagnose(cluster, &Scope::default());
        let status = StatusReport::new(cluster, report, &self.names);
        let news = self.changes(&status);
        let mut whole = status.blocks(false);
        if !self.transitions.is_empty() {
            whole.blank();
        }
        for line in &self.transitions {
            whole.summary(line.clone());
        }
        if let Some(rate) = self.rate(&status) {
            whole.line(text::dim(rate));
        }
        let items = || status.document.items.iter();
        let open = items()
            .filter(|item| !ended(item.summary.assessment))
            .map(|item| (item.name.clone(), item.summary.assessment));
        let before = std::mem::replace(&mut self.open, open.collect());
        let vanished = items().find(|item| {
            let was = before.iter().find(|(name, _)| *name == item.name);
            let gone = item.summary.assessment == ProgressState::Gone;
            gone && was.is_some_and(|(name, _)| !self.deleting.contains(name))
        });
        let vanished = vanished.map(|item| item.name.clone());
        let deleting = items().filter(|item| item.deleting);
        self.deleting = deleting.map(|item| item.name.clone()).collect();
        self.first = (!self.looked).then(|| news.clone());
        self.looked = true;
        self.whole = whole.clone();
        AimProgress {
            state: match vanished {
                Some(name) => Wait::Never(format!("{name} was deleted before it was complete"), None),
                None if self.open.is_empty() => Wait::Met,
                None => Wait::Pending(String::new()),
            },
            whole,
            news,
        }
    }

    /// Blockers, once no custom resource makes progress.
    fn blocked(&mut self, cluster: &Cluster) -> BlockerCheck {
        let progresses = |(_, assessment): &(String, ProgressState)| {
            matches!(assessment, ProgressState::Progressing | ProgressState::Degraded)
        };
        if self.open.iter().any(progresses) {
            self.blockers.clear();
            return BlockerCheck::default();
        }
        let goal = |(name, _): &(String, ProgressState)| {
            let deleting = cluster.skyhook(name).is_some_and(Skyhook::deleting);
            Goal::of(cluster, name, if deleting { Condition::Gone } else { Condition::Complete })
        };
        let goals: Vec<Goal> = self.open.iter().map(goal).collect();
        self.blockers.judge(cluster, &goals)
    }

    fn is_screen(&self) -> bool {
        true
    }
}

impl View for StatusReport<'_> {
    fn blocks(&self, wide: bool) -> Text {
        if self.named { page::text(self, wide) } else { overview::text(self, wide) }
    }

    fn names(&self) -> Vec<String> {
        let items = self.document.items.iter().filter(|item| item.exists);
        items.map(|item| format!("{}/{}", item.kind.to_lowercase(), item.name)).collect()
    }

    fn document(&self) -> Value {
        document("Status", &self.document)
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;
    use crate::ctx::Aim;
    use crate::dump;
    use crate::view::text::Layout;

    /// Ages and estimates change on the screen, and are no lines in a pipe.
    #[test]
    fn time_alone_is_no_change() {
        let mut redrawn = 0;
        for capture in ["in-progress", "v0.17-deletion-in-progress", "v0.17-paused"] {
            let path = format!("tests/clusters/{capture}").into();
            let mut cluster = dump::load(&[path], None).expect("a capture");
            let mut live = Live::new(&cluster, &[]);
            let first = live.look(&cluster);
            assert!(!first.news.is_empty(), "{capture}");
            cluster.taken_at += SignedDuration::from_secs(1);
            let second = live.look(&cluster);
            let drawn = |look: &AimProgress| {
                let lines = look.whole.lines(Layout::columns(200)).into_iter();
                lines.map(|line| line.plain()).collect::<Vec<_>>()
            };
            redrawn += usize::from(drawn(&first) != drawn(&second));
            let news: Vec<String> = second.news.iter().map(Line::plain).collect();
            assert_eq!(news, Vec::<String>::new(), "{capture}");
        }
        assert!(redrawn > 0, "no screen shows a time");
    }
}
