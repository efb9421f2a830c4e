use super::{Findings, Grade, Severity, Subject};
use crate::api::Skyhook;
use crate::cluster::{Cluster, Node, Phase};
use crate::text::NodeSet;

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
                let gone = |n: &&Node| is_gone(cluster, skyhook, n, dependency);
                let complete = |n: &&Node| cluster.placement(skyhook, name, n).phase == Phase::Complete;
                let (done, held): (Vec<&Node>, Vec<&Node>) =
                    cluster.selected(skyhook).filter(gone).partition(complete);
                // Complete packages stay complete, but their next change will wait.
                let (message, field, nodes) = match (held.is_empty(), done.is_empty()) {
                    (false, _) => (
                        format!(
                            "package {name} cannot run: it depends on {dependency}, which is uninstalled"
                        ),
                        "waiting",
                        held,
                    ),
                    (true, false) => (
                        format!(
                            "package {name} is complete and depends on {dependency}, which is uninstalled: the next change \
                             to {name} will wait"
                        ),
                        "complete without the dependency",
                        done,
                    ),
                    (true, true) => continue,
                };
                let finding = findings.report(Subject::skyhook(skyhook).package(name), message);
                finding
                    .package_field(skyhook, name, "dependsOn", dependency)
                    .package_field(skyhook, dependency, "uninstall.apply", "true")
                    .evidence("nodes", field, NodeSet::of(nodes.iter().map(|n| &n.name)));
                if field == "waiting" {
                    if let Some(condition) = skyhook.true_condition("Blocked") {
                        finding.condition(skyhook, condition, &condition.message);
                    }
                } else {
                    finding.severity(Severity::Info);
                }
                finding
                    .cancel_uninstall(
                        format!("If {name} still needs {dependency}, cancel the uninstall of {dependency}"),
                        skyhook,
                        dependency,
                    )
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
