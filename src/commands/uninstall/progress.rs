//! The progress of uninstalls, updated with each read of the cluster.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::api::{Skyhook, State};
use crate::cluster::{Cluster, Node, PackageRuns, Phase, Placement, Read};
use crate::commands::shared::diagnosis::Diagnosis;
use crate::ctx::{self, AimProgress};
use crate::plan::{WaitCondition, WaitFor};
use crate::rules::Goal;
use crate::view::text::{self, Line, Text};
use crate::view::{NodeSet, Table, View, age, cells, count, list, plural};
use crate::wait::{AwaitedResource, Blockers, Wait};

/// The awaited uninstalls of a custom resource.
pub struct Progress {
    skyhook: AwaitedResource,
    /// The packages to wait for, in order.
    packages: Vec<Package>,
    /// The index of the current package.
    current: usize,
    /// Whether to wait for the operator's mirror of the node states, too: the operator's webhook checks the mirror
    /// before a package may be removed.
    mirror_too: bool,
    /// Whether the current package is absent from all nodes, but still in the mirror.
    in_mirror: bool,
    /// Whether the uninstall of the current package was requested when the wait last read the custom resource;
    /// `None` before the first read.
    requested: Option<bool>,
    blockers: Blockers,
}

impl Progress {
    /// Starts the wait from the current state.
    pub fn new(
        cluster: &Cluster,
        skyhook: &str,
        packages: &[&str],
        mirror_too: bool,
        tolerate: Option<Duration>,
    ) -> Progress {
        let cr = cluster.skyhook(skyhook);
        let package = |name: &&str| {
            let spec = cr.and_then(|cr| cr.package(name));
            let mut package = Package {
                name: (*name).to_owned(),
                version: spec.map_or_else(String::new, |p| p.version.clone()),
                at: BTreeMap::new(),
                gone: false,
            };
            // Record the nodes that have the package, so that its later absence counts as uninstalled.
            if let Some(cr) = cr {
                package.look(cluster, cr);
            }
            package
        };
        Progress {
            skyhook: AwaitedResource::new(cluster, skyhook),
            packages: packages.iter().map(package).collect(),
            current: 0,
            mirror_too,
            in_mirror: false,
            requested: None,
            blockers: Blockers::new(cluster, tolerate),
        }
    }

    /// The index of the package that this goal is about.
    fn place(&self, until: &WaitFor) -> Option<usize> {
        let WaitCondition::Uninstalled { package, version } = &until.condition else {
            return None;
        };
        let mut packages = self.packages.iter();
        packages.position(|p| p.name == *package && p.version == *version)
    }

    fn mirrored(&self, skyhook: &Skyhook) -> bool {
        let package = &self.packages[self.current];
        let key = format!("{}|{}", package.name, package.version);
        self.mirror_too && skyhook.status.node_state.has(&key)
    }

    /// Why the uninstall cannot finish any more; `None` if it can.
    fn never(&self, skyhook: &Skyhook) -> Option<String> {
        let Package { name, version, .. } = &self.packages[self.current];
        let reference = skyhook.reference();
        match skyhook.package(name) {
            None => Some(format!("{name} was removed from the spec of {reference}, but is still on nodes")),
            Some(spec) if spec.version != *version => Some(format!(
                "the version of {name} was changed to {} in the meantime (SKY104)",
                spec.version
            )),
            Some(spec) if !spec.uninstall().apply && !skyhook.deleting() => {
                Some(format!("the uninstall of {name} was canceled"))
            }
            Some(_) => None,
        }
    }
}

