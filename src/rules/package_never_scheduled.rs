use super::evidence::no_package_run;
use super::reset::reset_node;
use super::{Findings, Grade, Subject};
use crate::api::{Entry, Skyhook, Stage, Status};
use crate::cluster::{Certainty, Cluster, Node, Phase};

rule! {
    /// A package without dependencies is never scheduled.
    ///
    /// # What it means
    ///
    /// Older operators walk the dependency graph in a way that skips a package without
    /// dependencies once more packages are complete on the node than there are packages without
    /// dependencies. Nothing runs for it any more, and the status stays `waiting`.
    ///
    /// # What causes it
    ///
    /// A package without dependencies is added to a custom resource that has finished; or such a
    /// package is upgraded or rerun while more of the other packages are complete.
    ///
    /// # How to confirm
    ///
    /// The package is not complete on the node and has no pod there; its `dependsOn` is empty; and
    /// more packages are complete than have an empty `dependsOn`.
    ///
    /// # How to fix
    ///
    /// Upgrade the operator. Or make the package depend on one that is complete. Or reset the node,
    /// so that everything runs again.
    ///
    /// # Since
    ///
    /// Up to v0.17 (upstream issue 387).
    SKY209 "package-never-scheduled" Error needs Skyhooks Nodes Pods,
        blocks Install
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let absence = cluster.certainty_of_no_package_run();
    if !cluster.operator_before(0, 18) || absence == Certainty::Unknown {
        return;
    }
    let package_runs = cluster.package_runs();
    for skyhook in cluster.skyhooks.items().iter().filter(|s| !s.deleting()) {
        let independent = skyhook.packages().filter(|(_, p)| p.depends_on.is_empty());
        let independent: Vec<&str> = independent.map(|(name, _)| name).collect();
        for node in cluster.open_nodes(skyhook) {
            let on = cluster.on_node(node, skyhook.name());
            let at_work = on.is_some_and(|on| on.operator_status() == Status::InProgress);
            if on.is_some_and(|on| on.is_malformed()) || (absence != Certainty::Proven && at_work) {
                continue;
            }
            let done = |name: &str| cluster.placement(skyhook, name, node).phase == Phase::Complete;
            let complete = skyhook.packages().filter(|(name, _)| done(name)).count();
            if complete <= independent.len() {
                continue;
            }
            for name in independent.iter().copied().filter(|name| !done(name)) {
                let runs = package_runs
                    .on(skyhook.name(), &node.name)
                    .any(|e| e.alive() && (e.package == name || e.interrupt));
                if runs || !is_to_start(cluster, skyhook, node, name) {
                    continue;
                }
                let finding = findings.report(
                    Subject::node(&node.name, Some(skyhook.name())).package(name),
                    format!(
                        "package {name} is never scheduled: it has no dependencies, and this operator skips such \
                         packages once enough others are complete on the node"
                    ),
                );
                finding
                    .evidence(
                        skyhook.reference(),
                        "packages without dependencies",
                        independent.join(", "),
                    )
                    .evidence(
                        format!("node/{}", node.name),
                        "packages complete",
                        complete.to_string(),
                    );
                no_package_run(finding, cluster, "pods of the package");
                finding.kubectl(
                    Grade::B2,
                    "Give the package a dependency that is complete, or upgrade the operator",
                    ["edit", &cluster.flavor().resource(), skyhook.name()],
                );
                reset_node(finding, "Or reset the node", cluster, skyhook, node);
            }
        }
    }
}

/// Whether the package is at its very beginning; later stages are entered in another way.
fn is_to_start(cluster: &Cluster, skyhook: &Skyhook, node: &Node, name: &str) -> bool {
    let placement = cluster.placement(skyhook, name, node);
    let first = |e: &Entry| matches!(e.stage, Stage::Apply | Stage::Upgrade);
    !placement.leaves() && placement.entry.is_none_or(first)
}
