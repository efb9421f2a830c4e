use std::collections::HashSet;

use super::support::evidence::some_of;
use super::{Findings, Grade, Severity, Subject};
use crate::api::{Package, Skyhook, Stage, State};
use crate::cluster::{Cluster, ConfigMap, Node, PackageRuns};

rule! {
    /// A change to the configMap of a package has not reached the nodes yet.
    ///
    /// # What it means
    ///
    /// The operator copies the `configMap` of a package into a ConfigMap object, which the pods of the package mount.
    /// After a change, it updates this object only in two cases: the package is complete on all selected nodes and has
    /// no pods any more; or the package fails on a selected node at stage config, interrupt or post-interrupt. Until
    /// then, all pods get the configuration from before the change.
    ///
    /// # What causes it
    ///
    /// Some nodes are still in progress, ignored, or waiting. Or the package fails at an earlier stage: then
    /// a correction of the `configMap` does not reach the failing pods, however often they run again.
    ///
    /// # How to confirm
    ///
    /// The data of the ConfigMap `CUSTOM-RESOURCE-PACKAGE-VERSION` in the operator's namespace differs from
    /// `spec.packages.PACKAGE.configMap`.
    ///
    /// # How to fix
    ///
    /// Wait until the nodes are complete. If the package fails because of the old
    /// configuration, delete the ConfigMap. The operator recreates it from the spec in any case; then
    /// run the package again. Or give the package a new version.
    ///
    /// # Affected versions
    ///
    /// All operators (`HandleConfigUpdates`). From v0.4.0 on, the operator also updates the ConfigMap if the package
    /// fails at stage config.
    ///
    /// # Severity
    ///
    /// Info while nodes are in progress, ignored, or waiting; a warning if the package fails at an earlier
    /// stage.
    SKY225 "config-change-pending" Info needs Skyhooks Nodes, also ConfigMaps Pods Jobs
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    for skyhook in cluster.skyhooks.iter().filter(|s| !s.deleting() && !s.paused()) {
        for (name, package) in skyhook.packages().filter(|(_, p)| !skyhook.uninstalls(p)) {
            let Some(config_map) = cluster.config_map_of(skyhook, name, package) else {
                continue;
            };
            let changed = changed_keys(package, config_map);
            if changed.is_empty() {
                continue;
            }
            let package_runs = findings.package_runs();
            let Some([incomplete, failing]) = pending_nodes(cluster, &package_runs, skyhook, name, package)
            else {
                continue;
            };
            let namespace = config_map.metadata.namespace.as_deref().unwrap_or_default();
            let object = format!("configmap/{namespace}/{}", config_map.metadata.name);
            let differs = format!("differs from spec.packages.{name}.configMap: {}", some_of(&changed));
            if failing.is_empty() {
                let message = format!(
                    "the changed configMap of package {name} reaches the nodes only after the package is complete on all of \
                     them"
                );
                findings
                    .report(Subject::skyhook(skyhook).package(name), message)
                    .mark_transient()
                    .evidence(&object, "data", &differs)
                    .evidence(
                        skyhook,
                        "nodes that are not complete, or still have a pod of the package",
                        some_of(incomplete.iter().map(|n| &*n.name)),
                    );
            }
            for node in failing {
                let message = format!(
                    "the changed configMap of package {name} does not reach the node while the package fails before stage \
                     config"
                );
                findings
                    .report(Subject::skyhook_on_node(skyhook, node).package(name), message)
                    .severity(Severity::Warning)
                    .evidence(&object, "data", &differs)
                    .kubectl(
                        Grade::B1,
                        "If the package fails because of its configMap, delete the ConfigMap: the operator creates it \
                         again from the spec",
                        ["delete", "configmap", "-n", namespace, &config_map.metadata.name],
                    )
                    .caveat(
                        "nodes on which the package is complete keep the old configuration until the package runs there \
                         again",
                    )
                    .rerun("Then run the package again", skyhook, node, name);
            }
        }
    }
}

/// The nodes that keep the operator from updating a ConfigMap: those on which the package is incomplete or still has a pod,
/// and those on which it fails before stage config. `None` if the operator updates the ConfigMap at its next pass, or keeps
/// it because of an uninstall.
fn pending_nodes<'a>(
    cluster: &'a Cluster,
    package_runs: &PackageRuns<'_>,
    skyhook: &'a Skyhook,
    name: &str,
    package: &Package,
) -> Option<[Vec<&'a Node>; 2]> {
    let [mut incomplete, mut failing] = [Vec::new(), Vec::new()];
    let with_pod: HashSet<&str> = (package_runs.of(skyhook.name()))
        .filter(|run| run.delays_config(name, package))
        .map(|run| run.node)
        .collect();
    for node in cluster.selected(skyhook) {
        let entries = cluster.on_node(node, skyhook.name()).into_iter().flat_map(|on| on.entries());
        let Some(entry) = { entries }.find(|e| e.name == name && e.version == package.version) else {
            incomplete.push(node);
            continue;
        };
        let configured = matches!(entry.stage, Stage::Config | Stage::Interrupt | Stage::PostInterrupt);
        if entry.stage.is_uninstall() || entry.state == State::Erroring && configured {
            return None;
        }
        if !skyhook.is_package_complete(cluster, name, entry) || with_pod.contains(&*node.name) {
            incomplete.push(node);
        }
        if entry.state == State::Erroring {
            failing.push(node);
        }
    }
    (!incomplete.is_empty()).then_some([incomplete, failing])
}

/// Keys whose values differ between spec and ConfigMap, including keys that only one of the two has.
fn changed_keys<'a>(package: &'a Package, config_map: &'a ConfigMap) -> Vec<&'a str> {
    let changed = package
        .config_map
        .iter()
        .filter(|(key, value)| config_map.value(key) != Some(value.as_str()))
        .map(|(key, _)| key.as_str());
    let removed = config_map.keys().filter(|key| !package.config_map.contains_key(*key));
    changed.chain(removed).collect()
}