impl ctx::Aim for Progress {
    fn look(&mut self, cluster: &Cluster) -> AimProgress {
        let package = &mut self.packages[self.current];
        let look = |state, whole: Text, news| AimProgress { state, whole, news };
        let cannot = |why: String| {
            let line = format!("{why}; still waiting");
            look(Wait::Pending(why), line.as_str().into(), Vec::new())
        };
        let skyhook = match self.skyhook.find(cluster) {
            Ok(Some(skyhook)) => skyhook,
            Ok(None) => {
                self.requested = Some(false);
                let why = format!("{} was deleted", self.skyhook.name);
                return look(Wait::Never(why, None), Text::new(), Vec::new());
            }
            Err(why) => return cannot(why),
        };
        let spec = skyhook.package(&package.name);
        self.requested = Some(spec.is_some_and(|spec| skyhook.uninstall_asked_by(spec).is_some()));
        if !matches!(cluster.nodes, Read::Ok(_)) {
            return cannot("the nodes cannot be read".to_owned());
        }
        let news = package.look(cluster, skyhook);
        let so_far = package.so_far();
        let line = |(point, nodes): (Point, Vec<String>)| {
            let set = NodeSet::of(&nodes).limited(4);
            Line::from(format!("{} on {set}: {}; {so_far}", package.name, point.words()))
        };
        let news = news.into_iter().map(line).collect();
        let whole = package.drawn(cluster.taken_at);
        package.gone = package.unfinished_nodes().is_empty();
        let gone = package.gone;
        self.in_mirror = gone && self.mirrored(skyhook);
        let state = match self.never(skyhook).filter(|_| !gone) {
            Some(reason) => Wait::Never(reason, None),
            None if gone && !self.in_mirror => Wait::Met,
            None => Wait::Pending(so_far),
        };
        look(state, whole, news)
    }

    fn blocked(&mut self, cluster: &Cluster) -> Vec<String> {
        let goal = Goal::Uninstall(Some(&self.packages[self.current].name));
        self.blockers.judge(cluster, &[(&self.skyhook.name, goal)])
    }

    fn look_again(&self) -> bool {
        self.blockers.look_again
    }
}

impl ctx::PlannedAim for Progress {
    fn handles(&self, until: &WaitFor) -> bool {
        self.place(until).is_some()
    }

    /// Makes the package of the goal the current one: packages are uninstalled one after the other.
    fn begin(&mut self, untils: &[&WaitFor]) {
        let mut places = untils.iter().filter_map(|until| self.place(until));
        self.current = places.next().unwrap_or(self.current);
        self.blockers.clear();
    }

    fn awaited(&self, until: &WaitFor) -> String {
        match self.place(until) {
            Some(at) if at == self.current && self.in_mirror => {
                let Package { name, version, .. } = &self.packages[at];
                format!(
                    "the operator has removed {name} {version} from status.nodeState of {}",
                    self.skyhook.name
                )
            }
            _ => until.describe(),
        }
    }

    fn found(&self) -> Option<Box<dyn View + '_>> {
        Some(Box::new(Diagnosis::of_blockers(&self.blockers)?))
    }

    fn summary(&self, finished: bool, begun: bool) -> Option<String> {
        let (gone, left): (Vec<&Package>, Vec<&Package>) = self.packages.iter().partition(|p| p.gone);
        let names = |packages: &[&Package]| {
            let names = packages.iter().map(|p| format!("{} {}", p.name, p.version));
            list(&names.collect::<Vec<_>>())
        };
        let mut parts = Vec::new();
        if !gone.is_empty() {
            let verb = if gone.len() == 1 { "is" } else { "are" };
            parts.push(format!("{} {verb} gone from all nodes", names(&gone)));
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
            parts.push(format!(
                "{} {}: {}: {}",
                package.name,
                package.version,
                package.so_far(),
                left.join(", ")
            ));
            parts.push(if self.requested.unwrap_or(begun) {
                "the uninstall continues in the cluster unless it is blocked".to_owned()
            } else {
                "the cluster has no request for this uninstall".to_owned()
            });
        }
        if !later.is_empty() {
            parts.push(format!("{} not started", names(&later)));
        }
        Some(parts.join("; "))
    }
}

/// Maximum number of nodes named as the slowest.
const SLOWEST: usize = 3;

/// One package, with its state on each node.
struct Package {
    pub name: String,
    pub version: String,
    /// The state on each selected node that has or had the package, and the start of that state.
    pub at: BTreeMap<String, (Point, Option<Timestamp>)>,
    pub gone: bool,
}

/// The state of the uninstall on a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Point {
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
    fn words(&self) -> String {
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
    fn look(&mut self, cluster: &Cluster, skyhook: &Skyhook) -> BTreeMap<Point, Vec<String>> {
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

    fn done(&self) -> usize {
        let points = self.at.values();
        points.filter(|(point, _)| *point == Point::Gone).count()
    }

    /// Counts the finished nodes: `2 of 3 nodes done`.
    fn so_far(&self) -> String {
        format!("{} of {} done", count(self.done()), plural(self.at.len(), "node"))
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
        let title = format!("{} {}: ", self.name, self.version);
        text.line(text::heading(title) + self.so_far());
        text.append(table);
        if !slow.is_empty() {
            text.line(format!("slowest: {}", slow.join(", ")));
        }
        text
    }
}
