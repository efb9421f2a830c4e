use super::remedies::usual::OPERATOR;
use super::{Findings, Grade, Subject};
use crate::cluster::Cluster;
use crate::text::count;

rule! {
    /// The operator has too little memory for the cluster.
    ///
    /// # What it means
    ///
    /// The operator keeps every node and the state of every package on it in memory. With less than it
    /// needs, it is killed in the middle of a reconcile, most likely while many nodes change at once, and
    /// starts over.
    ///
    /// # What causes it
    ///
    /// The chart's default of 512 MiB is meant for about 800 nodes with up to three packages in a custom
    /// resource, or 500 with more. The cluster is too large for this limit.
    ///
    /// # How to confirm
    ///
    /// Check the memory limit of the operator's Deployment, and its pods for restarts with the reason `OOMKilled`.
    ///
    /// # How to fix
    ///
    /// Raise the limit in the values of the chart to 0.8 MiB per node, or with more than two packages to 0.32 MiB per
    /// node and package.
    ///
    /// # Affected versions
    ///
    /// All operators. The figures are from upstream, tested with up to a thousand nodes.
    SKY507 "operator-undersized" Warning needs Skyhooks Nodes Operator
}

/// The chart's default memory limit in MiB.
const DEFAULT: f64 = 512.0;

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let packages = cluster.skyhooks.iter().map(|s| s.spec.packages.len()).max().unwrap_or(0);
    let nodes = cluster.nodes.items().len();
    let enough = if packages > 3 { 500 } else { 800 };
    if packages == 0 || nodes <= enough {
        return;
    }
    let needed = (nodes as f64 * 0.8 * (packages as f64 * 0.4).max(1.0)).max(DEFAULT);
    for operator in cluster.operator().acting() {
        let Some(limit) = operator.memory_limit().filter(|limit| *limit < needed) else {
            continue;
        };
        let memory = format!("{limit:.0} MiB");
        findings
            .report(
                Subject::deployment(operator),
                format!(
                    "the operator's memory limit is {memory}, but the operator may need up to {needed:.0} MiB in this cluster"
                ),
            )
            .evidence(operator, "resources.limits.memory", &memory)
            .evidence("nodes", "in the cluster", count(nodes))
            .evidence("custom resources", "largest number of packages", packages)
            .kubectl(
                Grade::B0,
                "Check whether the operator was OOM-killed, then raise the limit in the chart's values",
                ["describe", "pods", "-n", operator.namespace(), "-l", OPERATOR],
            );
    }
}
