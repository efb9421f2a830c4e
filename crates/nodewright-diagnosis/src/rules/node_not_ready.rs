use super::support::evidence::{is_reboot, open_entries, some_of};
use super::{Findings, Severity, Subject};
use crate::api::{Skyhook, Stage, State};
use crate::cluster::cordon::Holder;
use crate::cluster::{Cluster, Node, PackageRuns};
use crate::model::Model;

rule! {
    /// A node with unfinished work has not been ready for a long time.
    ///
    /// # What it means
    ///
    /// The node or its kubelet is down or disconnected, so nothing progresses there. The operator does
    /// not check this: the node state continues to show `in_progress`, a pod that had started continues
    /// to be shown as running, and the custom resource, or its deletion, waits for the node forever.
    ///
    /// # What causes it
    ///
    /// The machine did not come back from the reboot of an interrupt, failed, or was switched
    /// off or removed without its node being deleted. While the kubelet reports "node is shutting down", the machine has
    /// not even gone down: an inhibitor or a hanging unit delays its reboot.
    ///
    /// # How to confirm
    ///
    /// The node's condition `Ready` has not been `True` for ten minutes or more, and the custom resource has
    /// begun there and is not complete. Large machines may take longer than that for a reboot, so while one
    /// is in progress this is a warning for an hour. A node that has just become not ready, without a reboot
    /// that an interrupt requested, is a warning at once.
    ///
    /// # How to fix
    ///
    /// Repair the node; the work continues by itself. Ignore the node if it will not come back soon, so that
    /// others continue. A deletion waits for ignored nodes, too: if the node will never come back, reset it.
    ///
    /// # Affected versions
    ///
    /// All operators.
    SKY409 "node-not-ready" Error needs Skyhooks Nodes, also Pods Jobs,
        blocks Install Uninstall
}

/// The kubelet's message from the beginning of a shutdown to the end of its machine (`pkg/kubelet/nodestatus`).
const SHUTTING_DOWN: &str = "node is shutting down";
/// Maximum number of seconds that a reboot of a large machine takes, with its checks of memory and disks.
const LONGEST_REBOOT: i64 = 3600;

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let (model, package_runs) = (findings.model(), findings.package_runs());
    for skyhook in cluster.skyhooks.iter().filter(|s| s.is_active()) {
        let pending = cluster.pending_uninstalls(skyhook);
        for node in cluster.selected(skyhook) {
            let Some(since) = node.not_ready_since() else {
                continue;
            };
            let lasts = cluster.is_stale(Some(since));
            // Another rule reports nodes that are being deleted.
            let rebooted = || cluster.skyhooks.iter().any(|skyhook| reboots(cluster, skyhook, node));
            if !lasts && rebooted() || node.deletion.is_some() && !skyhook.deleting() {
                continue;
            }
            let waited_for: Vec<&str> =
                pending.iter().filter(|p| p.node.name == node.name).map(|p| p.name).collect();
            let unfinished = if skyhook.deleting() {
                !waited_for.is_empty()
            } else {
                has_begun(cluster, &model, &package_runs, skyhook, node)
            };
            if !unfinished {
                continue;
            }
            let what = if skyhook.deleting() {
                format!("the deletion of {skyhook} waits for an uninstall on it")
            } else {
                format!("{skyhook} has unfinished work on it")
            };
            let kubelet = node.kubelet_message().unwrap_or_default();
            let shutting_down = lasts && kubelet.contains(SHUTTING_DOWN);
            let (how, title) = if shutting_down {
                (
                    "has been shutting down for a long time: its shutdown or reboot does not finish",
                    "See on the machine's console what prevents the shutdown from completing, and finish it there",
                )
            } else {
                let how = if lasts { "has not been ready for a long time" } else { "is not ready" };
                (how, "See the state of the node, and repair it")
            };
            let quoted = if kubelet.is_empty() {
                String::new()
            } else {
                format!(" (kubelet: {})", kubelet.trim_end_matches('.'))
            };
            let finding = findings.report(
                Subject::skyhook_on_node(skyhook, node),
                format!("the node {how}{quoted}, and {what}"),
            );
            if !lasts {
                finding.severity(Severity::Warning).mark_transient();
            } else if reboots(cluster, skyhook, node) && cluster.seconds_from(since) < LONGEST_REBOOT {
                finding.severity(Severity::Warning);
            }
            let ready = format!("not True since {since}{quoted}");
            finding.since(Some(since)).evidence(node, "condition Ready", ready);
            let holders = node.cordon_holders().into_iter().filter(|_| node.cordoned() == Some(true));
            for holder in holders.filter(|holder| *holder != Holder::unknown()) {
                finding.evidence(node, "kept cordoned by", holder);
            }
            if let Some(on) = cluster.on_node(node, skyhook.name()) {
                for entry in open_entries(cluster, skyhook, on) {
                    finding.entry(&node.name, entry);
                }
            }
            for package_run in package_runs.of_skyhook_on(skyhook.name(), &node.name) {
                if package_run.alive() {
                    finding.evidence(package_run, "ended", "no, according to the node's last report");
                }
            }
            finding.describe_node(title, &node.name);
            if !lasts {
                continue;
            }
            if skyhook.deleting() {
                finding
                    .evidence(node, "packages still to be uninstalled", some_of(&waited_for))
                    .remedy(
                        "Reset the node if it will not come back",
                        ["reset", skyhook.name(), "--node", &node.name],
                    )
                    .caveat(
                        "the record of what is installed is lost, and uninstall.sh does not run: changes that the packages \
                         made to the host remain",
                    )
                    .by_choice();
                continue;
            }
            finding.ignore_nodes(
                cluster,
                skyhook,
                &[&node.name],
                "Or ignore the node until it is back, so that the other nodes continue",
            );
        }
    }
}

/// Whether the custom resource is rebooting the node.
fn reboots(cluster: &Cluster, skyhook: &Skyhook, node: &Node) -> bool {
    let on = cluster.on_node(node, skyhook.name());
    on.into_iter()
        .flat_map(|on| on.entries())
        .any(|e| e.stage.is_interrupt() && e.state == State::InProgress && is_reboot(skyhook, e))
}

/// Whether work on the node has begun and is unfinished, and no other rule explains it.
///
/// Ignored nodes are excluded on purpose (SKY304). SKY205 reports a node whose kubelet did not accept the
/// pod.
fn has_begun<'a>(
    cluster: &'a Cluster,
    model: &Model<'_>,
    package_runs: &PackageRuns<'a>,
    skyhook: &Skyhook,
    node: &'a Node,
) -> bool {
    let here = || package_runs.of_skyhook_on(skyhook.name(), &node.name).filter(|run| run.alive());
    let not_started = here().any(|run| run.unacknowledged().is_some());
    let on = cluster.on_node(node, skyhook.name());
    // A pod that replaces an ended one, as when the node shuts down, continues work that has begun.
    let mut entries = on.into_iter().flat_map(|on| on.entries());
    let replaced = here().any(|run| run.pods.len() > 1)
        || entries.any(|entry| entry.state == State::Complete || !matches!(entry.stage, Stage::Apply));
    if not_started && !replaced || node.ignored(cluster.flavor()) {
        return false;
    }
    let alive = here().next().is_some();
    // A node of the batch that waits for an earlier custom resource has not begun.
    let chosen = || cluster.is_taken_up(skyhook, node) && model.predecessor_on(skyhook, node).is_none();
    let begun = on.is_some_and(|on| !on.entries().is_empty()) || chosen();
    alive || begun && !model.is_done_on(skyhook, node)
}
