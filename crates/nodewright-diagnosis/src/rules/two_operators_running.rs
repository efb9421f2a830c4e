use super::{Findings, Grade, Subject};
use crate::cluster::Cluster;
use crate::text::Joined;

rule! {
    /// Two operators work on the same custom resources.
    ///
    /// # What it means
    ///
    /// Custom resources and nodes are cluster-scoped, and operators elect their leader within their own
    /// namespace. So both write the same annotations, and each starts its own pods: a package may run twice
    /// at once on one host.
    ///
    /// # What causes it
    ///
    /// The chart was installed into a second namespace while the first release still existed, such as
    /// `nodewright` in addition to `skyhook`; or another chart includes its own copy of the operator.
    ///
    /// # How to confirm
    ///
    /// Deployments of the operator in two namespaces have ready replicas. A Deployment that is scaled to zero
    /// does not count.
    ///
    /// # How to fix
    ///
    /// Scale the Deployment of one operator to zero, and delete its webhook configurations. Do not run
    /// `helm uninstall` while custom resources exist: its hook deletes them.
    ///
    /// # Affected versions
    ///
    /// All operators.
    SKY508 "two-operators-running" Error needs Operator
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let running = cluster.operator().installations();
    let [first, _, ..] = running.as_slice() else {
        return;
    };
    let named = running.iter().map(|d| d.installed()).joined(", ");
    let finding = findings.report(
        Subject::deployment(first),
        format!("{} operators work on the same custom resources: {named}", running.len()),
    );
    for operator in running {
        finding.evidence(operator, "status.readyReplicas", operator.ready_replicas());
    }
    finding.kubectl(
        Grade::B0,
        "See which Helm release each operator belongs to; then scale one operator to zero",
        ["get", "deployments", "-A", "-l", "control-plane=controller-manager", "--show-labels"],
    );
}
