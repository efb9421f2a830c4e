//! Warnings about changed node states that the model of the operator does not give.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::{Skyhook, State};
use crate::cluster::{Cluster, Node, NodeRecord};
use crate::plan::Consequences;
use crate::view::{NodeSet, list};

/// Warns that a package does not run again on nodes where one of its dependencies is uninstalled.
pub fn uninstalled_dependencies(
    cluster: &Cluster,
    skyhook: &Skyhook,
    name: &str,
    nodes: &[&Node],
    effects: &mut Consequences,
) {
    let Some(package) = skyhook.package(name) else {
        return;
    };
    for dependency in package.depends_on.keys() {
        if !skyhook.package(dependency).is_some_and(|on| on.uninstall().apply) {
            continue;
        }
        let lacks = |node: &&&Node| {
            let placement = cluster.placement(skyhook, dependency, node);
            let gone = placement.phase.is_absent() || placement.phase.is_uninstall();
            placement.malformed.is_none() && gone
        };
        let set = NodeSet::of(nodes.iter().filter(lacks).map(|n| n.name.as_str()));
        if !set.is_empty() {
            effects.warn(format!(
                "{name} depends on {dependency}, which is uninstalled on {}: {name} waits there until the uninstall of \
                 {dependency} is canceled",
                set.limited(6),
            ));
        }
    }
}

/// Warns that dependants that have started on one of the nodes do not run again with the package.
pub fn dependants_stay(
    skyhook: &Skyhook,
    package: &str,
    targets: &[(&Node, &NodeRecord)],
    effects: &mut Consequences,
) {
    let begun = |name: &&str| {
        let key = skyhook.package(name).map(|p| p.entry_key(name));
        key.is_some_and(|key| targets.iter().any(|(_, on)| on.entry(&key).is_some()))
    };
    let mut dependants = skyhook.dependants(package);
    dependants.retain(begun);
    if !dependants.is_empty() {
        effects
            .warn(format!("packages that depend on {package} do not run again: {}", dependants.join(", ")));
    }
}

/// Warns about packages whose missing entry counts as uninstalled although no uninstall has run; returns whether there
/// are any.
pub fn bypassed_uninstalls(skyhook: &Skyhook, packages: &BTreeSet<&str>, effects: &mut Consequences) -> bool {
    let gated: Vec<&str> = packages
        .iter()
        .copied()
        .filter(|name| skyhook.package(name).is_some_and(|p| p.uninstall().enabled))
        .collect();
    if gated.is_empty() {
        return false;
    }
    let names = list(&gated);
    let (count, they, them, have, their) = match gated.len() {
        1 => ("counts", "it", "it", "has", "its"),
        _ => ("count", "they", "them", "have", "their"),
    };
    let asked_for = gated.iter().all(|name| skyhook.package(name).is_some_and(|p| skyhook.uninstalls(p)));
    effects.warn(if skyhook.deleting() {
        format!(
            "{} is being deleted: {names} {count} as uninstalled once removed from the node state, so the deletion \
             does not wait for {them} there, and {their} changes to the hosts remain",
            skyhook.reference()
        )
    } else if asked_for {
        format!(
            "{names} {count} as uninstalled once removed from the node state: the remaining uninstall stages do not run, and \
             {their} changes to the hosts may remain"
        )
    } else {
        format!(
            "{names} {count} as uninstalled until {they} {have} run again: {they} can be removed or \
             downgraded without running {their} uninstall"
        )
    });
    true
}

/// The permanently failed packages, with the nodes among these on which they do not continue.
pub fn permanently_failed<'n>(
    cluster: &Cluster,
    skyhook: &Skyhook,
    nodes: &[&'n Node],
) -> BTreeMap<String, Vec<&'n str>> {
    let fails = |node: &&&Node| {
        let on = cluster.on_node(node, skyhook.name());
        on.is_some_and(|on| on.entries().iter().any(|entry| entry.state == State::Erroring))
    };
    let mut failed: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let mut package_runs = None;
    for node in nodes.iter().filter(fails) {
        let package_runs = package_runs.get_or_insert_with(|| cluster.package_runs_for(skyhook.name()));
        for (entry, _) in cluster.permanently_failed(package_runs, skyhook, node) {
            failed.entry(entry.name.to_string()).or_default().push(&node.name);
        }
    }
    failed
}

/// The warning that a permanently failed package does not continue on these nodes.
pub fn stays_failed(skyhook: &Skyhook, package: &str, nodes: &[&str]) -> String {
    format!(
        "{package} has failed permanently on {} and does not continue there until you run `kubectl skyhook package retry \
         {package} --skyhook {} --node {}`{}",
        NodeSet::of(nodes.iter().copied()).limited(6),
        skyhook.name(),
        nodes[0],
        if nodes.len() == 1 { "" } else { "; repeat for each node" },
    )
}
