//! Effects of deletions on nodes, and leftovers on them. Pure.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use crate::api::Skyhook;
use crate::cluster::Cluster;
use crate::plan::{Consequences, Grade, Target};
use crate::view::{NodeSet, list, plural};

/// Maximum number of node-name ranges before the rest is counted.
const SHOWN: usize = 4;

/// The effects of a deletion on nodes.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeletionEffects {
    /// Number of nodes on which each package is uninstalled, by package.
    pub uninstalls: BTreeMap<String, usize>,
    /// Number of nodes that are cordoned and drained for an interrupt.
    pub drains: usize,
    /// Number of nodes on which services restart.
    pub restarts: usize,
    /// Number of nodes that reboot.
    pub reboots: usize,
    /// Number of `nvidia.com/gpu` resources on the affected nodes.
    pub gpus: u64,
    /// The nodes on which a package stays installed, by package.
    pub stays_on_hosts: BTreeMap<String, Vec<String>>,
}

impl DeletionEffects {
    /// The effects on nodes once the operator sees the deletion of the custom resource.
    pub fn of(cluster: &Cluster, skyhook: &Skyhook) -> DeletionEffects {
        let mut off = DeletionEffects::default();
        let mut kinds: BTreeMap<&str, (u64, BTreeSet<&str>)> = BTreeMap::new();
        let mut pending: BTreeSet<(&str, &str)> = BTreeSet::new();
        for p in cluster.pending_uninstalls(skyhook) {
            *off.uninstalls.entry(p.name.to_owned()).or_default() += 1;
            let (_, of) = kinds.entry(&p.node.name).or_insert((p.node.gpus(), BTreeSet::new()));
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

    /// Adds these effects to the total of all deletions.
    pub fn add_to(&self, effects: &mut Consequences, target: &Target) {
        effects.drains += self.drains;
        effects.restarts += self.restarts;
        effects.reboots += self.reboots;
        effects.gpus += self.gpus;
        effects.nodes += self.uninstalls.values().max().copied().unwrap_or(0);
        for (any, grade) in [
            (!self.uninstalls.is_empty(), Grade::B2),
            (self.drains + self.restarts > 0, Grade::B3),
            (self.reboots > 0, Grade::B4),
        ] {
            if any {
                effects.at_least(grade);
            }
        }
        // The deletion removes the node states.
        if !self.stays_on_hosts.is_empty() {
            effects.lose_record();
        }
        for (package, on) in &self.stays_on_hosts {
            let set = NodeSet::of(on);
            effects.cannot_be_undone.push(format!(
                "{package} of {target} is not uninstalled: its host changes remain on {}",
                set.limited(SHOWN)
            ));
        }
    }

    /// The uninstalls in words: `driver on 3 nodes`.
    pub fn uninstalls_in_words(&self) -> String {
        let each = self.uninstalls.iter();
        let each = each.map(|(package, nodes)| format!("{package} on {}", plural(*nodes, "node")));
        list(&each.collect::<Vec<_>>())
    }

    /// The interrupts in words: `3 nodes drained, 3 nodes rebooted`.
    pub fn interrupts_in_words(&self) -> String {
        let all = [
            (self.drains, "drained"),
            (self.reboots, "rebooted"),
            (self.restarts, "with services restarted"),
        ];
        let any = all.iter().filter(|(nodes, _)| *nodes > 0);
        let words = any.map(|(nodes, what)| format!("{} {what}", plural(*nodes, "node")));
        words.collect::<Vec<_>>().join(", ")
    }
}
