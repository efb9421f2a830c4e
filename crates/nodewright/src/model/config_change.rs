//! Changes to the configMap of a package, and when they reach the nodes.

use super::operator::Operator;
use super::profile::{Profile, SpecPackage};
use super::runs::Runs;
use crate::api::{Skyhook, Stage, State};
use crate::cluster::{Cluster, ConfigMap, Node, config_map};

/// Moves all nodes back to stage config for each package whose configMap has changed and can be updated now
/// (operator `HandleConfigUpdates`).
///
/// It can be updated if the package is complete and idle on all nodes, or fails on a node at stage config or
/// later. While a node uninstalls the package, it cannot.
pub(super) fn apply<'a>(
    cluster: &'a Cluster,
    operator: &Operator<'_>,
    runs: &Runs<'a>,
    skyhook: &'a Skyhook,
    nodes: &[&'a Node],
    packages: &mut [SpecPackage<'a>],
    profiles: &mut [Profile<'a>],
) {
    for at in 0..packages.len() {
        let name = packages[at].name;
        let Some(recorded) = recorded(cluster, skyhook, &packages[at]) else {
            continue;
        };
        let wanted = &packages[at].package.config_map;
        let new = |key: &&String| recorded.value(key) != wanted.get(*key).map(String::as_str);
        let changed: Vec<String> = wanted.keys().filter(new).cloned().collect();
        let removed = recorded.keys().any(|key| !wanted.contains_key(key));
        if changed.is_empty() && !removed {
            continue;
        }
        let slots = |profile: &Profile<'_>| profile.slots[at].clone();
        if profiles.iter().filter_map(slots).any(|s| s.stage.is_uninstall()) {
            continue;
        }
        let fails = profiles.iter().filter_map(slots).any(|slot| {
            let configured = matches!(slot.stage, Stage::Config | Stage::Interrupt | Stage::PostInterrupt);
            configured && slot.state == State::Erroring
        });
        let busy = |node: &&Node| {
            let mut here = runs.of(skyhook.name(), &node.name);
            here.any(|run| run.package == name && run.delays_interrupts())
        };
        let complete = profiles.iter().all(|profile| profile.package_complete(operator, packages, at))
            && !nodes.iter().any(busy);
        if !complete && !fails {
            continue;
        }
        let mut updates = changed;
        if !complete {
            updates.extend(skyhook.config_updates(name).iter().cloned());
        }
        packages[at].interrupt = packages[at].package.pending_interrupt(&updates);
        for profile in profiles.iter_mut() {
            profile.reconfigure(at);
        }
    }
}

/// The ConfigMap that the operator created from the configMap of a package.
fn recorded<'a>(cluster: &'a Cluster, skyhook: &Skyhook, package: &SpecPackage<'_>) -> Option<&'a ConfigMap> {
    if package.package.config_map.is_empty() {
        return None;
    }
    let wanted = config_map::name(skyhook, package.name, package.package);
    let owner = (cluster.flavor(), skyhook.name());
    let mut all = cluster.config_maps.items().iter();
    all.find(|map| map.metadata.name == wanted && map.owner() == Some(owner))
}
