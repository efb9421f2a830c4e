use super::{Findings, Grade, Subject};
use crate::api::{State, Status};
use crate::cluster::{Certainty, Cluster};
use crate::text::Joined;

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
    if absence == Certainty::Unknown {
        return;
    }
    let (model, package_runs) = (findings.model(), findings.package_runs());
    for skyhook in cluster.skyhooks.iter().filter(|s| !s.deleting()) {
        for node in model.actionable_nodes(skyhook) {
            let at_work = cluster.status_on(skyhook, node) == Status::InProgress;
            if absence != Certainty::Proven && at_work {
                continue;
            }
            let record = cluster.on_node(node, skyhook.name());
            for name in model.overlooked(skyhook, node) {
                let entry = skyhook.package(name).and_then(|spec| record?.entry(&spec.entry_key(name)));
                let has_begun = entry.is_some_and(|e| matches!(e.state, State::InProgress | State::Erroring));
                // Its pod may be one that the capture lacks.
                if absence != Certainty::Proven && has_begun {
                    continue;
                }
                let mut runs = package_runs.of_skyhook_on(skyhook.name(), &node.name);
                if runs.any(|run| run.alive() && (run.package == name || run.interrupt)) {
                    continue;
                }
                let finding = findings.report(
                    Subject::skyhook_on_node(skyhook, node).package(name),
                    format!(
                        "package {name} is never scheduled: it has no dependencies, and this operator skips such \
                         packages once enough others are complete on the node"
                    ),
                );
                let (done, all) = cluster.progress(skyhook, node);
                let packages = skyhook.packages();
                let independent = packages.filter(|(_, p)| p.depends_on.is_empty()).map(|(name, _)| name);
                finding
                    .evidence(skyhook, "packages without dependencies", independent.joined(", "))
                    .evidence(node, "packages done", format!("{done} of {all}"))
                    .no_package_run(cluster, "pods of the package");
                let title = "Make the package depend on a complete package that does not depend on it, or upgrade the \
                             operator";
                finding.edit(Grade::B2, title, skyhook);
                finding.reset_node("Reset the node", cluster, skyhook, node);
            }
        }
    }
}
