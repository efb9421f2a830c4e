use std::collections::HashSet;

use super::evidence::forget;
use super::{Findings, Grade, Subject};
use crate::api::{Entry, Skyhook};
use crate::cluster::{Cluster, Node};

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

/// Packages of one node that are told one by one; more are told at once.
const MOST: usize = 20;

fn detect(cluster: &Cluster, findings: &mut Findings) {
    for skyhook in cluster.skyhooks.items().iter().filter(|s| !s.deleting()) {
        for (node, on) in cluster.tracked(skyhook.name()) {
            let mut told = HashSet::new();
            // Older operators uninstall it by themselves.
            let left = on.entries().iter().filter(|e| {
                let (name, _) = e.identity();
                !e.stage.is_uninstall() && skyhook.package(name).is_none() && told.insert(name)
            });
            let left: Vec<&Entry> = left.collect();
            if left.len() > MOST {
                together(findings, skyhook, node, left.len());
                continue;
            }
            for entry in left {
                let (name, _) = entry.identity();
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
                    ["edit", &cluster.flavor().resource(), skyhook.name()],
                );
                forget(finding, Grade::B1, skyhook.name(), &node.name, entry).caveat(
                    "removes the record alone: right where the host was cleaned or re-imaged",
                );
            }
        }
    }
}

/// A record that holds more than anybody installs is told at once.
fn together(findings: &mut Findings, skyhook: &Skyhook, node: &Node, packages: usize) {
    let text = format!(
        "{packages} packages on the node are not in the spec of {}",
        skyhook.reference()
    );
    findings
        .report(Subject::node(&node.name, Some(skyhook.name())), text)
        .evidence(
            format!("node/{}", node.name),
            "nodeState",
            format!("{packages} entries that the spec does not name"),
        )
        .remedy(
            Grade::B0,
            "Look at the whole record",
            ["node", "status", &node.name, "-o", "wide"],
        );
}
