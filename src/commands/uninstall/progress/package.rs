//! The progress of the uninstall of one package on each node.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::api::{Skyhook, State};
use crate::cluster::{Cluster, Node, PackageRuns, Phase, Placement};
use crate::view::text::{self, Text};
use crate::view::{NodeSet, Table, age, cells, count, plural};

/// Maximum number of nodes named as the slowest.
const SLOWEST: usize = 3;

/// One package, with its state on each node.
pub(super) struct Package {
    pub name: String,
    pub version: String,
    /// The state on each selected node that has or had the package, and the start of that state.
    pub at: BTreeMap<String, (Point, Option<Timestamp>)>,
    pub gone: bool,
}

/// The state of the uninstall on a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Point {
    /// Not started; holds the recorded stage and state.
    NotStarted(String),
    /// At a stage of the uninstall that nothing runs; holds the stage.
    Due(String),
    /// At a stage of the uninstall; holds its description.
    At(String),
    Unreadable,
    /// Removed from the node state, but its pod or job has not ended.
    Ending(String),
    Gone,
}

impl Point {
    pub(super) fn words(&self) -> String {
        match self {
            Point::NotStarted(at) if at.is_empty() => "not started".to_owned(),
            Point::NotStarted(at) => format!("not started ({at})"),
            Point::Due(stage) => format!("{stage}, not started"),
            Point::At(stage) => stage.clone(),
            Point::Unreadable => "node state cannot be read".to_owned(),
            Point::Ending(what) => format!("gone, but {what} has not ended"),
            Point::Gone => "gone".to_owned(),
        }
    }
}

impl Package {
    /// Updates the state on each node; returns the changed nodes by state.
    pub(super) fn look(&mut self, cluster: &Cluster, skyhook: &Skyhook) -> BTreeMap<Point, Vec<String>> {
        let package_runs = cluster.package_runs_for(skyhook.name());
        let mut news: BTreeMap<Point, Vec<String>> = BTreeMap::new();
        for node in cluster.selected(skyhook) {
            let (point, since) = self.point(cluster, &package_runs, skyhook, node);
            let before = self.at.get(node.name.as_str()).map(|(point, _)| point);
            // A Job ends before the operator records the result: the stage does not start again in between.
            let ended = match (before, &point) {
                (Some(Point::At(was)), Point::Due(stage)) => was.starts_with(stage.as_str()),
                _ => false,
            };
            if before == Some(&point) || ended || (before.is_none() && point == Point::Gone) {
                continue;
            }
            news.entry(point.clone()).or_default().push(node.name.to_string());
            let since = since.unwrap_or(cluster.taken_at);
            self.at.insert(node.name.to_string(), (point, Some(since)));
        }
        // Do not wait for removed or deselected nodes.
        let stays = |name: &String| {
            let node = cluster.node(name);
            node.is_some_and(|n| skyhook.selects(n))
        };
        self.at.retain(|name, _| stays(name));
        news
    }

    /// The state of any version of the package on a node, and the start of that state.
    fn point<'a>(
        &self,
        cluster: &'a Cluster,
        package_runs: &PackageRuns<'a>,
        skyhook: &'a Skyhook,
        node: &'a Node,
    ) -> (Point, Option<Timestamp>) {
        let all = cluster.placements_on(skyhook.name(), node);
        let mut ours = all.iter().filter(|p| p.package == self.name);
        let Some(placement) = ours.clone().find(|p| p.entry.is_some()).or_else(|| ours.next()) else {
            let unreadable = all.iter().any(|p| p.phase == Phase::Malformed);
            let point = if unreadable { Point::Unreadable } else { Point::Gone };
            return (point, None);
        };
        let point = self.words_for(placement, package_runs);
        (point, package_runs.since(placement))
    }

    fn words_for<'a>(&self, placement: &Placement<'a>, package_runs: &PackageRuns<'a>) -> Point {
        let running = package_runs.uninstall_of(placement);
        let Some(entry) = placement.entry else {
            return match running {
                Some(package_run) => Point::Ending(package_run.reference()),
                None => Point::Gone,
            };
        };
        let failed = match entry.restarts {
            0 => String::new(),
            n => format!(", {} failed", plural(usize::try_from(n).unwrap_or(0), "attempt")),
        };
        let (stage, state) = (&entry.stage, &entry.state);
        let at = format!("{stage} {state}");
        match (placement.phase.is_uninstall(), state) {
            (true, State::InProgress) if running.is_none() => Point::Due(stage.to_string()),
            (true, State::InProgress) => Point::At(format!("{stage}{failed}")),
            (true, _) => Point::At(format!("{at}{failed}")),
            _ if placement.version != self.version => {
                Point::NotStarted(format!("version {}, {at}", placement.version))
            }
            (_, State::Complete) => Point::NotStarted(String::new()),
            _ => Point::NotStarted(at),
        }
    }

    pub(super) fn done(&self) -> usize {
        let points = self.at.values();
        points.filter(|(point, _)| *point == Point::Gone).count()
    }

    /// Counts the finished nodes: `2 of 3 nodes done`.
    pub(super) fn so_far(&self) -> String {
        format!("{} of {} done", count(self.done()), plural(self.at.len(), "node"))
    }

    /// The unfinished nodes by state.
    pub(super) fn unfinished_nodes(&self) -> BTreeMap<&Point, Vec<&str>> {
        let mut left: BTreeMap<&Point, Vec<&str>> = BTreeMap::new();
        for (node, (point, _)) in &self.at {
            if *point != Point::Gone {
                left.entry(point).or_default().push(node);
            }
        }
        left
    }

    /// The whole progress, for a screen.
    pub(super) fn drawn(&self, now: Timestamp) -> Text {
        let mut table = Table::new(["stage", "count", "nodes"]).wrap_last();
        for (point, nodes) in self.unfinished_nodes() {
            let set = NodeSet::of(&nodes);
            table.row(cells![point.words(), count(nodes.len()), set.limited(4)]);
        }
        let mut slow: Vec<_> = self.at.iter().collect();
        slow.retain(|(_, (point, since))| *point != Point::Gone && since.is_some());
        slow.sort_by_key(|(name, (_, since))| (*since, (*name).clone()));
        let slow: Vec<String> = slow
            .iter()
            .take(SLOWEST)
            .map(|(name, (point, since))| format!("{name} ({}, {})", point.words(), age(*since, now)))
            .collect();
        let mut text = Text::new();
        let title = format!("{} {}: ", self.name, self.version);
        text.line(text::heading(title) + self.so_far());
        text.append(table);
        if !slow.is_empty() {
            text.line(format!("slowest: {}", slow.join(", ")));
        }
        text
    }
}
