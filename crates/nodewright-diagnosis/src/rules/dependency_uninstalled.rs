use super::{Findings, Grade, Severity, Subject};
use crate::api::Skyhook;
use crate::cluster::{Cluster, Node, Phase};
use crate::view::NodeSet;

rule! {
    /// A package waits for a dependency that is uninstalled.
    ///
    /// # What it means
    ///
    /// A package still has work to do, and depends on a package whose uninstall was requested. The
    /// dependency will not complete, so the package cannot run. Uninstalls do not cascade.
    ///
    /// # What causes it
    ///
    /// `uninstall.apply: true` is set on a package that others depend on, and one of these is
    /// upgraded, or has not reached every node.
    ///
    /// # How to confirm
    ///
    /// The condition `Blocked`, reason `DependencyUninstalled`; or, on a node where the package is not
    /// complete, a package in its `dependsOn` has `apply: true` and is absent or at an uninstall stage.
    ///
    /// # How to fix
    ///
    /// Cancel the uninstall of the dependency, or remove the dependency from `dependsOn`.
    ///
    /// # Affected versions
    ///
    /// Operators with explicit uninstall (v0.16.0).
    SKY111 "dependency-uninstalled" Error needs Skyhooks Nodes,
        blocks Install
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    for skyhook in cluster.skyhooks.iter().filter(|s| !s.deleting()) {
        for (name, package) in skyhook.packages().filter(|(_, p)| !p.uninstall().apply) {
            for dependency in package.depends_on.keys() {
                let Some(on) = skyhook.package(dependency) else {
                    continue;
                };
                if !(on.uninstall().enabled && on.uninstall().apply) {
                    continue;
                }
                let without = |done: bool| -> Vec<&str> {
                    let nodes = cluster.selected(skyhook);
                    let nodes = nodes
                        .filter(|n| is_gone(cluster, skyhook, n, dependency))
                        .filter(|n| is_done(cluster, skyhook, n, name) == done);
                    nodes.map(|n| n.name.as_str()).collect()
                };
                let held = without(false);
                if held.is_empty() {
                    let done = without(true);
                    if !done.is_empty() {
                        later(findings, skyhook, name, dependency, &done);
                    }
                    continue;
                }
                let finding = findings.report(
                    Subject::skyhook(skyhook).package(name),
                    format!("package {name} cannot run: it depends on {dependency}, which is uninstalled"),
                );
                finding
                    .package_field(skyhook, name, "dependsOn", dependency)
                    .package_field(skyhook, dependency, "uninstall.apply", "true")
                    .evidence("nodes", "waiting", NodeSet::of(&held));
                if let Some(condition) = skyhook.true_condition("Blocked") {
                    finding.condition(skyhook, condition, &condition.message);
                }
                finding
                    .cancel_uninstall(format!("Cancel the uninstall of {dependency}"), skyhook, dependency)
                    .caveat("the dependency is then installed on every selected node")
                    .edit(Grade::B2, format!("Or remove {dependency} from dependsOn"), skyhook)
                    .caveat("the package then runs without the dependency");
            }
        }
    }
}

/// Whether a dependency is absent from a node, or is being uninstalled there.
fn is_gone(cluster: &Cluster, skyhook: &Skyhook, node: &Node, dependency: &str) -> bool {
    let dependency = cluster.placement(skyhook, dependency, node);
    let gone = dependency.phase.is_absent() || dependency.phase.is_uninstall();
    dependency.malformed.is_none() && gone
}

fn is_done(cluster: &Cluster, skyhook: &Skyhook, node: &Node, name: &str) -> bool {
    cluster.placement(skyhook, name, node).phase == Phase::Complete
}

/// Reports complete packages: they stay complete, but their next change will wait.
fn later(findings: &mut Findings, skyhook: &Skyhook, name: &str, dependency: &str, nodes: &[&str]) {
    let finding = findings.report(
        Subject::skyhook(skyhook).package(name),
        format!(
            "package {name} is complete and depends on {dependency}, which is uninstalled: the next change to {name} \
             will wait"
        ),
    );
    finding
        .severity(Severity::Info)
        .package_field(skyhook, name, "dependsOn", dependency)
        .package_field(skyhook, dependency, "uninstall.apply", "true")
        .evidence("nodes", "complete without the dependency", NodeSet::of(nodes))
        .cancel_uninstall(
            format!("If {name} still needs {dependency}, cancel the uninstall of {dependency}"),
            skyhook,
            dependency,
        )
        .caveat("the dependency is then installed on every selected node");
}
