//! The objects that a teardown deletes, with their state. Pure.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::blocker::{self, Blocker, DoomedObject, items};
use crate::cluster::{Cluster, Read, Source};
use crate::rules::support::blockers::BlockingFindings;
use crate::rules::{self, Scope};
use crate::wait::Blockers;

/// The objects that a teardown deletes, what blocks their deletion, and the leftovers.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Teardown {
    /// Whether the operator can be uninstalled: all objects are deleted, `remaining` is empty, and every
    /// required source was read.
    pub safe: bool,
    /// The objects to delete.
    pub items: Vec<Planned>,
    /// Objects and problems that remain after all deletions and need the operator, or keep nodes unavailable
    /// to workloads.
    pub remaining: Vec<Blocker>,
    /// Runtime-required taints that no deletion will remove; determined before the deletions.
    pub foreseen: Vec<Blocker>,
    /// Other leftovers on nodes after the deletions.
    pub leftovers: Vec<Blocker>,
    /// Sources that could not be read, with the reason.
    pub unreadable: Vec<String>,
    /// Whether all custom resources are deleted, not only named ones.
    #[serde(skip)]
    pub whole: bool,
    #[serde(skip)]
    pub blockers: Blockers,
    #[serde(skip)]
    pub all_gone_at: Option<Timestamp>,
}

/// An object to delete, and the progress of its deletion.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Planned {
    #[serde(flatten)]
    pub item: DoomedObject,
    /// The custom resource; absent for a deployment policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skyhook: Option<String>,
    /// The objects that must be gone before this one is deleted.
    pub after: Vec<String>,
    /// Whether the deletion was requested before this command.
    pub was_deleting: bool,
    /// Problems that block the deletion, or would block it.
    pub blockers: Vec<Blocker>,
    /// The progress of the deletion.
    pub state: RemovalState,
    /// The remaining work of a deletion in progress; absent if there is none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub progress: String,
    /// Whether the command is waiting for the deletion.
    #[serde(skip)]
    pub awaited: bool,
}

/// The progress of an object's deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub enum RemovalState {
    /// The deletion was not requested, or its request is not known.
    NotStarted,
    /// The deletion is in progress.
    InProgress,
    /// The deletion is blocked until someone intervenes.
    Blocked,
    /// The object no longer exists.
    Gone,
}

impl Teardown {
    /// The objects to delete, with their predicted blockers.
    pub fn of(cluster: &Cluster, names: &[String], tolerate: Option<Duration>) -> Teardown {
        let doomed = items(cluster, names);
        let blockers = foreseen_blockers(cluster, &doomed);
        let objects: Vec<String> = doomed.iter().map(|item| item.target.to_string()).collect();
        let planned = |(item, blockers): (DoomedObject, Vec<Blocker>)| Planned {
            was_deleting: item.find(cluster).is_some_and(|found| found.metadata.deleting()),
            blockers,
            state: RemovalState::NotStarted,
            progress: String::new(),
            awaited: false,
            skyhook: item.priority.is_some().then(|| item.target.name.clone()),
            after: item.after.iter().map(|at| objects[*at].clone()).collect(),
            item,
        };
        let items: Vec<Planned> = doomed.into_iter().zip(blockers).map(planned).collect();
        let mut teardown = Teardown {
            safe: false,
            items,
            remaining: Vec::new(),
            foreseen: foreseen_taints(cluster, names),
            leftovers: Vec::new(),
            unreadable: unread(cluster),
            whole: names.is_empty(),
            blockers: Blockers::new(cluster, tolerate),
            all_gone_at: None,
        };
        if teardown.items.is_empty() {
            teardown.close(cluster);
        }
        teardown
    }

    /// Records the leftovers after the last deletion of all custom resources.
    pub fn close(&mut self, cluster: &Cluster) {
        if !self.whole {
            return;
        }
        (self.remaining, self.leftovers) = blocker::leftovers(cluster);
        self.unreadable = unread(cluster);
        self.safe = self.unreadable.is_empty() && self.remaining.is_empty();
    }
}

/// The runtime-required taints that remain after the custom resources are deleted.
fn foreseen_taints(cluster: &Cluster, names: &[String]) -> Vec<Blocker> {
    let all = cluster.skyhooks.items().iter().map(|skyhook| skyhook.name());
    let gone = all.filter(|name| names.is_empty() || names.iter().any(|named| named == name)).collect();
    let then = cluster.simulate_deletion(&gone, &BTreeSet::new());
    let mut kept = blocker::kept_taints(&then);
    if !names.is_empty() {
        let before = blocker::kept_taints(cluster);
        kept.retain(|taint| !before.contains(taint));
    }
    kept
}

/// The blockers of each deletion, in the cluster after the preceding deletions.
fn foreseen_blockers(cluster: &Cluster, items: &[DoomedObject]) -> Vec<Vec<Blocker>> {
    let mut blockers = vec![Vec::new(); items.len()];
    let mut gone: BTreeSet<&str> = BTreeSet::new();
    let last = items.iter().map(|item| item.wave).max().unwrap_or(0);
    for wave in 1..=last {
        let of_wave = items.iter().enumerate().filter(|(_, item)| item.wave == wave);
        let own = of_wave.clone().map(|(_, item)| item);
        let own = own.filter(|i| i.priority.is_some() && i.flavor == cluster.flavor());
        let own: BTreeSet<&str> = own.map(|item| item.target.name.as_str()).collect();
        let then = cluster.simulate_deletion(&gone, &own);
        let report = rules::diagnose(&then, &Scope::default());
        let blocking = BlockingFindings::of(&report.findings);
        for (at, item) in of_wave {
            blockers[at] = blocker::of(&then, &report, &blocking, item);
        }
        gone.extend(own);
    }
    blockers
}

/// The unreadable sources that a teardown requires, with reasons.
fn unread(cluster: &Cluster) -> Vec<String> {
    use Source::{Jobs, Legacy, Nodes, Operator, Pods, Policies, Skyhooks};
    let may_be_there = |source: &Source| !matches!(source, Legacy | Jobs) || cluster.has(*source);
    let needed = [Skyhooks, Legacy, Policies, Nodes, Pods, Jobs, Operator];
    let needed = needed.into_iter().filter(may_be_there);
    let mut unread: Vec<String> = needed
        .filter_map(|source| match cluster.source(source) {
            Read::Incomplete(_, why) | Read::Unreadable(why) => Some(format!("cannot read {source}: {why}")),
            // Without a served API, none of its objects exist.
            Read::NotRequested if !cluster.active_api.served.is_empty() => Some(if cluster.may_leave_out() {
                format!("the input has no {source}")
            } else {
                format!("{source} were not read")
            }),
            Read::NotRequested | Read::Ok(_) => None,
        })
        .collect();
    if let Some(why) = cluster.legacy_policies.unread() {
        unread.push(format!("cannot read {Policies} of the other API: {why}"));
    }
    unread
}
