//! Side effects of uninstalls by the operator.

use std::collections::{BTreeMap, BTreeSet};

use super::effects::{ignored_nodes, interrupts, stands_still};
use crate::api::{Entry, Skyhook, State};
use crate::cluster::{Cluster, Node};
use crate::plan::{Consequences, Grade};
use crate::view::plural;

/// When the uninstall of a package runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Uninstalls {
    Now,
    /// The operator first completes the current stage of the installation.
    OnceInstalled,
}

impl Uninstalls {
    /// When the uninstall of a recorded package runs.
    pub fn of(entry: &Entry) -> Uninstalls {
        if entry.stage.is_uninstall() || entry.state == State::Complete {
            Uninstalls::Now
        } else {
            Uninstalls::OnceInstalled
        }
    }
}

/// Nodes by uninstalled package and time of the uninstall.
pub type ByPackage<'a> = BTreeMap<(&'a str, Uninstalls), Vec<&'a Node>>;

/// Adds the side effects of these uninstalls. The interrupts of several packages on a node count once.
pub fn uninstalls(
    cluster: &Cluster,
    skyhook: &Skyhook,
    packages: &ByPackage<'_>,
    effects: &mut Consequences,
) {
    let mut kinds: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for ((package, when), nodes) in packages {
        let spec = skyhook.package(package);
        let interrupt = spec.and_then(|p| skyhook.pending_interrupt(package, p));
        effects.at_least(Grade::of_rerun(interrupt));
        for node in nodes {
            kinds.entry(&node.name).or_default().extend(interrupt);
        }
        let on = plural(nodes.len(), "node");
        effects.notes.push(match when {
            Uninstalls::Now => format!("the uninstall of {package} runs on {on}"),
            Uninstalls::OnceInstalled => {
                format!("the uninstall of {package} starts on {on} once its installation there is complete")
            }
        });
        if !skyhook.is_active() {
            stands_still(skyhook, effects);
        }
        let ignored = nodes.iter().filter(|n| n.ignored(cluster.flavor()));
        let ignored: Vec<&str> = ignored.map(|n| n.name.as_str()).collect();
        ignored_nodes(&ignored, effects);
    }
    kinds.values().for_each(|kinds| interrupts(kinds, effects));
}

/// The uninstalls of a custom resource's deletion.
pub fn of_deletion<'a>(cluster: &'a Cluster, skyhook: &'a Skyhook) -> ByPackage<'a> {
    let mut packages = ByPackage::new();
    for pending in cluster.pending_uninstalls(skyhook) {
        let nodes = packages.entry((pending.name, Uninstalls::of(pending.entry)));
        nodes.or_default().push(pending.node);
    }
    packages
}
