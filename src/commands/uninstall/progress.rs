//! How far the uninstall of packages has got, look by look.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::hinder::{hindrances, name_of};
use super::survey::at_work;
use crate::api::{Skyhook, State};
use crate::cluster::{Cluster, Node, Read};
use crate::commands::diagnose::view::Diagnosis;
use crate::ctx::{Goal, Look, Standing};
use crate::plan::{Sign, Until};
use crate::rules::Report;
use crate::view::text::{self, Line, Text};
use crate::view::{NodeSet, Table, View, age, cells, count, list, plural};

/// Nodes that are named as the slowest.
const SLOWEST: usize = 3;

/// The packages of a custom resource on their way out.
pub struct Progress {
    skyhook: String,
    /// What is waited for, in order.
    packages: Vec<Package>,
    /// The one that is waited for now.
    current: usize,
    /// The operator's webhook asks its mirror of the node states before it lets a package be removed.
    mirror_too: bool,
    found: Option<(Cluster, Report)>,
}

/// One package, and where it stands.
struct Package {
    name: String,
    version: String,
    /// Where it is or was, node by node, and since when.
    at: BTreeMap<String, (Point, Option<Timestamp>)>,
    gone: bool,
}

/// Where the uninstall stands on a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Point {
    /// Not begun, and at which stage and state the package is.
    NotBegun(String),
    /// At a stage of the uninstall, and what is to be said of it.
    At(String),
    Unreadable,
    /// Gone from the node state, but its pod or job has not ended.
    Ending(String),
    Gone,
}

impl Point {
    fn words(&self) -> String {
        match self {
            Point::NotBegun(at) if at.is_empty() => "not begun".to_owned(),
            Point::NotBegun(at) => format!("not begun ({at})"),
            Point::At(stage) => stage.clone(),
            Point::Unreadable => "node state cannot be read".to_owned(),
            Point::Ending(what) => format!("gone, but {what} has not ended"),
            Point::Gone => "gone".to_owned(),
        }
    }
}

impl Progress {
    /// What is to be waited for, from how it stands now on.
    pub fn new(cluster: &Cluster, skyhook: &str, packages: &[&str], mirror_too: bool) -> Progress {
        let cr = cluster.skyhook(skyhook);
        let package = |name: &&str| {
            let spec = cr.and_then(|cr| cr.package(name));
            let mut package = Package {
                name: (*name).to_owned(),
                version: spec.map_or_else(String::new, |p| p.version.clone()),
                at: BTreeMap::new(),
                gone: false,
            };
            // What is there before it begins is known to have been there when it has gone.
            if let Some(cr) = cr {
                package.look(cluster, cr);
            }
            package
        };
        Progress {
            skyhook: skyhook.to_owned(),
            packages: packages.iter().map(package).collect(),
            current: 0,
            mirror_too,
            found: None,
        }
    }

    fn mirrored(&self, skyhook: &Skyhook) -> bool {
        let package = &self.packages[self.current];
        let key = format!("{}|{}", package.name, package.version);
        let mut nodes = skyhook.status.node_state.values();
        self.mirror_too && nodes.any(|state| state.contains_key(&key))
    }

    /// Why it will not come about, or nothing.
    fn never(&self, skyhook: &Skyhook) -> Option<String> {
        let Package { name, version, .. } = &self.packages[self.current];
        let reference = skyhook.reference();
        match skyhook.package(name) {
            None => Some(format!(
                "{name} has left the spec of {reference}, and is on nodes still"
            )),
            Some(spec) if spec.version != *version => Some(format!(
                "the version of {name} was changed to {} meanwhile (SKY104)",
                spec.version
            )),
            Some(spec) if !spec.uninstall().apply && !skyhook.deleting() => {
                Some(format!("the uninstall of {name} was taken back"))
            }
            Some(_) => None,
        }
    }
}

