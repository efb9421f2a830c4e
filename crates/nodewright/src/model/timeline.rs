//! The operator's future actions until the end of all rollouts, with their times.

use std::collections::BTreeMap;
use std::fmt;

use jiff::SignedDuration;

use super::{Model, WaitReason};
use crate::api::{Skyhook, Stage, Status};
use crate::cluster::{NamedNodes, Node, NodeRecord};

/// All rollouts, if nobody intervenes and every stage succeeds.
#[derive(Debug)]
pub struct Timeline<'a> {
    /// All actions, sorted by time; empty if only estimates were requested.
    pub moments: Vec<Moment<'a>>,
    /// For each node that becomes complete, the custom resource and the seconds until then. Sorted by time.
    pub completions: Vec<(&'a str, f64)>,
    /// The custom resources with remaining work, each with the time of its last moment.
    pub(super) ends: Vec<(&'a str, Remaining)>,
    /// The custom resources that do not finish in the simulation.
    pub stuck: BTreeMap<&'a str, Stuck<'a>>,
    /// By custom resource, the first drain that it waits for and that is refused until someone intervenes.
    pub refused: BTreeMap<&'a str, RefusedDrain<'a>>,
    /// Why durations are unknown, if they are.
    pub untimed: Option<Untimed<'a>>,
}

/// The end of a rollout that does not finish.
#[derive(Debug)]
pub struct Stuck<'a> {
    /// Number of nodes that do not finish, not counting those that only wait for a refused drain.
    pub open: usize,
    /// Why it does not on one of these nodes, and that node; `None` if only estimates were requested.
    pub obstacle: Option<(WaitReason<'a>, &'a Node)>,
}

/// A drain that is refused, or that timed out, until someone intervenes.
#[derive(Debug, Clone)]
pub struct RefusedDrain<'a> {
    /// The custom resource that drains.
    pub skyhook: &'a str,
    pub node: &'a Node,
    /// `is refused: PodDisruptionBudget apps/web allows no evictions`.
    pub why: String,
}

impl fmt::Display for RefusedDrain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the drain of {} {}", self.node.name, self.why)
    }
}

/// Why there is no estimate.
#[derive(Debug, Clone, Copy)]
pub enum Untimed<'a> {
    /// The first package with a stage whose duration is unknown, and its custom resource.
    UnknownDuration {
        skyhook: &'a str,
        package: &'a str,
    },
    /// A drain waits for a pod with a finalizer, which another program has to remove.
    Finalizer {
        node: &'a str,
        pod: &'a str,
    },
    TooManyNodes,
}

impl Untimed<'_> {
    /// Why a custom resource has no estimate: `the duration of driver is not known yet`.
    pub fn words(self, of: &str) -> String {
        match self {
            Untimed::UnknownDuration { skyhook, package } => {
                let other = if skyhook == of { String::new() } else { format!(" of {skyhook}") };
                format!("the duration of {package}{other} is not known yet")
            }
            Untimed::Finalizer { node, pod } => {
                format!("the drain of {node} waits for pod {pod}, which has a finalizer")
            }
            Untimed::TooManyNodes => "there are too many nodes".to_owned(),
        }
    }
}

/// An action for a custom resource on a node.
#[derive(Debug, Clone)]
pub struct Moment<'a> {
    /// Seconds since the time at which the cluster was read.
    pub seconds: f64,
    /// Whether the operator acts at once: no stage has to end before.
    pub at_once: bool,
    /// Whether it happens only if somebody ends the refusal of a drain before ([`Timeline::refused`]).
    pub assumed: bool,
    pub skyhook: &'a str,
    pub node: &'a Node,
    pub what: Happening<'a>,
}

/// An event on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happening<'a> {
    /// Cordons the node, and evicts this many pods.
    Cordon {
        pods: usize,
    },
    Start {
        package: &'a str,
        stage: Stage,
    },
    /// The custom resource is complete on the node, and its cordon is removed.
    Complete,
}

/// The time until a custom resource is complete on all of its nodes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Remaining {
    /// The estimate, in seconds.
    pub seconds: f64,
    /// The relative uncertainty, such as 0.5 if the time may be half as long again, or shorter by the same factor; 0 if
    /// the times of nodes are steady.
    pub uncertainty: f64,
}

impl Remaining {
    /// The ends of the range that the time is expected in, in seconds.
    pub fn range(&self) -> [f64; 2] {
        [self.seconds / (1.0 + self.uncertainty), self.seconds * (1.0 + self.uncertainty)]
    }
}

impl Timeline<'_> {
    /// The time until a custom resource is complete; `None` if it is already complete or never completes, or
    /// durations are unknown.
    pub fn remaining(&self, skyhook: &str) -> Option<Remaining> {
        if self.untimed.is_some() || self.stuck.contains_key(skyhook) {
            return None;
        }
        self.ends.iter().find(|(name, _)| *name == skyhook).map(|(_, end)| *end)
    }

    /// The time until the first action for a custom resource on a node; `None` if there is none, or durations
    /// are unknown.
    pub fn start(&self, skyhook: &str, node: &str) -> Option<Remaining> {
        let mut moments = self.moments.iter().filter(|_| self.untimed.is_none());
        let first = moments.find(|m| m.skyhook == skyhook && m.node.name == *node)?;
        let (_, end) = self.ends.iter().find(|(name, _)| *name == skyhook)?;
        Some(Remaining { seconds: first.seconds, ..*end })
    }
}

/// Formats the time: `~6m`, or a range if the times of nodes vary: `5m to 20m`.
impl fmt::Display for Remaining {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [low, high] = self.range().map(rounded);
        if self.uncertainty == 0.0 || low == high {
            return write!(f, "~{:#}", rounded(self.seconds));
        }
        write!(f, "{low:#} to {high:#}")
    }
}

