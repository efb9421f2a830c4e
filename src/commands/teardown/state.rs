//! How far the removal of each object has got. Pure.

use std::collections::BTreeMap;

use super::blocker::Blocker;
use super::order::{DoomedObject, LiveObject};
use crate::cluster::Cluster;
use crate::view::plural;

/// How far the removal of an object has got.
#[derive(Debug, Clone, PartialEq)]
pub enum RemovalState {
    /// Its turn has not come: these have to be gone first.
    NotBegun(Vec<String>),
    /// It is on its way, and what is left to do.
    Going(String),
    /// It cannot go on by itself, gravest reason first.
    Stalled(Vec<Blocker>),
    /// Its deletion was turned down.
    Failed(String),
    /// Nobody can tell whether its deletion was taken.
    Unknown(String),
    Gone,
    /// Another object of that name is there: somebody makes it again.
    MadeAgain,
}

impl RemovalState {
    pub fn word(&self) -> &'static str {
        match self {
            RemovalState::NotBegun(_) => "not begun",
            RemovalState::Going(_) => "going",
            RemovalState::Stalled(_) => "stalled",
            RemovalState::Failed(_) => "not deleted",
            RemovalState::Unknown(_) => "unknown",
            RemovalState::Gone => "gone",
            RemovalState::MadeAgain => "made again",
        }
    }
}

/// Where each object stands, once some deletions were asked for.
pub struct TeardownState {
    pub items: Vec<DoomedObject>,
    pub begun: Vec<bool>,
    pub failed: BTreeMap<usize, String>,
    pub unknown: BTreeMap<usize, String>,
}

impl TeardownState {
    pub fn new(items: Vec<DoomedObject>) -> TeardownState {
        TeardownState {
            begun: vec![false; items.len()],
            failed: BTreeMap::new(),
            unknown: BTreeMap::new(),
            items,
        }
    }

    /// Whether nothing of that uid is there any more.
    pub fn gone(&self, cluster: &Cluster, at: usize) -> bool {
        let item = &self.items[at];
        match item.find(cluster) {
            Some(found) => found.metadata().uid != item.target.uid,
            None => true,
        }
    }

    /// What may begin now: all that has to be gone before is.
    pub fn ready(&self, cluster: &Cluster) -> Vec<usize> {
        let all = 0..self.items.len();
        all.filter(|&at| !self.begun[at])
            .filter(|&at| {
                let mut after = self.items[at].after.iter();
                after.all(|&other| self.gone(cluster, other))
            })
            .collect()
    }

    /// Where each stands; `stalled` is what was found and found again.
    pub fn standings(
        &self,
        cluster: &Cluster,
        stalled: &BTreeMap<usize, Vec<Blocker>>,
    ) -> Vec<RemovalState> {
        (0..self.items.len())
            .map(|at| self.standing(cluster, stalled, at))
            .collect()
    }

    fn standing(
        &self,
        cluster: &Cluster,
        stalled: &BTreeMap<usize, Vec<Blocker>>,
        at: usize,
    ) -> RemovalState {
        let item = &self.items[at];
        let found = item.find(cluster);
        if self.gone(cluster, at) {
            return match found {
                Some(_) => RemovalState::MadeAgain,
                None => RemovalState::Gone,
            };
        }
        if let Some(why) = self.failed.get(&at) {
            return RemovalState::Failed(why.clone());
        }
        let deleting = found.is_some_and(|found| found.metadata().deleting());
        if let Some(why) = self.unknown.get(&at).filter(|_| !deleting) {
            return RemovalState::Unknown(why.clone());
        }
        if !self.begun[at] {
            let first = item.after.iter().filter(|&&o| !self.gone(cluster, o));
            let first = first.map(|&o| self.items[o].target.to_string());
            return RemovalState::NotBegun(first.collect());
        }
        match (stalled.get(&at), found) {
            (Some(why), _) => RemovalState::Stalled(why.clone()),
            (None, Some(found)) => RemovalState::Going(so_far(cluster, item, found)),
            (None, None) => RemovalState::Gone,
        }
    }
}

fn so_far(cluster: &Cluster, item: &DoomedObject, found: LiveObject<'_>) -> String {
    let LiveObject::Skyhook(skyhook) = found else {
        return "its finalizers are not removed yet".to_owned();
    };
    let ours = item.flavor == cluster.flavor();
    let pending = if ours {
        cluster.pending_uninstalls(skyhook)
    } else {
        Vec::new()
    };
    let mut nodes: Vec<&str> = pending.iter().map(|p| p.node.name.as_str()).collect();
    nodes.sort_unstable();
    nodes.dedup();
    match pending.len() {
        0 => "the operator removes its finalizer next".to_owned(),
        n => format!(
            "{} left on {}",
            plural(n, "uninstall"),
            plural(nodes.len(), "node")
        ),
    }
}
