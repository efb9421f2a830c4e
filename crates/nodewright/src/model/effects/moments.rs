//! Summarizes the moments of a timeline that belong to one custom resource.

use std::collections::{BTreeSet, HashMap};

use super::{PackageChange, PackageDocument, names};
use crate::api::keys::go_version;
use crate::api::{Entry, Package, Stage, State};
use crate::cluster::{Cluster, Node};
use crate::model::timeline::{Happening, Moment, Timeline};

/// The moments of one custom resource, in order.
pub(super) struct Moments<'m, 'a> {
    live: &'a Cluster,
    edited: &'a Cluster,
    skyhook: &'a str,
    all: Vec<&'m Moment<'a>>,
    /// The stages that start, by package.
    starts: HashMap<&'a str, Vec<(&'a Node, &'m Stage)>>,
    /// By node, the times between its first action and its completion, as indexes of moments.
    at_work: HashMap<&'a str, Vec<[usize; 2]>>,
}

impl<'m, 'a> Moments<'m, 'a> {
    pub fn of(
        timeline: &'m Timeline<'a>,
        live: &'a Cluster,
        edited: &'a Cluster,
        skyhook: &'a str,
    ) -> Moments<'m, 'a> {
        let all: Vec<_> = timeline.moments.iter().filter(|moment| moment.skyhook == skyhook).collect();
        let mut starts: HashMap<&str, Vec<_>> = HashMap::new();
        let mut at_work: HashMap<&str, Vec<[usize; 2]>> = HashMap::new();
        for (at, moment) in all.iter().enumerate() {
            if let Happening::Start { package, stage } = &moment.what {
                starts.entry(package).or_default().push((moment.node, stage));
            }
            let times = at_work.entry(&moment.node.name).or_default();
            let open = times.last_mut().filter(|[_, end]| *end == usize::MAX);
            match (open, &moment.what) {
                (Some([_, end]), Happening::Complete) => *end = at,
                (None, Happening::Cordon { .. } | Happening::Start { .. }) => times.push([at, usize::MAX]),
                _ => {}
            }
        }
        Moments { live, edited, skyhook, all, starts, at_work }
    }

    /// The effects on a package. An upgrade starts at once on nodes with an earlier version, an installation in batches on
    /// the others; an uninstall starts after an installation that is not complete.
    pub fn package(
        &self,
        name: &'a str,
        was: Option<&'a Package>,
        is: Option<&'a Package>,
        interrupt: Option<&'a str>,
    ) -> Vec<PackageDocument> {
        let whole = self.effect(name, was, is, interrupt, |_| true);
        let starts = self.starts.get(name).into_iter().flatten();
        let installs = starts.filter(|(_, stage)| **stage == Stage::Apply);
        let installs: BTreeSet<&str> = installs.map(|(node, _)| node.name.as_str()).collect();
        let change = match whole.change {
            PackageChange::Upgrade => PackageChange::Install,
            change => change,
        };
        if installs.is_empty() || !matches!(whole.change, PackageChange::Upgrade | PackageChange::Uninstall) {
            return vec![whole];
        }
        let of = |fresh: bool| {
            self.effect(name, was, is, interrupt, |node| installs.contains(node.name.as_str()) == fresh)
        };
        let installed = PackageDocument { change, from: None, to: None, ..of(true) };
        [of(false), installed].into_iter().filter(|effect| !effect.nodes.is_empty()).collect()
    }

