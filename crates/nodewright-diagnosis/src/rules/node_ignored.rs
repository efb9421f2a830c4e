use super::{Finding, Findings, Remedy, Subject, drain_blocked};
use crate::cluster::Cluster;

rule! {
    /// A node with work left is ignored.
    ///
    /// # What it means
    ///
    /// The node carries the label `ignore=true`. The operator starts nothing there, for any custom
    /// resource, and each of them stays incomplete.
    ///
    /// # What causes it
    ///
    /// Someone set the label by hand, and did not remove it.
    ///
    /// # How to confirm
    ///
    /// The node has the label and packages that are not complete; the condition `NodesIgnored`.
    ///
    /// # How to fix
    ///
    /// Remove the label when the node may be worked on again.
    ///
    /// # Affected versions
    ///
    /// Operators v0.11.0 and later.
    SKY304 "node-ignored" Warning needs Skyhooks Nodes, also Workloads DisruptionBudgets Pods Jobs,
        blocks Install Uninstall
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let flavor = cluster.flavor();
    let refused = findings.of_rule(&drain_blocked::RULE);
    let model = findings.model();
    for skyhook in cluster.skyhooks.iter().filter(|s| !s.disabled()) {
        for node in model.unfinished(skyhook).filter(|node| node.ignored(flavor)) {
            let (done, all) = cluster.progress(skyhook, node);
            let finding = findings.report(
                Subject::skyhook_on_node(skyhook, node),
                format!("the node is ignored, so {skyhook} makes no progress here"),
            );
            if skyhook.blocks_all_nodes() {
                finding.evidence(
                    skyhook,
                    "spec.sequencing",
                    "all, so later custom resources wait on every node",
                );
            }
            finding.evidence(node, format!("label {}", flavor.key("ignore")), "true").evidence(
                skyhook,
                "packages done on this node",
                format!("{done} of {all}"),
            );
            // Add the remedies of a refused drain: it would be refused again after the node is unignored.
            let here = |f: &&Finding| {
                f.subject.node.as_deref() == Some(node.name.as_str())
                    && f.subject.skyhook.as_deref() == Some(skyhook.name())
            };
            for drain in refused.iter().filter(here) {
                finding.evidence(node, drain.rule.code, &drain.message);
                let cures = drain.remedies().filter(Remedy::changes);
                finding.change_remedies(|remedies| remedies.extend(cures));
            }
            finding
                .remedy("Let the operator work on the node again", ["node", "unignore", &node.name])
                .caveat(if skyhook.deleting() {
                    "the uninstall may run immediately, including its interrupts"
                } else {
                    "packages may run immediately, including their interrupts"
                });
        }
    }
}
