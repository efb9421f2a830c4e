//! Side effects of changes to node states.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use crate::api::{Entry, NodeState, Package, Skyhook, State};
use crate::cluster::{Cluster, Node, NodeRecord, Phase};
use crate::model::Model;
use crate::plan::{Consequences, Grade, Plan};
use crate::view::{NodeSet, list};

/// Packages that will run again, by node.
#[derive(Debug, Default)]
pub struct Reruns<'a> {
    by_node: BTreeMap<&'a str, (&'a Node, BTreeSet<&'a str>)>,
}

impl<'a> Reruns<'a> {
    pub fn add(&mut self, node: &'a Node, package: &'a str) {
        let (_, packages) = self.by_node.entry(&node.name).or_insert_with(|| (node, BTreeSet::new()));
        packages.insert(package);
    }

    /// The nodes on which packages run again.
    pub fn nodes(&self) -> Vec<&'a Node> {
        self.by_node.values().map(|(node, _)| *node).collect()
    }

    /// The side effects of the reruns, including the interrupts of the packages.
    pub fn consequences(&self, cluster: &Cluster, skyhook: Option<&Skyhook>) -> Consequences {
        let mut effects = Consequences::default();
        let mut ignored = Vec::new();
        for (node, packages) in self.by_node.values() {
            effects.nodes += 1;
            effects.gpus += node.gpus();
            if node.ignored(cluster.flavor()) {
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
            let done = "host changes made by rerunning packages";
            effects.cannot_be_undone.push(done.to_owned());
        }
        ignored_nodes(&ignored, &mut effects);
        if let Some(skyhook) = skyhook.filter(|s| is_stopped(s) && !s.deleting()) {
            stands_still(skyhook, &mut effects);
        }
        effects
    }
}

/// The side effects of rerunning a package on these nodes. `from_start`: its entries are removed from the
/// node states, so that it starts with its first stage; otherwise it continues at a stage.
pub fn rerun(
    cluster: &Cluster,
    skyhook: &Skyhook,
    package: &str,
    nodes: &[&Node],
    from_start: bool,
) -> Consequences {
    let mut reruns = Reruns::default();
    for node in nodes {
        reruns.add(node, package);
    }
    let mut effects = reruns.consequences(cluster, Some(skyhook));
    if from_start
        && !nodes.is_empty()
        && bypassed_uninstalls(skyhook, &BTreeSet::from([package]), &mut effects)
        && !skyhook.is_active()
    {
        // A paused or disabled custom resource does not record the package again.
        effects.lose_record();
    }
    effects
}

/// Warns that nothing runs on ignored nodes.
pub(super) fn ignored_nodes(ignored: &[&str], effects: &mut Consequences) {
    let Some(first) = ignored.first() else {
        return;
    };
    let set = NodeSet::of(ignored.iter().copied()).limited(6);
    let carry = if ignored.len() == 1 { "carries" } else { "carry" };
    effects.warn(format!(
        "{set} {carry} the ignore label: nothing runs there until you run `kubectl skyhook node unignore {first}`{}",
        repeated(ignored)
    ));
}

/// Whether a user has paused or disabled the custom resource.
fn is_stopped(skyhook: &Skyhook) -> bool {
    !skyhook.is_active() && skyhook.hold().is_none()
}

/// Warns what a pause or disable means for a deletion after the plan: uninstalls do not start, but without packages
/// left to uninstall, the operator removes its finalizer (`model/gates/finalizer.rs`).
pub fn stopped_deletion(cluster: &Cluster, skyhook: &Skyhook, plan: &mut Plan) {
    if !skyhook.deleting() || !is_stopped(skyhook) {
        return;
    }
    let after = plan.carried_out(cluster);
    let effects = &mut plan.consequences;
    if !after.pending_uninstalls(skyhook).is_empty() {
        return stands_still(skyhook, effects);
    }
    effects.warn(format!(
        "{} is {}, but the operator still finishes its deletion: no package is left to uninstall",
        skyhook.reference(),
        skyhook.stopped().unwrap_or("stopped")
    ));
}

/// Warns that nothing runs for a paused or disabled custom resource.
pub fn stands_still(skyhook: &Skyhook, effects: &mut Consequences) {
    let (what, command) = if skyhook.paused() { ("paused", "resume") } else { ("disabled", "enable") };
    effects.warn(format!(
        "{} is {what}: nothing runs until you run `kubectl skyhook {command} {}`",
        skyhook.reference(),
        skyhook.name()
    ));
}

/// Warns about nodes in a stopped rollout, where packages that should run again do not start.
pub fn stopped_rollout(cluster: &Cluster, skyhook: &Skyhook, nodes: &[&Node], effects: &mut Consequences) {
    if skyhook.stopped_compartments().next().is_none() {
        return;
    }
    let model = Model::new(cluster);
    let stopped = |n: &&&Node| model.is_stopped(skyhook, n);
    let set = NodeSet::of(nodes.iter().filter(stopped).map(|n| n.name.as_str()));
    if !set.is_empty() {
        effects.warn(format!(
            "the rollout of {} has stopped: nothing runs on {} until you run `kubectl skyhook deployment-policy reset {}`",
            skyhook.reference(),
            set.limited(6),
            skyhook.name()
        ));
    }
}

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

