use super::evidence::forget;
use super::{Findings, Grade, Subject};
use crate::cluster::Cluster;

rule! {
    /// A package left the spec and is still installed.
    ///
    /// # What it means
    ///
    /// The node records a package that the custom resource no longer names. Its uninstall script did
    /// not run, so what it changed on the host is still in force, and nothing looks after it.
    ///
    /// # How it comes about
    ///
    /// The package was taken out of the spec without `uninstall.enabled`. From v0.16.0 on the operator
    /// uninstalls only what it is asked to.
    ///
    /// # How to confirm
    ///
    /// The node state holds the package, and `spec.packages` has none of that name.
    ///
    /// # How to fix
    ///
    /// To have it uninstalled, put it back into the spec and uninstall it from there. Where the host
    /// is clean, or was made anew, reset the package there: that removes the record alone.
    ///
    /// # Since
    ///
    /// Operators v0.16.0 and later; older ones uninstall a package that leaves the spec.
    SKY221 "package-left-the-spec" Info needs Skyhooks Nodes, also Operator
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    for skyhook in cluster.skyhooks.items().iter().filter(|s| !s.deleting()) {
        for (node, on) in cluster.tracked(skyhook.name()) {
            let mut told: Vec<&str> = Vec::new();
            for entry in on.entries() {
                let (name, _) = entry.identity();
                // Older operators uninstall it by themselves.
                let uninstalls = entry.stage.is_uninstall();
                if uninstalls || skyhook.package(name).is_some() || told.contains(&name) {
                    continue;
                }
                told.push(name);
                let finding = findings.report(
                    Subject::node(&node.name, Some(skyhook.name())).package(name),
                    format!(
                        "package {name} is no longer in the spec of {}, and was not uninstalled: what it changed \
                         on the host stays",
                        skyhook.reference()
                    ),
                );
                finding.entry(&node.name, entry).evidence(
                    skyhook.reference(),
                    format!("spec.packages.{name}"),
                    "absent",
                );
                finding.kubectl(
                    Grade::B2,
                    "Put it back into the spec, to uninstall it from there",
                    ["edit", &cluster.generation().resource(), skyhook.name()],
                );
                forget(finding, Grade::B1, skyhook.name(), &node.name, entry).caveat(
                    "removes the record alone: right where the host was cleaned or made anew",
                );
            }
        }
    }
}
