//! The progress of a plan's uninstalls, updated with each read of the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use crate::cluster::Cluster;
use crate::commands::shared::diagnosis::Diagnosis;
use crate::ctx::{Aim, AimProgress};
use crate::plan::{Condition, Goal, Plan};
use crate::view::text::{self, Line, Text};
use crate::view::{NodeSet, Table, View, age, cells, count, list, plural};
use crate::wait::uninstall::{Point, UninstallProgress};
use crate::wait::{BlockerCheck, Blockers, Wait};

/// The awaited uninstalls of a plan.
pub struct Progress {
    /// The packages to wait for, in order.
    packages: Vec<Package>,
    /// The index of the current package.
    current: usize,
    /// Whether to wait for the operator's mirror of the node states, too: the operator's webhook checks the mirror
    /// before a package may be removed.
    mirror_too: bool,
    /// Whether the uninstall of the current package was requested when the wait last read the custom resource;
    /// `None` before the first read.
    requested: Option<bool>,
    blockers: Blockers,
}

impl Progress {
    /// Starts the wait for the uninstalls of a plan from the current state; `None` if the plan waits for nothing, or
    /// for anything else.
    pub fn of(cluster: &Cluster, plan: &Plan, tolerate: Option<Duration>) -> Option<Progress> {
        let goals = plan.stages.iter().filter_map(|stage| stage.until.as_ref());
        let packages: Vec<Package> = goals.map(|goal| Package::of(cluster, goal)).collect::<Option<_>>()?;
        let first = packages.first().and_then(|package| UninstallProgress::of(cluster, &package.goal).ok());
        let requested = first.map(|uninstall| uninstall.is_requested()).filter(|requested| *requested);
        (!packages.is_empty()).then(|| Progress {
            packages,
            current: 0,
            // A stage without a goal removes a package from the spec.
            mirror_too: plan.stages.iter().any(|stage| stage.until.is_none()),
            requested,
            blockers: Blockers::new(cluster, tolerate),
        })
    }
}

impl Aim for Progress {
    fn look(&mut self, cluster: &Cluster) -> AimProgress {
        let package = &mut self.packages[self.current];
        let goal = package.goal.clone();
        let uninstall = match UninstallProgress::of(cluster, &goal) {
            Ok(uninstall) => uninstall,
            Err(Wait::Pending(why)) => {
                let whole = format!("{why}; still waiting").as_str().into();
                return AimProgress { state: Wait::Pending(goal.describe()), whole, news: Vec::new() };
            }
            Err(state) => {
                self.requested = Some(false);
                return AimProgress { state, whole: Text::new(), news: Vec::new() };
            }
        };
        self.requested = Some(uninstall.is_requested());
        let news = package.update(&uninstall, cluster.taken_at);
        let so_far = package.so_far();
        let line = |(point, nodes): (Point, Vec<String>)| {
            let set = NodeSet::of(&nodes).limited(4);
            Line::from(format!("{} on {set}: {}; {so_far}", package.name, point.words()))
        };
        let news = news.into_iter().map(line).collect();
        let whole = package.drawn(cluster.taken_at);
        package.gone = package.unfinished_nodes().is_empty();
        let state = match uninstall.reached() {
            Wait::Met if self.mirror_too && uninstall.in_mirror() => Wait::Pending(format!(
                "the operator has removed {} from status.nodeState of {}",
                package.title, goal.target.name
            )),
            Wait::Pending(_) => Wait::Pending(goal.describe()),
            state => state,
        };
        AimProgress { state, whole, news }
    }

    fn blocked(&mut self, cluster: &Cluster) -> BlockerCheck {
        self.blockers.judge(cluster, std::slice::from_ref(&self.packages[self.current].goal))
    }

    /// Makes the package of the goal the current one: packages are uninstalled one after the other.
    fn begin(&mut self, goals: &[&Goal]) -> bool {
        let mut packages = self.packages.iter();
        self.current = packages.position(|p| goals.contains(&&p.goal)).unwrap_or(self.current);
        self.blockers.clear();
        // The custom resource from before the request would look like a canceled uninstall.
        true
    }

