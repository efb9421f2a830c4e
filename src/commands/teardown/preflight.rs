//! What the removal of everything would set off, leave behind and be held up by. Pure.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use super::blocker::{self, Blocker};
use super::order::{DoomedObject, LiveObject, items};
use crate::api::Skyhook;
use crate::cluster::{Cluster, Read, Source};
use crate::plan::{Change, Consequences, Grade, Guard, Plan, PlanStage, Step};
use crate::view::{NodeSet, plural};

/// Runs of node names before the rest is only counted.
const SHOWN: usize = 4;

/// What everything comes to, beforehand.
pub struct TeardownPreview {
    pub items: Vec<Planned>,
    pub unread: Vec<String>,
    nodes_known: bool,
}

/// One object, and what its deletion comes to.
pub struct Planned {
    pub item: DoomedObject,
    /// Its deletion was asked for before.
    pub deleting: bool,
    pub sets_off: SetsOff,
    pub hangs: Vec<Blocker>,
}

/// What a deletion makes happen on nodes, and what it leaves there.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SetsOff {
    /// How many nodes each package is uninstalled on.
    pub uninstalls: BTreeMap<String, usize>,
    /// Nodes that are cordoned and drained for an interrupt.
    pub drains: usize,
    /// Nodes on which services restart.
    pub restarts: usize,
    /// Nodes that reboot.
    pub reboots: usize,
    /// `nvidia.com/gpu` on the nodes on which something happens.
    pub gpus: u64,
    /// What is installed and will not be uninstalled, with its nodes.
    pub stays_on_hosts: BTreeMap<String, Vec<String>>,
}

/// Looks at everything that is to go.
pub fn look(cluster: &Cluster) -> TeardownPreview {
    let items = items(cluster);
    let mut gone: BTreeSet<&str> = BTreeSet::new();
    let ours = |item: &DoomedObject| item.priority.is_some() && item.flavor == cluster.flavor();
    let mut waves: BTreeMap<usize, Vec<&DoomedObject>> = BTreeMap::new();
    for item in &items {
        waves.entry(item.wave).or_default().push(item);
    }
    let mut hangs: BTreeMap<&DoomedObject, Vec<Blocker>> = BTreeMap::new();
    for wave in waves.values() {
        let own = wave.iter().filter(|i| ours(i));
        let own: BTreeSet<&str> = own.map(|i| i.target.name.as_str()).collect();
        let then = cluster.simulate_deletion(&gone, &own);
        let report = blocker::report(&then);
        for item in wave {
            hangs.insert(item, blocker::of(&then, &report, item));
        }
        gone.extend(own);
    }
    let mut hangs: Vec<Vec<Blocker>> = items
        .iter()
        .map(|item| hangs.remove(item).unwrap_or_default())
        .collect();
    let mut hangs = hangs.drain(..);
    let planned = items.iter().cloned().map(|item| {
        let found = item.find(cluster);
        let skyhook = match found {
            Some(LiveObject::Skyhook(skyhook)) if ours(&item) => Some(skyhook),
            _ => None,
        };
        Planned {
            deleting: found.is_some_and(|f| f.metadata().deleting()),
            sets_off: skyhook.map_or_else(SetsOff::default, |s| sets_off(cluster, s)),
            hangs: hangs.next().unwrap_or_default(),
            item,
        }
    });
    TeardownPreview {
        items: planned.collect(),
        unread: unread(cluster),
        nodes_known: cluster.nodes.ok().is_some(),
    }
}

/// What happens on nodes once the operator sees that the custom resource is to go.
fn sets_off(cluster: &Cluster, skyhook: &Skyhook) -> SetsOff {
    let mut off = SetsOff::default();
    let mut kinds: BTreeMap<&str, (u64, BTreeSet<&str>)> = BTreeMap::new();
    let mut pending: BTreeSet<(&str, &str)> = BTreeSet::new();
    for p in cluster.pending_uninstalls(skyhook) {
        *off.uninstalls.entry(p.name.to_owned()).or_default() += 1;
        let (_, of) = kinds
            .entry(&p.node.name)
            .or_insert((p.node.gpus, BTreeSet::new()));
        of.extend(skyhook.pending_interrupt(p.name, p.package));
        pending.insert((&p.node.name, &p.entry.key));
    }
    for (gpus, kinds) in kinds.values() {
        off.gpus += gpus;
        off.drains += usize::from(!kinds.is_empty());
        if kinds.contains("reboot") {
            off.reboots += 1;
        } else if kinds.iter().any(|k| *k != "noop") {
            off.restarts += 1;
        }
    }
    for (node, on) in cluster.tracked(skyhook.name()) {
        for entry in on.entries() {
            if pending.contains(&(node.name.as_str(), entry.key.as_str())) {
                continue;
            }
            let (name, version) = entry.identity();
            let on = off.stays_on_hosts.entry(format!("{name} {version}"));
            on.or_default().push(node.name.to_string());
        }
    }
    off
}