/// Rounds to the precision of an estimate: seconds up to a minute, minutes up to two hours, hours up to two
/// days, then days.
fn rounded(seconds: f64) -> SignedDuration {
    let unit = match seconds {
        ..60.0 => 1.0,
        ..7200.0 => 60.0,
        ..172_800.0 => 3600.0,
        _ => 86_400.0,
    };
    let units = (seconds / unit).round().max(1.0);
    SignedDuration::from_secs((units * unit) as i64)
}

impl Model<'_> {
    /// Whether the named nodes suffice for the command: they exist, all other names are known, and nothing
    /// requires the state of other nodes. `true` if nodes could not be read.
    ///
    /// If the named nodes do not suffice, all nodes are read: they may have a name that the named nodes lack,
    /// or a similar name to suggest.
    pub fn suffices(&self, named: &NamedNodes) -> bool {
        let there = named.nodes.iter().all(|name| self.cluster.node(name).is_some());
        let unread = self.cluster.nodes.ok().is_none();
        let known = |name: &String| {
            let mut all = self.cluster.skyhooks.iter().chain(&self.cluster.legacy);
            all.any(|s| s.name() == name) || self.cluster.names_on_nodes().contains(&name.as_str())
        };
        unread
            || there
                && named.skyhook.as_ref().is_none_or(known)
                && named.package.as_ref().is_none_or(|package| {
                    let skyhook = named.skyhook.as_deref().unwrap_or_default();
                    self.has_package(skyhook, package)
                })
                && !self.lacks_requested_uninstall()
                && !(named.to_change
                    && (self.gave_up_elsewhere()
                        || self.has_work_elsewhere()
                        || self.has_stopped_rollout()
                        || self.has_stopped_deletion()))
    }

    /// Whether all custom resources are finished on a node, so that other nodes do not affect it.
    pub fn is_done_with(&self, node: &Node) -> bool {
        let done = |s: &Skyhook| {
            let on = self.cluster.on_node(node, s.name());
            // Only the whole list of nodes shows whether a package was uninstalled or never installed.
            let absent_by_request = s.packages().any(|(_, p)| s.uninstalls(p));
            !s.deleting()
                && !absent_by_request
                && self.is_done_on(s, node)
                && !on.is_some_and(NodeRecord::is_malformed)
        };
        let selects = |s: &&Skyhook| s.selects(node);
        let skyhooks = self.cluster.skyhooks.ok().map(|all| all.iter().filter(selects));
        self.cluster.legacy.items().is_empty() && skyhooks.is_some_and(|mut all| all.all(done))
    }

    /// Whether a Job failed permanently on a node that was not read. How a pause affects the Job depends on
    /// the state of that node.
    fn gave_up_elsewhere(&self) -> bool {
        let package_runs = self.cluster.package_runs();
        let mut failed = package_runs.all().iter().filter(|run| run.job.is_some() && run.given_up());
        failed.any(|e| self.cluster.node(e.node).is_none())
    }

    /// Whether a custom resource may be incomplete on a node that was not read: work there may start once the named
    /// nodes change.
    fn has_work_elsewhere(&self) -> bool {
        let mut skyhooks = self.cluster.skyhooks.iter().filter(|skyhook| skyhook.will_act());
        skyhooks.any(|skyhook| {
            let status = &skyhook.status;
            if skyhook.deleting() || status.observed_generation < skyhook.metadata.generation {
                return true;
            }
            let counts = status.complete_nodes.split_once('/');
            let counts = counts.and_then(|(done, all)| Some((done.parse().ok()?, all.parse().ok()?)));
            let Some((done, all)): Option<(usize, usize)> = counts else {
                return status.status != Some(Status::Complete);
            };
            let nodes = self.cluster.nodes.iter().filter(|node| skyhook.selects(node));
            let open = nodes.filter(|node| !self.is_done_on(skyhook, node)).count();
            all.saturating_sub(done) > open
        })
    }

    /// Whether a package with a requested uninstall is absent on a node. Only the whole list of nodes shows
    /// whether the package was ever installed.
    fn lacks_requested_uninstall(&self) -> bool {
        self.cluster.skyhooks.iter().any(|skyhook| {
            let mut requested = skyhook.packages().filter(|(_, p)| skyhook.uninstalls(p));
            requested.any(|(name, package)| {
                let absent = |node: &Node| {
                    let on = self.cluster.on_node(node, skyhook.name());
                    let recorded = on.is_some_and(|on| on.entry(&package.entry_key(name)).is_some());
                    skyhook.selects(node) && !recorded
                };
                self.cluster.nodes.iter().any(absent)
            })
        })
    }

    /// Whether a rollout has stopped: resuming it affects all of its nodes.
    fn has_stopped_rollout(&self) -> bool {
        self.cluster.skyhooks.iter().any(|s| s.stopped_compartments().next().is_some())
    }

    /// Whether a pause or disable stops a deletion. Only the whole list of nodes shows whether packages are left
    /// to uninstall; otherwise the operator finishes the deletion.
    fn has_stopped_deletion(&self) -> bool {
        self.cluster.skyhooks.iter().any(|skyhook| skyhook.deleting() && !skyhook.is_active())
    }

    fn has_package(&self, skyhook: &str, package: &str) -> bool {
        let spec = self.cluster.skyhook(skyhook).and_then(|s| s.package(package));
        let mut entries = self.cluster.tracked(skyhook).flat_map(|(_, on)| on.entries());
        spec.is_some() || entries.any(|e| e.identity().0 == package)
    }
}
