//! The progress of uninstalls, updated with each read of the cluster.

mod package;

use std::collections::BTreeMap;
use std::time::Duration;

use self::package::{Package, Point};
use crate::api::Skyhook;
use crate::cluster::{Cluster, Read};
use crate::commands::shared::diagnosis::Diagnosis;
use crate::ctx::{self, AimProgress};
use crate::plan::{WaitCondition, WaitFor};
use crate::rules::Goal;
use crate::view::text::{Line, Text};
use crate::view::{NodeSet, View, list};
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
