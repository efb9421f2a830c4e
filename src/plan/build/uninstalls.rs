//! What it means that the operator uninstalls packages.

use std::collections::{BTreeMap, BTreeSet};

use super::effects::{ignored_nodes, interrupts, stands_still};
use crate::api::{Skyhook, State};
use crate::cluster::{Cluster, Node};
use crate::plan::{Consequences, Grade};
use crate::view::plural;

/// When the uninstall of a package runs.
#[derive(Debug, Clone, Copy)]
pub enum Uninstalls {
    Now,
    /// The operator first finishes the installation that is under way.
    OnceInstalled,
}

/// What it means that the uninstall of a package runs on these nodes.
pub fn uninstalls(
    cluster: &Cluster,
    skyhook: &Skyhook,
    package: &str,
    nodes: &[&Node],
    when: Uninstalls,
    effects: &mut Consequences,
) {
    let spec = skyhook.package(package);
    let interrupt = spec.and_then(|p| skyhook.pending_interrupt(package, p));
    for _ in nodes {
        interrupts(&interrupt.into_iter().collect(), effects);
    }
    uncounted_uninstalls(cluster, skyhook, package, nodes, when, effects);
}

/// The same without the nodes that are interrupted.
fn uncounted_uninstalls(
    cluster: &Cluster,
    skyhook: &Skyhook,
    package: &str,
    nodes: &[&Node],
    when: Uninstalls,
    effects: &mut Consequences,
) {
    let spec = skyhook.package(package);
    let interrupt = spec.and_then(|p| skyhook.pending_interrupt(package, p));
    effects.at_least(Grade::of_rerun(interrupt));
    let on = plural(nodes.len(), "node");
    effects.notes.push(match when {
        Uninstalls::Now => format!("the uninstall of {package} runs on {on}"),
        Uninstalls::OnceInstalled => format!(
            "the uninstall of {package} starts on {on} once its installation there is complete"
        ),
    });
    if !skyhook.runs() {
        stands_still(skyhook, effects);
    }
    let ignored: Vec<&str> = nodes
        .iter()
        .filter(|n| n.ignored(cluster.flavor()))
        .map(|n| n.name.as_str())
        .collect();
    ignored_nodes(&ignored, effects);
}

/// What the deletion of a custom resource begins; gives the nodes on which anything is uninstalled.
pub fn deletion<'a>(
    cluster: &'a Cluster,
    skyhook: &'a Skyhook,
    effects: &mut Consequences,
) -> Vec<&'a Node> {
    let mut packages: BTreeMap<(&str, bool), Vec<&Node>> = BTreeMap::new();
    let mut kinds: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for pending in cluster.pending_uninstalls(skyhook) {
        let entry = pending.entry;
        let now = entry.stage.is_uninstall() || entry.state == State::Complete;
        let nodes = packages.entry((pending.name, now)).or_default();
        nodes.push(pending.node);
        let interrupt = skyhook.pending_interrupt(pending.name, pending.package);
        kinds
            .entry(&pending.node.name)
            .or_default()
            .extend(interrupt);
    }
    for ((package, now), nodes) in &packages {
        let when = if *now {
            Uninstalls::Now
        } else {
            Uninstalls::OnceInstalled
        };
        uncounted_uninstalls(cluster, skyhook, package, nodes, when, effects);
    }
    // The interrupts of several packages on a node count once.
    kinds.values().for_each(|kinds| interrupts(kinds, effects));
    packages.into_values().flatten().collect()
}
