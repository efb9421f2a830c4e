//! Leftovers on nodes and hosts after a finalizer is stripped.

use std::collections::BTreeSet;

use super::Args;
use crate::api::Executor;
use crate::cluster::{Certainty, Cluster, Node, Source};
use crate::model::Model;
use crate::plan::Consequences;
use crate::plan::planners::{node, pause_guard};
use crate::view::{NodeSet, plural};

/// Maximum number of node-name ranges in a warning.
const SHOWN: usize = 6;

/// The nodes with leftovers, selected or not.
pub fn of<'a>(cluster: &'a Cluster, name: &str, purge: bool) -> Vec<&'a Node> {
    let (owners, model) = (node::owned(cluster, name), Model::new(cluster));
    let left = |n: &&Node| {
        !node::clean(cluster, n, &owners, purge).is_empty()
            || node::without_conditions(n, &owners).is_some()
            || needs_no_taint(cluster, &model, n, name)
    };
    cluster.nodes.items().iter().filter(left).collect()
}

/// Whether the node has the runtime-required taint for this custom resource and for no other.
///
/// The operator removes the taint once every custom resource that requires it is complete on the node; without such a
/// custom resource, it would never remove it.
pub fn needs_no_taint(cluster: &Cluster, model: &Model<'_>, node: &Node, name: &str) -> bool {
    cluster.runtime_required_taint(node).is_some()
        && cluster.skyhook(name).is_some_and(|s| s.spec.runtime_required && s.selects(node))
        && model.taint_kept_by(node).iter().all(|s| s.name() == name)
}

/// Adds the consequences of the strip, including those that no API can undo.
pub fn consequences(cluster: &Cluster, args: &Args, nodes: &[&Node], effects: &mut Consequences) {
    let name = args.name.as_str();
    if let Some(skyhook) = cluster.skyhook(name) {
        let others = skyhook.third_party_finalizers();
        if others.is_empty() {
            effects.warn(format!(
                "{} will be deleted; restore it with `kubectl skyhook undelete {name}` (it is saved in the journal)",
                skyhook.reference()
            ));
        } else {
            effects.warn(format!(
                "third-party finalizers stay, and block the deletion of {} until their owners remove them: {}",
                skyhook.reference(),
                others.join(", ")
            ));
        }
    }
    hosts(cluster, args, effects);
    warn_of_running_pods(cluster, name, effects);
    warn_of_unschedulable_nodes(cluster, name, nodes, effects);
    if cluster.nodes.absence() == Certainty::Presumed {
        effects.warn(format!("the input has no {}", Source::Nodes));
    }
}

fn folded<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> String {
    let set = NodeSet::of(nodes.into_iter().map(|n| n.name.as_str()));
    let names = set.limited(SHOWN);
    match set.len() {
        1 => names,
        n => format!("{} ({names})", plural(n, "node")),
    }
}

/// Warns about remaining changes on hosts, and about the loss of their record.
fn hosts(cluster: &Cluster, args: &Args, effects: &mut Consequences) {
    let name = args.name.as_str();
    let recorded: Vec<_> = cluster.tracked(name).filter(|(_, on)| node::is_recorded(on)).collect();
    if !recorded.is_empty() {
        let all = recorded.iter().flat_map(|(_, on)| on.entries());
        let packages: BTreeSet<String> = all.map(|e| format!("{} {}", e.name, e.version)).collect();
        let packages = packages.into_iter().collect::<Vec<_>>().join(", ");
        let on = folded(recorded.iter().map(|(n, _)| *n));
        effects.cannot_be_undone.push(format!(
            "uninstall.sh does not run; changes made by {packages} stay on the hosts of {on}, as do /var/lib/skyhook/{name} \
             and /var/log/skyhook/{name}; no API can remove them"
        ));
        effects.warn(if args.purge_state {
            format!("the only record of what is installed on {on} is removed")
        } else {
            format!(
                "the record of what is installed stays on {on}: files may still be on the hosts; \
                 --purge-state removes the record"
            )
        });
    }
    let malformed = cluster.tracked(name).filter(|(_, on)| on.is_malformed());
    let malformed: Vec<&Node> = malformed.map(|(n, _)| n).collect();
    if !malformed.is_empty() {
        effects.warn(format!(
            "the node state on {} cannot be read: it is unknown what is installed there, and the record \
             is removed",
            folded(malformed)
        ));
    }
}

/// Warns about running package pods.
fn warn_of_running_pods(cluster: &Cluster, name: &str, effects: &mut Consequences) {
    let package_runs = cluster.package_runs();
    let alive = package_runs.all().iter().filter(|run| run.skyhook == name && run.alive());
    let on: BTreeSet<&str> = alive.map(|run| run.node).collect();
    let Some(skyhook) = cluster.skyhook(name).filter(|_| !on.is_empty()) else {
        return;
    };
    let on = NodeSet::of(on).limited(SHOWN);
    // The pods are garbage-collected with the custom resource, not earlier.
    effects.warn(if skyhook.third_party_finalizers().is_empty() {
        format!("package pods are running on {on}: they are killed while they modify the hosts")
    } else {
        format!(
            "package pods are running on {on}: they may continue until {} is gone, and are then killed",
            skyhook.reference()
        )
    });
    // The operator's pod controller ignores pauses and deleted custom resources.
    if cluster.flavor().executor() == Executor::Pod && !pause_guard::away(cluster) {
        effects.warn(format!(
            "the operator may still record the progress of package pods on {on}: once these pods are gone, run `kubectl skyhook leftovers`"
        ));
    }
}

/// Warns about everything else that keeps pods off the nodes afterwards.
fn warn_of_unschedulable_nodes(cluster: &Cluster, name: &str, nodes: &[&Node], effects: &mut Consequences) {
    let flavor = cluster.flavor();
    let ours = |n: &&Node| cluster.on_node(n, name).is_some_and(|on| on.cordon);
    for one in nodes.iter().copied().filter(ours) {
        let others = cluster.other_cordons(one, &[(flavor, name)]);
        if one.cordoned() == Some(true) && !others.is_empty() {
            let others = others.join(", ");
            effects.warn(format!("{} stays cordoned by {others}", one.name));
        }
    }
    let tainted = |n: &&Node| cluster.runtime_required_taint(n).is_some();
    let required = cluster.skyhook(name).filter(|s| s.spec.runtime_required);
    let Some(skyhook) = required else {
        return;
    };
    let model = Model::new(cluster);
    let all = cluster.nodes.items().iter().filter(tainted);
    let selected = all.filter(|n| skyhook.selects(n));
    let (free, needed): (Vec<&Node>, Vec<&Node>) =
        selected.partition(|n| needs_no_taint(cluster, &model, n, name));
    if !needed.is_empty() {
        effects.warn(format!(
            "the runtime-required taint stays on {}: other custom resources still need it",
            folded(needed)
        ));
    }
    let unfinished: Vec<&Node> = free.into_iter().filter(|n| !model.is_done_on(skyhook, n)).collect();
    if !unfinished.is_empty() {
        effects.warn(format!(
            "workloads may be scheduled on {}, where the custom resource has not finished: the runtime-required taint is removed",
            folded(unfinished)
        ));
    }
}
