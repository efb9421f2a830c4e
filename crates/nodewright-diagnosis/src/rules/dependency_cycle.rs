use super::support::evidence::some_of;
use super::{Findings, Grade, Subject};
use crate::cluster::Cluster;
use crate::model::profile::cycles;

rule! {
    /// Packages depend on each other in a cycle.
    ///
    /// # What it means
    ///
    /// Each package in the cycle waits for the next, so none of them ever runs. The status stays `waiting`,
    /// and nothing reports the cause.
    ///
    /// # What causes it
    ///
    /// The webhook only checks that the packages in `dependsOn` exist, not whether they form a cycle.
    ///
    /// # How to confirm
    ///
    /// Following `dependsOn` from a package leads back to it.
    ///
    /// # How to fix
    ///
    /// Remove one of the dependencies.
    ///
    /// # Affected versions
    ///
    /// All operators.
    SKY207 "dependency-cycle" Error needs Skyhooks Nodes,
        blocks Install
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    for skyhook in cluster.skyhooks.iter().filter(|s| !s.deleting()) {
        for cycle in cycles(skyhook) {
            let held: Vec<&str> = cluster
                .selected(skyhook)
                .filter(|node| cycle.iter().any(|name| !cluster.placement(skyhook, name, node).is_done()))
                .map(|n| n.name.as_str())
                .collect();
            let path = format!("{} -> {}", cycle.join(" -> "), cycle[0]);
            let finding = findings.report(
                Subject::skyhook(skyhook),
                format!("packages depend on each other in a cycle and never run: {path}"),
            );
            finding.warning_if(held.is_empty() || !skyhook.is_active());
            finding.evidence(skyhook, "dependsOn", path);
            if !held.is_empty() {
                finding.evidence("nodes", "waiting", some_of(&held));
            }
            finding
                .edit(Grade::B2, "Remove one of the dependencies", skyhook)
                .caveat("the packages then run on every selected node");
        }
    }
}
