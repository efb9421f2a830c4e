use std::collections::HashSet;

use super::{Findings, Grade, Subject};
use crate::api::{Entry, Skyhook};
use crate::cluster::{Cluster, Node};
use crate::text::count;

rule! {
    /// A package was removed from the spec but is still installed.
    ///
    /// # What it means
    ///
    /// The node records a package that the custom resource no longer names. Its uninstall script did
    /// not run, so its changes on the host are still in effect, and nothing manages them.
    ///
    /// # What causes it
    ///
    /// The package was removed from the spec without `uninstall.enabled`. From v0.16.0 on the operator
    /// uninstalls packages only on request.
    ///
    /// # How to confirm
    ///
    /// The node state contains the package, and `spec.packages` has none of that name.
    ///
    /// # How to fix
    ///
    /// To uninstall it, add it back to the spec and uninstall it from there. If the host
    /// is clean, or was reinstalled, reset the package there: this removes only the record.
    ///
    /// # Affected versions
    ///
    /// Operators v0.16.0 and later; older ones uninstall a package that is removed from the spec.
    SKY221 "package-left-the-spec" Info needs Skyhooks Nodes, also Operator
}

/// Maximum number of packages of one node that are reported separately; more are reported together.
const MOST: usize = 20;

fn detect(cluster: &Cluster, findings: &mut Findings) {
    for skyhook in cluster.skyhooks.iter().filter(|s| !s.deleting()) {
        for (node, on) in cluster.tracked(skyhook.name()) {
            let mut seen = HashSet::new();
            // Skip entries at uninstall stages: older operators uninstall such packages by themselves.
            let left = on.entries().iter().filter(|e| {
                let (name, _) = e.identity();
                !e.stage.is_uninstall() && skyhook.package(name).is_none() && seen.insert(name)
            });
            let left: Vec<&Entry> = left.collect();
            if left.len() > MOST {
                together(findings, skyhook, node, left.len());
                continue;
            }
            for entry in left {
                let (name, _) = entry.identity();
                let finding = findings.report(
                    Subject::skyhook_on_node(skyhook, node).package(name),
                    format!(
                        "package {name} is no longer in the spec of {skyhook}, but was not uninstalled: everything it changed \
                         on the host stays"
                    ),
                );
                finding.entry(&node.name, entry).evidence(skyhook, format!("spec.packages.{name}"), "absent");
                finding
                    .edit(Grade::B2, "Add the package back to the spec, then uninstall it", skyhook)
                    .reset_record(skyhook.name(), &node.name, entry)
                    .caveat(
                        "this command removes only the record; run it only if the host was cleaned or re-imaged",
                    );
            }
        }
    }
}

/// Reports a node state with very many packages as one finding.
fn together(findings: &mut Findings, skyhook: &Skyhook, node: &Node, packages: usize) {
    let packages = count(packages);
    let text = format!("{packages} packages on the node are not in the spec of {skyhook}");
    findings
        .report(Subject::skyhook_on_node(skyhook, node), text)
        .evidence(node, "nodeState", format!("{packages} entries that are not in the spec"))
        .remedy("See the full record", ["node", "status", &node.name, "-o", "wide"]);
}
