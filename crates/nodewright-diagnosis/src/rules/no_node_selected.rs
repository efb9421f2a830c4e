use super::{Blocks, Findings, Grade, Severity, Subject};
use crate::cluster::Cluster;
use crate::text::{Joined, count};

rule! {
    /// A custom resource selects no node.
    ///
    /// # What it means
    ///
    /// No node has the labels that it selects. The operator reports it as complete and Ready, so it
    /// looks fine although nothing is installed anywhere.
    ///
    /// # What causes it
    ///
    /// A selector with a typo, labels that were renamed, or a node pool scaled to zero. If there are no nodes
    /// at all, the operator ends its reconcile before anything else.
    ///
    /// # How to confirm
    ///
    /// `status.completeNodes` is `0/0`; no node matches `spec.nodeSelectors`.
    ///
    /// # How to fix
    ///
    /// Correct the selector or label the nodes. If the pool is meant to be empty, there is nothing to
    /// do.
    ///
    /// # Affected versions
    ///
    /// All operators.
    ///
    /// # Severity
    ///
    /// An error if a deletion cannot complete because of this.
    SKY307 "no-node-selected" Warning needs Skyhooks Nodes
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    if cluster.nodes.items().is_empty() {
        if cluster.nodes.ok().is_some() {
            no_nodes_at_all(cluster, findings);
        }
        return;
    }
    for skyhook in cluster.skyhooks.iter().filter(|s| !s.deleting() && !s.disabled()) {
        if skyhook.spec.packages.is_empty() || cluster.selected(skyhook).next().is_some() {
            continue;
        }
        let selector = &skyhook.spec.node_selectors;
        let finding = findings.report(
            Subject::skyhook(skyhook),
            format!("{skyhook} does not select any node, so it installs nothing"),
        );
        let labels = selector.match_labels.iter().map(|(key, value)| format!("{key}={value}"));
        let expressions = selector.match_expressions.iter();
        let expressions = expressions.map(|r| format!("{} {} ({})", r.key, r.operator, r.values.join(", ")));
        finding
            .evidence(skyhook, "spec.nodeSelectors", labels.chain(expressions).joined(", "))
            .evidence("nodes", "that match", format!("0 of {}", count(cluster.nodes.items().len())))
            .kubectl(Grade::B0, "See the labels of the nodes", ["get", "nodes", "--show-labels"])
            .edit(Grade::B2, "Correct the selector", skyhook)
            .caveat("packages then run on the nodes that match");
    }
}

/// Reports that the cluster has no nodes. The older operator then ends its reconcile at once, and does not even
/// remove finalizers. Whether the newer operator does so is known only after a deletion has taken long.
fn no_nodes_at_all(cluster: &Cluster, findings: &mut Findings) {
    for skyhook in cluster.skyhooks.iter().filter(|s| !s.disabled()) {
        let known = crate::model::profile::ends_pass_without_nodes(cluster)
            || cluster.is_stale(skyhook.metadata.deletion_timestamp);
        let held = skyhook.deleting() && skyhook.has_finalizer() && known;
        if skyhook.deleting() && !held {
            continue;
        }
        let what = if held {
            format!("does not finish the deletion of {skyhook}")
        } else {
            format!("does nothing for {skyhook}")
        };
        let finding = findings.report(
            Subject::skyhook(skyhook),
            format!("the cluster has no nodes; until a node joins, the operator {what}"),
        );
        finding.evidence("nodes", "in the cluster", "0").kubectl(
            Grade::B0,
            "Check whether a node has joined; the operator then continues",
            ["get", "nodes"],
        );
        if held {
            finding
                .severity(Severity::Error)
                .blocks_only(&[Blocks::Deletion])
                .since_deletion(skyhook)
                .strip_finalizer("If no node will join, strip the finalizer", skyhook);
        }
    }
}
