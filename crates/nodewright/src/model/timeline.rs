//! The operator's future actions until the end of all rollouts, with their times.

use std::fmt;

use jiff::SignedDuration;

use super::Model;
use crate::api::Stage;
use crate::cluster::{Cluster, Node};

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
    pub stuck: Vec<&'a str>,
    /// Why durations are unknown, if they are.
    pub untimed: Option<Untimed<'a>>,
}

/// Why there is no estimate.
#[derive(Debug, Clone, Copy)]
pub enum Untimed<'a> {
    /// No stage has ended anywhere; the first package with a stage to run.
    NoStageEnded(&'a str),
    TooManyNodes,
}

impl fmt::Display for Untimed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Untimed::NoStageEnded(package) => write!(f, "no stage of {package} has ended yet"),
            Untimed::TooManyNodes => write!(f, "there are too many nodes"),
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
        if self.untimed.is_some() || self.stuck.contains(&skyhook) {
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

/// The time until a custom resource is complete on all of its nodes, if nobody intervenes. `None` if it is
/// already complete or never completes, or if durations are unknown: no stage has finished, or there are too
/// many nodes.
pub fn remaining(cluster: &Cluster, skyhook: &str) -> Option<Remaining> {
    Model::new(cluster).estimates().remaining(skyhook)
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