/// The sources without which one cannot tell what is there, and why they were not read.
pub fn unread(cluster: &Cluster) -> Vec<String> {
    let mut needed = vec![
        Source::Skyhooks,
        Source::Policies,
        Source::Nodes,
        Source::Pods,
        Source::Operator,
    ];
    needed.extend(
        [Source::Legacy, Source::Jobs]
            .into_iter()
            .filter(|s| cluster.has(*s)),
    );
    let mut unread: Vec<String> = needed
        .iter()
        .filter_map(|source| match cluster.source(*source) {
            Read::Ok(_) => None,
            Read::Unreadable(why) => Some(format!("cannot read {source}: {why}")),
            // Without the API there is nothing of it to read.
            Read::NotRequested if cluster.active_api.served.is_empty() => None,
            Read::NotRequested => Some(if cluster.may_leave_out() {
                format!("the input has no {source}")
            } else {
                format!("{source} were not read")
            }),
        })
        .collect();
    if let Read::Unreadable(why) = &cluster.legacy_policies {
        unread.push(format!(
            "cannot read {} of the other API: {why}",
            Source::Policies
        ));
    }
    unread
}

impl TeardownPreview {
    /// Whether something would hang.
    pub fn hangs(&self) -> bool {
        self.items.iter().any(|p| !p.hangs.is_empty())
    }

    /// Everything as one plan, a stage a wave. What is being deleted already is waited for, and not in it.
    pub fn plan(&self) -> Plan {
        let waves = self.items.iter().map(|p| p.item.wave).max().unwrap_or(0);
        let stages = (1..=waves).map(|wave| {
            let of = self.items.iter().filter(|p| p.item.wave == wave);
            PlanStage::of(of.filter(|p| !p.deleting).map(step).collect())
        });
        Plan {
            title: format!("teardown of {}", self.what()),
            subject: format!("teardown {}", self.items.len()),
            stages: stages.filter(|s| !s.steps.is_empty()).collect(),
            consequences: self.consequences(),
            ..Plan::default()
        }
    }

    /// `3 custom resources and 1 deployment policy`
    pub fn what(&self) -> String {
        let custom = self.items.iter().filter(|p| p.item.priority.is_some());
        let custom = custom.count();
        let policies = self.items.len() - custom;
        let mut parts = Vec::new();
        if custom > 0 || policies == 0 {
            parts.push(plural(custom, "custom resource"));
        }
        match policies {
            0 => {}
            1 => parts.push("1 deployment policy".to_owned()),
            n => parts.push(format!("{n} deployment policies")),
        }
        parts.join(" and ")
    }

    fn consequences(&self) -> Consequences {
        let mut effects = Consequences::default();
        effects.at_least(Grade::B3);
        for planned in &self.items {
            let off = &planned.sets_off;
            effects.drains += off.drains;
            effects.restarts += off.restarts;
            effects.reboots += off.reboots;
            effects.gpus += off.gpus;
            effects.nodes += off.uninstalls.values().max().copied().unwrap_or(0);
            for (package, on) in &off.stays_on_hosts {
                let set = NodeSet::of(on.iter().map(String::as_str));
                effects.cannot_be_undone.push(format!(
                    "{package} of {} has no uninstall: what it changed stays on the hosts of {}",
                    planned.item.target,
                    set.limited(SHOWN)
                ));
            }
        }
        // What happens on nodes is not known then.
        if effects.reboots > 0 || !self.nodes_known {
            effects.at_least(Grade::B4);
        }
        effects
    }
}

/// The deletion of one object, as it is now, and no other one of its name.
pub fn step(planned: &Planned) -> Step {
    let target = planned.item.target.clone();
    let why = "it has to be gone before the operator is uninstalled";
    Step::new(target, Change::Delete { was: None }, why).guard(Guard::none())
}