    fn found(&self) -> Option<Box<dyn View + '_>> {
        Some(Box::new(Diagnosis::of_blockers(&self.blockers)?))
    }

    fn summary(&self, finished: bool, begun: bool) -> Option<String> {
        let (gone, left): (Vec<&Package>, Vec<&Package>) = self.packages.iter().partition(|p| p.gone);
        let titles = |packages: &[&Package]| list(&Vec::from_iter(packages.iter().map(|p| &p.title)));
        let mut parts = Vec::new();
        if !gone.is_empty() {
            let verb = if gone.len() == 1 { "is" } else { "are" };
            parts.push(format!("{} {verb} gone from all nodes", titles(&gone)));
        }
        if finished {
            return (!parts.is_empty()).then(|| parts.join("; "));
        }
        let (current, later): (Vec<&Package>, Vec<&Package>) =
            left.into_iter().partition(|p| p.name == self.packages[self.current].name);
        for package in current {
            let left = package
                .unfinished_nodes()
                .into_iter()
                .map(|(point, nodes)| format!("{} on {}", point.words(), NodeSet::of(nodes).limited(4)));
            let left: Vec<String> = left.collect();
            parts.push(format!("{}: {}: {}", package.title, package.so_far(), left.join(", ")));
            parts.push(if self.requested.unwrap_or(begun) {
                "the uninstall continues in the cluster unless it is blocked".to_owned()
            } else {
                "the cluster has no request for this uninstall".to_owned()
            });
        }
        if !later.is_empty() {
            parts.push(format!("{} not started", titles(&later)));
        }
        Some(parts.join("; "))
    }
}

/// Maximum number of nodes named as the slowest.
const SLOWEST: usize = 3;

/// One package, with its state on each node.
struct Package {
    goal: Goal,
    name: String,
    /// Name and version.
    title: String,
    /// The state on each selected node that has or had the package, and the start of that state.
    at: BTreeMap<String, (Point, Option<Timestamp>)>,
    gone: bool,
}

impl Package {
    /// The package of a goal. Records the nodes that have it, so that its later absence counts as uninstalled.
    fn of(cluster: &Cluster, goal: &Goal) -> Option<Package> {
        let Condition::Uninstalled { package: Some(name), version: Some(version) } = &goal.condition else {
            return None;
        };
        let mut package = Package {
            goal: goal.clone(),
            name: name.clone(),
            title: format!("{name} {version}"),
            at: BTreeMap::new(),
            gone: false,
        };
        if let Ok(uninstall) = UninstallProgress::of(cluster, goal) {
            package.update(&uninstall, cluster.taken_at);
        }
        Some(package)
    }

    /// Updates the state on each node; returns the changed nodes by state.
    fn update(&mut self, uninstall: &UninstallProgress<'_>, now: Timestamp) -> BTreeMap<Point, Vec<String>> {
        let mut news: BTreeMap<Point, Vec<String>> = BTreeMap::new();
        for (node, point, since) in &uninstall.nodes {
            let before = self.at.get(node.name.as_str()).map(|(point, _)| point);
            // A Job ends before the operator records the result: the stage does not start again in between.
            let ended = match (before, point) {
                (Some(Point::At(was)), Point::Due(stage)) => was.starts_with(stage.as_str()),
                _ => false,
            };
            if before == Some(point) || ended || (before.is_none() && *point == Point::Gone) {
                continue;
            }
            news.entry(point.clone()).or_default().push(node.name.to_string());
            self.at.insert(node.name.to_string(), (point.clone(), Some(since.unwrap_or(now))));
        }
        // Do not wait for removed or deselected nodes.
        let names: BTreeSet<&str> = uninstall.nodes.iter().map(|(node, ..)| node.name.as_str()).collect();
        self.at.retain(|name, _| names.contains(name.as_str()));
        news
    }

    /// Counts the finished nodes: `2 of 3 nodes done`.
    fn so_far(&self) -> String {
        let done = self.at.values().filter(|(point, _)| *point == Point::Gone).count();
        format!("{} of {} done", count(done), plural(self.at.len(), "node"))
    }

    /// The unfinished nodes by state.
    fn unfinished_nodes(&self) -> BTreeMap<&Point, Vec<&str>> {
        let mut left: BTreeMap<&Point, Vec<&str>> = BTreeMap::new();
        for (node, (point, _)) in &self.at {
            if *point != Point::Gone {
                left.entry(point).or_default().push(node);
            }
        }
        left
    }

    /// The whole progress, for a screen.
    fn drawn(&self, now: Timestamp) -> Text {
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
        text.line(text::heading(format!("{}: ", self.title)) + self.so_far());
        text.append(table);
        if !slow.is_empty() {
            text.line(format!("slowest: {}", slow.join(", ")));
        }
        text
    }
}
