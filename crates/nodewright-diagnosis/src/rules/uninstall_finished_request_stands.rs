use super::{Findings, Grade, Subject};
use crate::cluster::Cluster;
use crate::cluster::history::History;

rule! {
    /// An uninstall has finished, but its request is still in the spec.
    ///
    /// # What it means
    ///
    /// The package was uninstalled from every selected node, as requested. As long as `uninstall.apply: true`
    /// stays in the spec, it is not installed again, and new nodes do not get it, although the custom
    /// resource lists it and is reported as complete.
    ///
    /// # What causes it
    ///
    /// The operator does not remove the request after completing it.
    ///
    /// # How to confirm
    ///
    /// The node states no longer contain the package, and an event, a Job or a pod of it shows that it was
    /// there.
    ///
    /// # How to fix
    ///
    /// Remove the package from the spec if it should stay uninstalled, or cancel the request if it is wanted.
    ///
    /// # Affected versions
    ///
    /// Operators with explicit uninstall (v0.16.0).
    SKY115 "uninstall-finished-request-stands" Info needs Skyhooks Nodes, also Pods Jobs Events
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    for (skyhook, name, history) in cluster.absent_packages() {
        // The rule `dependency-uninstalled` covers packages on which other packages depend.
        if skyhook.packages().any(|(_, p)| p.depends_on.contains_key(name) && !p.uninstall().apply) {
            continue;
        }
        let History::Present(traces) = history else {
            continue;
        };
        let finding = findings.report(
            Subject::skyhook(skyhook).package(name),
            format!(
                "package {name} is uninstalled, but the uninstall request is still in the spec: the package is not installed again until the request is removed"
            ),
        );
        finding.package_field(skyhook, name, "uninstall.apply", "true").absent_from_node_states(name);
        if let Some(trace) = traces.iter().find(|t| t.uninstalled).or(traces.first()) {
            finding.evidence(&trace.object, trace.field, &trace.message);
        }
        finding
            .edit(Grade::B1, "If the package is not needed, remove it from the spec", skyhook)
            .cancel_uninstall("If the package is needed, cancel the request", skyhook, name)
            .caveat("the package is then installed on every selected node");
    }
}