    /// The effect on a package on the nodes that `on` accepts.
    fn effect(
        &self,
        name: &'a str,
        was: Option<&'a Package>,
        is: Option<&'a Package>,
        interrupt: Option<&'a str>,
        on: impl Fn(&'a Node) -> bool,
    ) -> PackageDocument {
        let mut nodes: Vec<&'a Node> = Vec::new();
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        let mut stages: Vec<Stage> = Vec::new();
        // Nodes on which the first stage starts.
        let mut applied: Vec<&'a Node> = Vec::new();
        for (node, stage) in self.starts.get(name).into_iter().flatten().filter(|(node, _)| on(node)) {
            if seen.insert(&node.name) {
                nodes.push(node);
            }
            if **stage == Stage::Apply {
                applied.push(node);
            }
            if !stages.contains(stage) {
                stages.push((*stage).clone());
            }
        }
        let applies = |package: Option<&Package>| package.is_some_and(|p| p.uninstall().apply);
        let cancelled = applies(was) && !applies(is);
        let edited = match (was, is) {
            (Some(was), Some(is)) => is.whole != was.whole,
            _ => false,
        };
        let edited_version = was.zip(is).filter(|(was, is)| was.version != is.version);
        let versions = match (edited_version, is) {
            (Some((was, is)), _) => Some((was.version.as_str(), is.version.as_str())),
            (None, Some(is)) => {
                let mut recorded = self.recorded(self.live, name, &nodes);
                let earlier = recorded.find(|entry| entry.version != is.version);
                earlier.map(|entry| (entry.version.as_ref(), is.version.as_str()))
            }
            (None, None) => None,
        };
        let is_lower = |(from, to): (&str, &str)| {
            go_version(to).zip(go_version(from)).is_some_and(|(to, from)| to < from)
        };
        let upgrades = edited_version.is_some() || stages.contains(&Stage::Upgrade);
        let runs = |stage: Stage| stages.contains(&stage);
        let change = match is {
            None => {
                if self.is_recorded(self.live, name) {
                    PackageChange::LeftSpec
                } else {
                    PackageChange::Removed
                }
            }
            Some(_) if !cancelled && stages.iter().any(Stage::is_uninstall) => PackageChange::Uninstall,
            Some(is)
                if stages.is_empty()
                    && (was.is_none() || edited && is.uninstall().apply)
                    && !self.is_recorded(self.edited, name) =>
            {
                PackageChange::NotInstalled
            }
            Some(_) if stages.is_empty() && (edited || was.is_none()) => PackageChange::WithoutEffect,
            Some(_) if stages.is_empty() => PackageChange::Unchanged,
            Some(_) if upgrades && versions.is_some_and(is_lower) => PackageChange::Downgrade,
            Some(_) if upgrades && versions.is_some() => PackageChange::Upgrade,
            Some(is)
                if runs(Stage::Apply) && applied.iter().any(|node| self.is_uninstalling(name, is, node)) =>
            {
                PackageChange::CancelUninstall
            }
            Some(is)
                if runs(Stage::Apply)
                    && applied.iter().all(|node| self.is_installed(self.live, name, is, node)) =>
            {
                PackageChange::Reinstall
            }
            Some(_) if runs(Stage::Apply) || runs(Stage::Upgrade) => PackageChange::Install,
            Some(is)
                if runs(Stage::Config)
                    && (was.is_some_and(|was| was.config_map != is.config_map)
                        || self.reconfigures(name, is, &nodes)) =>
            {
                PackageChange::Configure
            }
            // The upgrade or installation continues after its first stage.
            Some(_) if runs(Stage::Config) && versions.is_some() => PackageChange::Upgrade,
            Some(_) if runs(Stage::Config) => PackageChange::Install,
            Some(_) => PackageChange::Interrupt,
        };
        let interrupts = stages.iter().any(Stage::is_interrupt);
        let versions =
            versions.filter(|_| matches!(change, PackageChange::Upgrade | PackageChange::Downgrade));
        let (from, to) = versions.map(|(from, to)| (from.to_owned(), to.to_owned())).unzip();
        PackageDocument {
            skyhook: self.skyhook.to_owned(),
            package: name.to_owned(),
            change,
            from,
            to,
            at_once: Some(self.at_once(&nodes)),
            nodes: names(nodes.iter().copied()),
            regardless: Vec::new(),
            stages: stages.iter().map(ToString::to_string).collect(),
            interrupt: interrupt.filter(|_| interrupts).map(str::to_owned),
            estimate: None,
        }
    }

    /// Whether a changed configMap runs stage config again: the package is complete on a node, or a change of its
    /// configMap is in progress.
    fn reconfigures(&self, name: &str, package: &Package, nodes: &[&'a Node]) -> bool {
        self.live.skyhook(self.skyhook).is_some_and(|skyhook| {
            let current = |entry: &&Entry| entry.version == package.version;
            let mut recorded = self.recorded(self.live, name, nodes).filter(current);
            !skyhook.config_updates(name).is_empty()
                || recorded.any(|entry| skyhook.is_package_complete(self.live, name, entry))
        })
    }

    /// Whether the version in the spec has completed its first stage on this node.
    fn is_installed(&self, cluster: &'a Cluster, name: &str, package: &Package, node: &'a Node) -> bool {
        let mut recorded = self.recorded(cluster, name, std::slice::from_ref(&node));
        recorded.any(|entry| {
            let past_first = !matches!(entry.stage, Stage::Apply | Stage::Upgrade);
            entry.version == package.version && (entry.state == State::Complete || past_first)
        })
    }

    /// Whether the uninstall of the version in the spec has started on this node.
    fn is_uninstalling(&self, name: &str, package: &Package, node: &'a Node) -> bool {
        let mut recorded = self.recorded(self.edited, name, std::slice::from_ref(&node));
        recorded.any(|entry| entry.version == package.version && entry.stage == Stage::Uninstall)
    }

    fn is_recorded(&self, cluster: &'a Cluster, name: &str) -> bool {
        let nodes: Vec<&Node> = self.live.nodes.iter().collect();
        self.recorded(cluster, name, &nodes).next().is_some()
    }

    /// The entries of a package in the node states of these nodes.
    fn recorded(
        &self,
        cluster: &'a Cluster,
        name: &str,
        nodes: &[&'a Node],
    ) -> impl Iterator<Item = &'a Entry> {
        let skyhook = self.skyhook;
        nodes
            .iter()
            .filter_map(move |node| cluster.on_node(cluster.node(&node.name)?, skyhook))
            .flat_map(|record| record.entries())
            .filter(move |entry| entry.name == name)
    }

    /// Maximum number of these nodes that are simultaneously between their first action and their completion.
    fn at_once(&self, nodes: &[&Node]) -> usize {
        let times = nodes.iter().filter_map(|node| self.at_work.get(node.name.as_str())).flatten();
        let (mut begins, mut ends): (Vec<usize>, Vec<usize>) = times.map(|[begin, end]| (begin, end)).unzip();
        begins.sort_unstable();
        ends.sort_unstable();
        let working = |(at, begin): (usize, &usize)| at + 1 - ends.partition_point(|end| end < begin);
        begins.iter().enumerate().map(working).max().unwrap_or(0)
    }

    pub fn cordoned(&self) -> Vec<&'a Node> {
        let cordons = self.all.iter().filter(|m| matches!(m.what, Happening::Cordon { .. }));
        cordons.map(|moment| moment.node).collect()
    }

    /// Nodes with an interrupt before their cordon: one that was added to a complete package (operator `ProcessInterrupt`).
    pub fn interrupted_uncordoned(&self) -> Vec<&'a Node> {
        let mut cordoned: BTreeSet<&str> = BTreeSet::new();
        let mut interrupted: Vec<&'a Node> = Vec::new();
        for moment in &self.all {
            match &moment.what {
                Happening::Cordon { .. } => drop(cordoned.insert(&moment.node.name)),
                Happening::Start { stage, .. }
                    if stage.is_interrupt()
                        && moment.node.cordoned() == Some(false)
                        && cordoned.insert(&moment.node.name) =>
                {
                    interrupted.push(moment.node);
                }
                _ => {}
            }
        }
        interrupted
    }

    pub fn evicted(&self) -> usize {
        self.all
            .iter()
            .map(|moment| match moment.what {
                Happening::Cordon { pods } => pods,
                _ => 0,
            })
            .sum()
    }
}
