//! The moments of a timeline that belong to one custom resource, summed up.

use std::collections::BTreeSet;

use super::{Change, PackageEffect};
use crate::api::{Package, Stage, State};
use crate::cluster::{Cluster, Node};
use crate::model::timeline::{Happening, Moment};

/// What happens to one custom resource, in order.
pub(super) struct Moments<'m, 'a> {
    pub live: &'a Cluster,
    pub edited: &'a Cluster,
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
        let change = match (was, is) {
            (_, None) => Change::LeftSpec,
            _ if !cancelled && stages.iter().any(Stage::is_uninstall) => Change::Uninstall,
            (Some(was), Some(is)) if was.version != is.version && !stages.is_empty() => {
                Change::Upgrade {
                    from: &was.version,
                    to: &is.version,
                }
            }
            (_, Some(is)) if stages.contains(&Stage::Upgrade) => {
                match self.earlier(name, is, &nodes) {
                    Some(from) => Change::Upgrade {
                        from,
                        to: &is.version,
                    },
                    None => Change::Install,
                }
            }
            _ if stages.contains(&Stage::Apply) => Change::Install,
            // Its first stage runs already.
            (_, Some(is))
                if stages.contains(&Stage::Config) && !self.is_installed(name, is, &nodes) =>
            {
                Change::Install
            }
            _ if stages.contains(&Stage::Config) => Change::Configure,
            _ if !stages.is_empty() => Change::Interrupt,
            _ if edited => Change::WithoutEffect,
            _ => Change::Unchanged,
        };
        let interrupts = stages.iter().any(Stage::is_interrupt);
        PackageEffect {
            package: name,
            change,
            at_once: Some(self.at_once(&seen)),
            nodes,
            stages,
            interrupt: interrupt.filter(|_| interrupts),
        }
    }

    /// Whether the package is past its first stage on the first of these nodes.
    fn is_installed(&self, name: &str, package: &Package, nodes: &[&'a Node]) -> bool {
        let record = nodes
            .first()
            .and_then(|node| self.edited.on_node(node, self.all.first()?.skyhook));
        let entry = record.and_then(|record| record.entry(&package.entry_key(name)));
        entry.is_some_and(|e| {
            e.state == State::Complete || !matches!(e.stage, Stage::Apply | Stage::Upgrade)
        })
    }

    /// Another version of a package that is recorded on one of these nodes.
    fn earlier(&self, name: &str, package: &Package, nodes: &[&'a Node]) -> Option<&'a str> {
        let skyhook = self.all.first()?.skyhook;
        let records = nodes.iter().filter_map(|node| {
            let live = self.live.node(&node.name)?;
            self.live.on_node(live, skyhook)
        });
        let mut entries = records.flat_map(|record| record.entries());
        let earlier = entries.find(|e| e.name == name && e.version != package.version);
        earlier.map(|entry| entry.version.as_ref())
    }

    /// The most of these nodes that are between their first action and their completion at the same time.
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
        let cordons = self
            .all
            .iter()
            .filter(|m| matches!(m.what, Happening::Cordon { .. }));
        cordons.map(|moment| moment.node).collect()
    }

    pub fn evicted(&self) -> usize {
        let pods = self.all.iter().map(|moment| match moment.what {
            Happening::Cordon { pods } => pods,
            _ => 0,
        });
        pods.sum()
    }
}
