use super::{Findings, Grade, Subject};
use crate::api::{Entry, Skyhook, Stage, Status};
use crate::cluster::{Certainty, Cluster, Node, Phase};

rule! {
    /// A package without dependencies is never scheduled.
    ///
    /// # What it means
    ///
    /// Older operators walk the dependency graph in a way that skips a package without dependencies once the
    /// complete packages on the node outnumber the packages without dependencies. Nothing runs for it any
    /// more, and the status stays `waiting`.
    ///
    /// # What causes it
    ///
    /// A package without dependencies is added to a custom resource that has finished; or such a
    /// package is upgraded or rerun while more of the other packages are complete.
    ///
    /// # How to confirm
    ///
    /// The package is not complete on the node and has no pod there; its `dependsOn` is empty; and the number
    /// of complete packages exceeds the number of packages with an empty `dependsOn`.
    ///
    /// # How to fix
    ///
    /// Upgrade the operator. Or make the package depend on a complete package, unless that package depends on
    /// it. Or reset the node, or enough of its complete packages that they no longer
    /// outnumber the packages without dependencies.
    ///
    /// # Affected versions
    ///
    /// Up to v0.17 (upstream issue 387).
    SKY209 "package-never-scheduled" Error needs Skyhooks Nodes Pods,
        blocks Install
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let absence = cluster.certainty_of_no_package_run();
    if !crate::model::profile::strands_late_packages(cluster) || absence == Certainty::Unknown {
        return;
    }
    let (model, package_runs) = (findings.model(), findings.package_runs());
    for skyhook in cluster.skyhooks.iter().filter(|s| !s.deleting()) {
        let independent: Vec<&str> =
            skyhook.packages().filter(|(_, p)| p.depends_on.is_empty()).map(|(name, _)| name).collect();
        for node in model.actionable_nodes(skyhook) {
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
                    .of_skyhook_on(skyhook.name(), &node.name)
                    .any(|run| run.alive() && (run.package == name || run.interrupt));
                if runs || !is_to_start(cluster, skyhook, node, name) {
                    continue;
                }
                let finding = findings.report(
                    Subject::skyhook_on_node(skyhook, node).package(name),
                    format!(
                        "package {name} is never scheduled: it has no dependencies, and this operator skips such \
                         packages once enough others are complete on the node"
                    ),
                );
                finding
                    .evidence(skyhook, "packages without dependencies", independent.join(", "))
                    .evidence(node, "packages complete", complete)
                    .no_package_run(cluster, "pods of the package");
                let title = "Make the package depend on a complete package that does not depend on it, or upgrade the \
                             operator";
                finding.edit(Grade::B2, title, skyhook);
                finding.reset_node("Reset the node", cluster, skyhook, node);
            }
        }
    }
}

/// Whether the package is not recorded or at its first stage. The operator starts later stages in another
/// way.
fn is_to_start(cluster: &Cluster, skyhook: &Skyhook, node: &Node, name: &str) -> bool {
    let placement = cluster.placement(skyhook, name, node);
    let first = |e: &Entry| matches!(e.stage, Stage::Apply | Stage::Upgrade);
    !placement.is_uninstall_wanted() && placement.entry.is_none_or(first)
}
