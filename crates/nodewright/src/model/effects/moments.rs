//! Summarizes the moments of a timeline that belong to one custom resource.

use std::collections::BTreeSet;

use super::{PackageChange, PackageEffect};
use crate::api::{Entry, Package, Stage, State};
use crate::cluster::{Cluster, Node};
use crate::model::spec_errors::go_version;
use crate::model::timeline::{Happening, Moment};

/// The moments of one custom resource, in order.
pub(super) struct Moments<'m, 'a> {
    pub live: &'a Cluster,
    pub edited: &'a Cluster,
    pub skyhook: &'a str,
    pub all: Vec<&'m Moment<'a>>,
}

impl<'a> Moments<'_, 'a> {
    pub fn package(
        &self,
        name: &'a str,
        was: Option<&'a Package>,
        is: Option<&'a Package>,
        interrupt: Option<&'a str>,
    ) -> PackageEffect<'a> {
        let mut nodes: Vec<&'a Node> = Vec::new();
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        let mut stages: Vec<Stage> = Vec::new();
        // Nodes on which the first stage starts.
        let mut applied: Vec<&'a Node> = Vec::new();
        for moment in &self.all {
            let Happening::Start { package, stage } = &moment.what else {
                continue;
            };
            if *package != name {
                continue;
            }
            if seen.insert(&moment.node.name) {
                nodes.push(moment.node);
            }
            if *stage == Stage::Apply {
                applied.push(moment.node);
            }
            if !stages.contains(stage) {
                stages.push(stage.clone());
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
                    && (was.is_none()
                        || edited && is.uninstall().apply && !self.is_recorded(self.edited, name)) =>
            {
                PackageChange::NotInstalled
            }
            Some(_) if stages.is_empty() && edited => PackageChange::WithoutEffect,
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
        PackageEffect {
            package: name,
            change,
            versions: versions
                .filter(|_| matches!(change, PackageChange::Upgrade | PackageChange::Downgrade)),
            at_once: Some(self.at_once(&seen)),
            nodes,
            stages,
            interrupt: interrupt.filter(|_| interrupts),
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
        let nodes: Vec<&Node> = self.live.nodes.items().iter().collect();
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
        let records =
            nodes.iter().filter_map(move |node| cluster.on_node(cluster.node(&node.name)?, skyhook));
        records.flat_map(|record| record.entries()).filter(move |entry| entry.name == name)
    }

    /// Maximum number of these nodes that are simultaneously between their first action and their completion.
    fn at_once(&self, nodes: &BTreeSet<&str>) -> usize {
        let mut working: BTreeSet<&str> = BTreeSet::new();
        let mut most = 0;
        for moment in &self.all {
            let node = moment.node.name.as_str();
            match moment.what {
                _ if !nodes.contains(node) => {}
                Happening::Complete => {
                    working.remove(node);
                }
                _ => {
                    working.insert(node);
                    most = most.max(working.len());
                }
            }
        }
        most
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
        let pods = self.all.iter().map(|moment| match moment.what {
            Happening::Cordon { pods } => pods,
            _ => 0,
        });
        pods.sum()
    }
}

/// Whether the second version is lower than the first.
fn is_lower((from, to): (&str, &str)) -> bool {
    go_version(to).zip(go_version(from)).is_some_and(|(to, from)| to < from)
}