impl Package {
    /// Takes in where it stands now; what has changed, by where it stands.
    fn look(&mut self, cluster: &Cluster, skyhook: &Skyhook) -> BTreeMap<Point, Vec<String>> {
        let running = at_work(cluster, skyhook.name(), &self.name);
        let mut news: BTreeMap<Point, Vec<String>> = BTreeMap::new();
        for node in cluster.selected(skyhook) {
            let runs = running.iter().find(|(on, _)| *on == node.name);
            let point = self.point(cluster, skyhook, node, runs.map(|(_, what)| what.as_str()));
            let before = self.at.get(&node.name).map(|(point, _)| point);
            if before == Some(&point) || (before.is_none() && point == Point::Gone) {
                continue;
            }
            news.entry(point.clone())
                .or_default()
                .push(node.name.clone());
            let since = Some(cluster.taken_at);
            self.at.insert(node.name.clone(), (point, since));
        }
        // A node that has left the cluster, or is not selected any more, is not waited for.
        let stays = |name: &String| {
            let node = cluster.node(name);
            node.is_some_and(|n| skyhook.spec.node_selectors.matches(&n.labels))
        };
        self.at.retain(|name, _| stays(name));
        news
    }

    fn point(
        &self,
        cluster: &Cluster,
        skyhook: &Skyhook,
        node: &Node,
        running: Option<&str>,
    ) -> Point {
        let on = cluster.on_node(node, skyhook.name());
        if on.is_some_and(|on| on.is_malformed()) {
            return Point::Unreadable;
        }
        let key = format!("{}|{}", self.name, self.version);
        let Some(entry) = on.and_then(|on| on.entry(&key)) else {
            return match running {
                Some(what) => Point::Ending(what.to_owned()),
                None => Point::Gone,
            };
        };
        let failed = match entry.restarts {
            0 => String::new(),
            n => format!(
                ", {} failed",
                plural(usize::try_from(n).unwrap_or(0), "attempt")
            ),
        };
        match (&entry.stage, &entry.state) {
            (stage, State::InProgress) if stage.is_uninstall() && running.is_none() => {
                Point::At(format!("{stage}, to start"))
            }
            (stage, State::InProgress) if stage.is_uninstall() => {
                Point::At(format!("{stage}{failed}"))
            }
            (stage, state) if stage.is_uninstall() => Point::At(format!("{stage} {state}{failed}")),
            (_, State::Complete) => Point::NotBegun(String::new()),
            (stage, state) => Point::NotBegun(format!("{stage} {state}")),
        }
    }

    fn done(&self) -> usize {
        let points = self.at.values();
        points.filter(|(point, _)| *point == Point::Gone).count()
    }

    /// `2 of 3 nodes done`.
    fn so_far(&self) -> String {
        format!(
            "{} of {} done",
            count(self.done()),
            plural(self.at.len(), "node")
        )
    }

    /// The nodes that are not done, by where they stand.
    fn left(&self) -> BTreeMap<&Point, Vec<&str>> {
        let mut left: BTreeMap<&Point, Vec<&str>> = BTreeMap::new();
        for (node, (point, _)) in &self.at {
            if *point != Point::Gone {
                left.entry(point).or_default().push(node);
            }
        }
        left
    }

    /// All of it, for a screen.
    fn drawn(&self, now: Timestamp) -> Text {
        let mut table = Table::new(["stage", "nodes", "which"]).prose();
        for (point, nodes) in self.left() {
            let set = NodeSet::of(nodes.iter().copied());
            table.row(cells![point.words(), count(nodes.len()), set.limited(4)]);
        }
        let mut slow: Vec<_> = self.at.iter().collect();
        slow.retain(|(_, (point, since))| *point != Point::Gone && since.is_some());
        slow.sort_by_key(|(name, (_, since))| (*since, (*name).clone()));
        let slow: Vec<String> = slow
            .iter()
            .take(SLOWEST)
            .map(|(name, (point, since))| {
                format!("{name} ({}, {})", point.words(), age(*since, now))
            })
            .collect();
        let mut text = Text::new();
        let title = format!("{} {}: ", self.name, self.version);
        text.line(text::heading(title) + self.so_far());
        text.append(table);
        if !slow.is_empty() {
            text.line(format!("longest there: {}", slow.join(", ")));
        }
        text
    }
}

