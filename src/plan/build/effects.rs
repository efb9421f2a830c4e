//! What a change to node states sets off.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::Skyhook;
use crate::cluster::{Cluster, Node, OnNode};
use crate::plan::{Consequences, Grade};
use crate::view::{NodeSet, list, plural};

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
        let mut ignored = Vec::new();
        for (node, packages) in self.by_node.values() {
            effects.nodes += 1;
            effects.gpus += node.gpus;
            if node.ignored(cluster.generation()) {
                ignored.push(node.name.as_str());
            }
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
            interrupts(&kinds, &mut effects);
        }
        if !effects.reruns.is_empty() {
            let done = "what packages do to the host when they run again";
            effects.cannot_be_undone.push(done.to_owned());
        }
        if let Some(first) = ignored.first() {
            let set = NodeSet::of(ignored.iter().copied()).limited(6);
            let (them, each) = match ignored.len() {
                1 => (format!("{set} carries"), ""),
                _ => (format!("{set} carry"), ", and likewise for the others"),
            };
            effects.warn(format!(
                "{them} the ignore label: nothing runs there until `kubectl skyhook node unignore {first}`{each}"
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

/// Counts a node with the interrupts that its packages carry.
fn interrupts(kinds: &BTreeSet<&str>, effects: &mut Consequences) {
    effects.drains += usize::from(!kinds.is_empty());
    if kinds.contains("reboot") {
        effects.reboots += 1;
    } else if kinds.iter().any(|k| *k != "noop") {
        effects.restarts += 1;
    }
}

/// What the operator does with a package that waited for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Begins {
    Uninstall,
    UninstallAgain,
    Install,
}

/// What begins on these nodes once nothing keeps the operator from working there on the custom resource.
///
/// The notes say which one it is where that is not plain.
pub fn begins(
    cluster: &Cluster,
    skyhook: &Skyhook,
    nodes: &[&Node],
    plain: bool,
    effects: &mut Consequences,
) {
    let mut work: BTreeMap<(Begins, &str), usize> = BTreeMap::new();
    let (mut concerned, mut gpus) = (0, 0);
    for node in nodes {
        let on = cluster.on_node(node, skyhook.name());
        let selected = skyhook.spec.node_selectors.matches(&node.labels);
        if !selected || on.is_some_and(OnNode::is_malformed) {
            continue;
        }
        let mut kinds = BTreeSet::new();
        let mut any = false;
        for (name, package) in skyhook.packages() {
            let entry = on.and_then(|on| on.entry(&package.entry_key(name)));
            let begins = match (skyhook.uninstalls(package), entry) {
                (true, None) => None,
                (true, Some(e)) if e.stage.is_uninstall() => Some(Begins::UninstallAgain),
                (true, Some(_)) => Some(Begins::Uninstall),
                (false, _) if skyhook.deleting() => None,
                (false, Some(e)) if skyhook.is_package_complete(name, e) => None,
                (false, _) => Some(Begins::Install),
            };
            if let Some(begins) = begins {
                any = true;
                *work.entry((begins, name)).or_default() += 1;
                let interrupt = skyhook.pending_interrupt(name, package);
                effects.at_least(Grade::of_rerun(interrupt));
                kinds.extend(interrupt);
            }
        }
        if any {
            concerned += 1;
            gpus += node.gpus;
            interrupts(&kinds, effects);
        }
    }
    effects.nodes = effects.nodes.max(concerned);
    effects.gpus = effects.gpus.max(gpus);
    for ((begins, name), nodes) in work {
        let on = plural(nodes, "node");
        let what = match plain {
            true => name.to_owned(),
            false => format!("{name} of {}", skyhook.name()),
        };
        effects.notes.push(match begins {
            Begins::Uninstall => format!("the uninstall of {what} starts on {on}"),
            Begins::UninstallAgain => format!("the uninstall of {what} continues on {on}"),
            Begins::Install => format!("the operator goes on with {what} on {on}"),
        });
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
    let names = list(&gated);
    let (count, they, have, their) = match gated.len() {
        1 => ("counts", "it", "has", "its"),
        _ => ("count", "they", "have", "their"),
    };
    effects.warn(if skyhook.deleting() {
        format!(
            "{} is being deleted: without {their} entry {names} {count} as uninstalled, the deletion \
             goes ahead, and what {they} installed stays on the hosts",
            skyhook.reference()
        )
    } else {
        format!(
            "until {they} {have} run again, {names} {count} as uninstalled: {they} can be removed or \
             downgraded without {their} uninstall having run"
        )
    });
    true
}
