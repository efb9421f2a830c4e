use super::support::evidence::some_of;
use super::support::standstill::{Standstill, Trouble};
use super::{Finding, Findings, Severity, Subject};
use crate::api::Skyhook;
use crate::cluster::Cluster;

rule! {
    /// A custom resource waits for an earlier one on a node.
    ///
    /// # What it means
    ///
    /// Custom resources run one after the other on a node, by priority and then by name. An earlier custom
    /// resource is not complete, so this one does not start. With `sequencing: all`, the earlier one has to
    /// be complete on all of its nodes first. This applies even to nodes that the earlier one does not
    /// select.
    ///
    /// # What causes it
    ///
    /// An earlier custom resource is still in progress, is stuck, or is paused. A disabled custom resource
    /// blocks no other.
    ///
    /// # How to confirm
    ///
    /// The node's status is `waiting`, and a custom resource with a lower priority number is not
    /// complete there.
    ///
    /// # How to fix
    ///
    /// Repair the earlier one; its problem is reported as a separate finding. Or disable it, and the
    /// later ones continue without it.
    ///
    /// # Affected versions
    ///
    /// Operators v0.8.0 and later; `sequencing: all` since v0.14.0.
    ///
    /// # Severity
    ///
    /// Info while the earlier custom resource makes progress. If it is stuck, as severe as the cause. If it
    /// is paused, a warning: the later one waits until the pause ends.
    SKY302 "waits-for-earlier" Warning needs Skyhooks Nodes,
        blocks Install Uninstall, retried true, finds Effects
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let model = findings.model();
    let standstill = Standstill::of(cluster, findings);
    // All custom resources wait for the same root: the first incomplete one with `sequencing: all`.
    let mut trouble_of_root = None;
    for skyhook in cluster.skyhooks.iter().filter(|s| s.is_active()) {
        if let Some(predecessor) = model.predecessor_everywhere(skyhook) {
            let waiting: Vec<&str> = model.unfinished(skyhook).map(|n| n.name.as_str()).collect();
            if waiting.is_empty() {
                continue;
            }
            let root = predecessor.skyhook;
            let trouble = trouble_of_root.get_or_insert_with(|| {
                model
                    .unfinished(root)
                    .filter_map(|node| standstill.trouble(cluster, root, node))
                    .max_by_key(|t| (t.severity, t.permanent))
            });
            let finding = findings.report(
                Subject::skyhook(skyhook),
                format!(
                    "{skyhook} waits for {root}, which must first complete on all of its nodes{}",
                    suffix(trouble.as_ref())
                ),
            );
            finding
                .evidence(root, "spec.sequencing", "all")
                .evidence(root, "not complete on", &predecessor.node.name)
                .evidence("nodes", "waiting", some_of(&waiting))
                .waits_for(root.name());
            close(cluster, finding, root, trouble.as_ref());
            continue;
        }
        for node in model.unfinished(skyhook) {
            let Some(predecessor) = model.predecessor_on(skyhook, node) else {
                continue;
            };
            let root = predecessor.skyhook;
            let trouble = standstill.trouble(cluster, root, node);
            let finding = findings.report(
                Subject::skyhook_on_node(skyhook, node),
                format!("{skyhook} waits for {root}, which runs first{}", suffix(trouble.as_ref())),
            );
            let (done, all) = cluster.progress(root, node);
            finding
                .evidence(root, "priority", format!("{}, before {}", root.order().0, skyhook.order().0))
                .evidence(
                    node,
                    root.to_string(),
                    if root.deleting() {
                        format!("{done} of {all} packages done, and its deletion is not finished")
                    } else {
                        format!("{done} of {all} packages done")
                    },
                );
            finding.waits_for_predecessor(&predecessor);
            close(cluster, finding, root, trouble.as_ref());
        }
    }
}

fn suffix(trouble: Option<&Trouble>) -> String {
    trouble.map_or(String::new(), |t| format!(" and {}", t.why))
}

fn close(cluster: &Cluster, finding: &mut Finding, root: &Skyhook, trouble: Option<&Trouble>) {
    let Some(trouble) = trouble else {
        finding.severity(Severity::Info);
        return;
    };
    finding.severity(trouble.severity);
    if !trouble.permanent {
        finding.mark_transient();
    }
    finding.list_nodes("See the nodes of the earlier custom resource", root);
    if root.deleting() {
        // Do not offer to disable it, which would block its deletion.
        finding.remedy("See what the deletion waits for", ["status", root.name()]);
        return;
    }
    finding
        .remedy(
            "Disable the earlier custom resource, so that later ones continue without it",
            ["disable", root.name()],
        )
        .caveat(
            "the earlier custom resource then stays unfinished, and later ones may depend on its packages",
        );
    if root.paused() {
        finding.offer_resume(cluster, root, "Or resume the earlier custom resource", "resume");
    }
}