impl Goal for Progress {
    fn takes(&mut self, until: &Until) -> bool {
        let Sign::Uninstalled { package, version } = &until.sign else {
            return false;
        };
        let mut packages = self.packages.iter();
        let found = packages.position(|p| p.name == *package && p.version == *version);
        self.current = found.unwrap_or(self.current);
        found.is_some()
    }

    fn look(&mut self, cluster: &Cluster) -> Look {
        let package = &mut self.packages[self.current];
        let look = |standing, whole: Text, news| Look {
            standing,
            whole,
            news,
        };
        let cannot = |what: &str| {
            let line = format!("the {what} cannot be read; still waiting");
            look(Standing::NotYet, line.as_str().into(), Vec::new())
        };
        let Some(skyhook) = cluster.skyhook(&self.skyhook) else {
            return match cluster.skyhooks {
                Read::Ok(_) => {
                    let why = format!("{} is gone", self.skyhook);
                    look(Standing::Never(why), Text::new(), Vec::new())
                }
                _ => cannot("custom resource"),
            };
        };
        if !matches!(cluster.nodes, Read::Ok(_)) {
            return cannot("nodes");
        }
        let news = package.look(cluster, skyhook);
        let so_far = package.so_far();
        let line = |(point, nodes): (Point, Vec<String>)| {
            let set = NodeSet::of(nodes.iter().map(String::as_str)).limited(4);
            Line::from(format!(
                "{} on {set}: {}; {so_far}",
                package.name,
                point.words()
            ))
        };
        let news = news.into_iter().map(line).collect();
        let whole = package.drawn(cluster.taken_at);
        package.gone = package.left().is_empty();
        let gone = package.gone;
        let standing = match gone {
            true if self.mirrored(skyhook) => Standing::NotYet,
            true => Standing::Met,
            false => match self.never(skyhook) {
                Some(why) => Standing::Never(why),
                None => Standing::NotYet,
            },
        };
        look(standing, whole, news)
    }

    fn hindrances(&mut self, cluster: &Cluster) -> BTreeSet<String> {
        let package = &self.packages[self.current];
        let gone = |node: &str| {
            let at = package.at.get(node);
            at.is_some_and(|(point, _)| *point == Point::Gone)
        };
        let report = hindrances(cluster, &self.skyhook, &package.name, gone);
        report.findings.iter().map(name_of).collect()
    }

    fn give_up(&mut self, cluster: Cluster, stay: &BTreeSet<String>) {
        let package = &self.packages[self.current];
        let mut report = hindrances(&cluster, &self.skyhook, &package.name, |_| false);
        report.findings.retain(|f| stay.contains(&name_of(f)));
        report.counts.errors = report.findings.len();
        self.found = Some((cluster, report));
    }

    fn found(&self) -> Option<Box<dyn View + '_>> {
        let (cluster, report) = self.found.as_ref()?;
        Some(Box::new(Diagnosis::new(cluster, report.clone())))
    }

    fn summary(&self, finished: bool) -> Option<String> {
        let (gone, left): (Vec<&Package>, Vec<&Package>) =
            self.packages.iter().partition(|p| p.gone);
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
        let (current, later): (Vec<&Package>, Vec<&Package>) = left
            .into_iter()
            .partition(|p| p.name == self.packages[self.current].name);
        for package in current {
            let left = package.left().into_iter().map(|(point, nodes)| {
                format!("{} on {}", point.words(), NodeSet::of(nodes).limited(4))
            });
            let left: Vec<String> = left.collect();
            parts.push(format!(
                "{} {}: {}: {}",
                package.name,
                package.version,
                package.so_far(),
                left.join(", ")
            ));
            parts.push("its uninstall goes on in the cluster, as far as it can".to_owned());
        }
        if !later.is_empty() {
            parts.push(format!("{} not begun", names(&later)));
        }
        Some(parts.join("; "))
    }
}
