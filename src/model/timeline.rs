//! What the operator will do until nothing is left, and how long it takes.

use std::fmt;

use jiff::SignedDuration;

use super::Model;
use crate::api::Stage;
use crate::cluster::{Cluster, Node};

/// A rollout as it goes on if nobody intervenes and every stage succeeds.
#[derive(Debug)]
pub struct Timeline<'a> {
    /// In order of time; empty if only estimates were asked for.
    pub moments: Vec<Moment<'a>>,
    /// In order of time: the seconds after which a custom resource becomes complete on one more node.
    pub completions: Vec<(&'a str, f64)>,
    /// The custom resources for which anything is left to do, each with its last moment in seconds.
    pub(super) ends: Vec<(&'a str, f64)>,
    /// The custom resources that do not get to their end.
    pub stuck: Vec<&'a str>,
    /// Durations are unknown: no stage has finished anywhere, or there are too many nodes for an estimate.
    pub untimed: bool,
    /// How far off the times may be, in proportion.
    pub uncertainty: f64,
}

/// An action for a custom resource on a node.
#[derive(Debug, Clone)]
pub struct Moment<'a> {
    /// From the time of the cluster.
    pub seconds: f64,
    pub skyhook: &'a str,
    pub node: &'a Node,
    pub what: Happening<'a>,
}

/// What happens to a node.
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
    /// The custom resource is complete on the node, and its cordon lifted.
    Complete,
}

/// The time until a custom resource is complete on all of its nodes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Remaining {
    /// The estimate, in seconds.
    pub seconds: f64,
    /// How far off it may be, in proportion; 0 where the times of nodes are steady.
    pub uncertainty: f64,
}

impl Timeline<'_> {
    /// The time until a custom resource is complete; `None` where it will not be, or durations are unknown.
    pub fn remaining(&self, skyhook: &str) -> Option<Remaining> {
        if self.untimed || self.stuck.contains(&skyhook) {
            return None;
        }
        let (_, seconds) = self.ends.iter().find(|(name, _)| *name == skyhook)?;
        Some(self.until(*seconds))
    }

    /// The time until the first stage of a custom resource on a node; `None` where there is none, or durations are unknown.
    pub fn start(&self, skyhook: &str, node: &str) -> Option<Remaining> {
        let mut moments = self.moments.iter().filter(|_| !self.untimed);
        let first = moments.find(|m| m.skyhook == skyhook && m.node.name == *node)?;
        Some(self.until(first.seconds))
    }

    fn until(&self, seconds: f64) -> Remaining {
        Remaining { seconds, uncertainty: self.uncertainty }
    }
}

/// The time until a custom resource is complete on all of its nodes, if nobody intervenes; `None` where it is complete, will
/// not be, or no stage has finished yet that shows how long one takes.
pub fn remaining(cluster: &Cluster, skyhook: &str) -> Option<Remaining> {
    Model::new(cluster).estimates().remaining(skyhook)
}

/// `~6m`, or a range where the times of nodes vary: `5m to 20m`.
impl fmt::Display for Remaining {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [low, high] = [1.0 - self.uncertainty, 1.0 + self.uncertainty].map(|x| rounded(self.seconds * x));
        if self.uncertainty == 0.0 || low == high {
            return write!(f, "~{:#}", rounded(self.seconds));
        }
        write!(f, "{low:#} to {high:#}")
    }
}

/// To a figure that claims no more than an estimate can: whole seconds up to a minute, minutes up to two hours.
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
