//! What a change to node states sets off.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::Skyhook;
use crate::cluster::{Cluster, Node};
use crate::plan::{Consequences, Grade};

/// Packages that will run again, by node.
#[derive(Debug, Default)]
pub struct Reruns<'a> {
    by_node: BTreeMap<&'a str, (&'a Node, BTreeSet<&'a str>)>,
}

impl<'a> Reruns<'a> {
    pub fn add(&mut self, node: &'a Node, package: &'a str) {
        let (_, packages) = self
            .by_node
            .entry(&node.name)
            .or_insert_with(|| (node, BTreeSet::new()));
        packages.insert(package);
    }

    /// What comes of it, by the interrupts that the packages carry.
    pub fn consequences(&self, cluster: &Cluster, skyhook: Option<&Skyhook>) -> Consequences {
        let mut effects = Consequences::default();
        let mut ignored = 0;
        for (node, packages) in self.by_node.values() {
            effects.nodes += 1;
            effects.gpus += node.gpus;
            ignored += usize::from(node.ignored(cluster.generation()));
            let mut kinds = BTreeSet::new();
            for name in packages {
                let Some(package) = skyhook.and_then(|s| s.package(name)) else {
                    continue;
                };
                *effects.reruns.entry((*name).to_owned()).or_default() += 1;
                let interrupt = skyhook.and_then(|s| s.pending_interrupt(name, package));
                effects.at_least(Grade::of_rerun(interrupt));
                kinds.extend(interrupt);
            }
            effects.drains += usize::from(!kinds.is_empty());
            if kinds.contains("reboot") {
                effects.reboots += 1;
            } else if kinds.iter().any(|k| *k != "noop") {
                effects.restarts += 1;
            }
        }
        if !effects.reruns.is_empty() {
            let done = "what packages do to the host when they run again";
            effects.cannot_be_undone.push(done.to_owned());
        }
        if ignored > 0 {
            effects.warn(format!(
                "{ignored} of the nodes carry the ignore label: nothing runs there until `kubectl \
                 skyhook node unignore`"
            ));
        }
        if let Some(skyhook) = skyhook.filter(|s| !s.runs() && !super::hold::left_behind(s)) {
            let (what, command) = match skyhook.paused() {
                true => ("paused", "resume"),
                false => ("disabled", "enable"),
            };
            effects.warn(format!(
                "{} is {what}: nothing runs until `kubectl skyhook {command} {}`",
                skyhook.reference(),
                skyhook.name()
            ));
        }
        effects
    }
}

/// Warns where a missing entry means "uninstalled" although no uninstall has run; returns whether there is such one.
pub fn bypassed_uninstalls(
    skyhook: &Skyhook,
    packages: &BTreeSet<&str>,
    effects: &mut Consequences,
) -> bool {
    let gated: Vec<&str> = packages
        .iter()
        .copied()
        .filter(|name| skyhook.package(name).is_some_and(|p| p.uninstall().enabled))
        .collect();
    if gated.is_empty() {
        return false;
    }
    let names = gated.join(", ");
    effects.warn(if skyhook.deleting() {
        format!(
            "{} is being deleted: without its entry {names} counts as uninstalled, the deletion \
             goes ahead, and what it installed stays on the hosts",
            skyhook.reference()
        )
    } else {
        format!(
            "until it has run again, {names} counts as uninstalled: it can be removed or \
             downgraded without its uninstall having run"
        )
    });
    true
}
