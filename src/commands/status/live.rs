//! `status -w`: the screen while custom resources make progress, until all are complete or none makes
//! progress.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use jiff::Timestamp;
use serde_json::Value;

use crate::cluster::Cluster;
use crate::commands::shared::status::item::SkyhookProgress;
use crate::commands::shared::status::{StatusReport, label};
use crate::ctx::{self, AimProgress};
use crate::model::ProgressState;
use crate::outlook::Summary;
use crate::rules::{self, Goal, Scope};
use crate::view::text::{self, Line, Text};
use crate::view::{NodeSet, View, count, human, plural};
use crate::wait::{Blockers, Wait};

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
        let items = status.document.items.iter();
        let complete = items.map(|item| item.summary.node_states.complete).sum();
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
        let open = items().filter(|item| !ended(item.summary.assessment));
        let open = open.map(|item| (item.name.clone(), item.summary.assessment));
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
    fn blocked(&mut self, cluster: &Cluster) -> Vec<String> {
        let progresses = |(_, assessment): &(String, ProgressState)| {
            matches!(assessment, ProgressState::Progressing | ProgressState::Degraded)
        };
        if self.open.iter().any(progresses) {
            self.blockers.clear();
            return Vec::new();
        }
        let goal = |name: &str| match cluster.skyhook(name) {
            Some(skyhook) if skyhook.deleting() => Goal::Deletion,
            _ => Goal::Install,
        };
        let open = self.open.iter().map(|(name, _)| name.as_str());
        let goals: Vec<_> = open.map(|name| (name, goal(name))).collect();
        self.blockers.judge(cluster, &goals)
    }

    fn look_again(&self) -> bool {
        self.blockers.look_again
    }

    fn is_screen(&self) -> bool {
        true
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