/// Counts a node as drained, rebooted or restarted, depending on the interrupts of its packages.
pub fn interrupts(kinds: &BTreeSet<&str>, effects: &mut Consequences) {
    effects.drains += usize::from(!kinds.is_empty());
    if kinds.contains("reboot") {
        effects.reboots += 1;
    } else if kinds.iter().any(|k| *k != "noop") {
        effects.restarts += 1;
    }
}

/// The operator's next step for a package that was blocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Begins {
    Uninstall,
    UninstallAgain,
    Install,
}

impl Begins {
    fn of(skyhook: &Skyhook, package: &Package, phase: Phase, entry: Option<&Entry>) -> Option<Begins> {
        let leaves = skyhook.uninstalls(package);
        let over = if leaves { phase.is_absent() } else { phase == Phase::Complete };
        if over || (skyhook.deleting() && !leaves) {
            return None;
        }
        let complete = |e: &Entry| e.state == State::Complete;
        Some(match entry {
            Some(e) if leaves && e.stage.is_uninstall() => Begins::UninstallAgain,
            // An uninstall starts only once the current stage is complete.
            Some(e) if leaves && complete(e) => Begins::Uninstall,
            _ => Begins::Install,
        })
    }

    fn note(self, what: &str) -> String {
        match self {
            Begins::Uninstall => format!("the uninstall of {what} starts on 1 node"),
            Begins::UninstallAgain => format!("the uninstall of {what} continues on 1 node"),
            Begins::Install => format!("the operator continues with {what} on 1 node"),
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

/// Adds the grade and the numbers of the work that starts on these nodes once the custom resource is
/// unblocked; returns the nodes with work.
pub fn begins<'a>(
    cluster: &Cluster,
    skyhook: &Skyhook,
    nodes: &[&'a Node],
    effects: &mut Consequences,
) -> Vec<&'a Node> {
    // Computed lazily: only nodes with a failed package need the package runs.
    let package_runs = OnceCell::new();
    let mut permanently_failed: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut concerned = Vec::new();
    for node in nodes {
        let mut kinds = BTreeSet::new();
        let mut any = false;
        let on = cluster.on_node(node, skyhook.name());
        let failed = on.filter(|on| on.entries().iter().any(|e| e.state == State::Erroring));
        let given_up = failed.map_or_else(Vec::new, |_| {
            let package_runs = package_runs.get_or_init(|| cluster.package_runs_for(skyhook.name()));
            cluster.permanently_failed(package_runs, skyhook, node)
        });
        for (name, package) in skyhook.packages() {
            if given_up.iter().any(|(entry, _)| entry.name == name) {
                permanently_failed.entry(name).or_default().push(&node.name);
                continue;
            }
            let placement = cluster.placement(skyhook, name, node);
            if !placement.selected || placement.malformed.is_some() {
                continue;
            }
            if Begins::of(skyhook, package, placement.phase, placement.entry).is_some() {
                any = true;
                let interrupt = skyhook.pending_interrupt(name, package);
                effects.at_least(Grade::of_rerun(interrupt));
                kinds.extend(interrupt);
            }
        }
        if any {
            concerned.push(*node);
            interrupts(&kinds, effects);
        }
    }
    for (package, nodes) in permanently_failed {
        stays_failed(skyhook, package, &nodes, effects);
    }
    concerned
}

/// Warns that a permanently failed package does not continue on these nodes.
fn stays_failed(skyhook: &Skyhook, package: &str, nodes: &[&str], effects: &mut Consequences) {
    let (name, first) = (skyhook.name(), nodes[0]);
    effects.warn(format!(
        "{package} has failed permanently on {} and does not continue there until you run `kubectl skyhook package \
         retry {package} --skyhook {name} --node {first}`{}",
        NodeSet::of(nodes.iter().copied()).limited(6),
        repeated(nodes)
    ));
}

/// The note after a command that names only the first of these nodes; empty for one node.
fn repeated(nodes: &[&str]) -> &'static str {
    match nodes.len() {
        1 => "",
        _ => "; repeat for each node",
    }
}

/// Adds the work that starts on a node once the operator can read its node state.
pub fn begins_from(
    cluster: &Cluster,
    skyhook: &Skyhook,
    node: &Node,
    state: &NodeState,
    effects: &mut Consequences,
) {
    if !skyhook.is_active() || !skyhook.spec.node_selectors.matches(&node.labels) {
        return;
    }
    let mut kinds = BTreeSet::new();
    for (name, package) in skyhook.packages() {
        let entry = state.entry(&package.entry_key(name));
        let phase = skyhook.phase(cluster, name, Some(state));
        if let Some(begins) = Begins::of(skyhook, package, phase, entry) {
            let interrupt = skyhook.pending_interrupt(name, package);
            effects.at_least(Grade::of_rerun(interrupt));
            kinds.extend(interrupt);
            effects.notes.push(begins.note(name));
        }
    }
    interrupts(&kinds, effects);
}

/// Warns about packages whose missing entry counts as uninstalled although no uninstall has run; returns
/// whether there are any.
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
