use super::{Findings, Grade, Subject};
use crate::cluster::{Cluster, Deployment};

rule! {
    /// Two operators work on the same custom resources.
    ///
    /// # What it means
    ///
    /// Custom resources and nodes are cluster-scoped, and operators elect their leader within
    /// their own namespace. So both write the same annotations, and each starts its own pods: a package may run
    /// twice at once on one host.
    ///
    /// # What causes it
    ///
    /// The chart was installed into a second namespace while the first release still existed, such
    /// as `nodewright` in addition to `skyhook`; or another chart includes its own operator.
    ///
    /// # How to confirm
    ///
    /// Deployments of the operator in two namespaces have available replicas.
    ///
    /// # How to fix
    ///
    /// Scale the Deployment of one of them to zero, and delete its webhook configurations. Do not run
    /// `helm uninstall` while custom resources exist: its hook deletes them.
    ///
    /// # Since
    ///
    /// All operators.
    SKY508 "two-operators-running" Error needs Skyhooks Operator
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    if cluster.skyhooks.items().is_empty() {
        return;
    }
    let all = cluster.operators.items().iter();
    let mut running: Vec<&Deployment> = all.filter(|d| d.available_replicas() > 0).collect();
    running.sort_by_key(|operator| operator.namespace());
    // Within one namespace they elect one leader.
    running.dedup_by_key(|operator| operator.namespace());
    let [first, _, ..] = running.as_slice() else {
        return;
    };
    let named: Vec<String> = running.iter().map(|operator| named(operator)).collect();
    let finding = findings.report(
        Subject::deployment(first),
        format!(
            "{} operators work on the same custom resources: {}",
            running.len(),
            named.join(", ")
        ),
    );
    for operator in running {
        finding.evidence(
            operator,
            "status.availableReplicas",
            operator.available_replicas(),
        );
    }
    finding.kubectl(
        Grade::B0,
        "See which Helm release each operator belongs to; then scale one operator to zero",
        [
            "get",
            "deployments",
            "-A",
            "-l",
            "control-plane=controller-manager",
            "--show-labels",
        ],
    );
}

/// `v0.17.0 in namespace skyhook`
fn named(operator: &Deployment) -> String {
    let version = operator.operator_version();
    let version = version.map_or_else(|| "unknown version".to_owned(), |v| v.to_string());
    format!("{version} in namespace {}", operator.namespace())
}
