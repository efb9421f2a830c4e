use super::{Findings, Subject};
use crate::api::{Entry, Skyhook, Stage, State, Status, keys};
use crate::cluster::{Certainty, Cluster};

rule! {
    /// A node counts as failed although its reboot succeeded.
    ///
    /// # What it means
    ///
    /// The reboot killed the container that requested it, which looks like a failure. After the reboot the
    /// package continued, but the node's status is still `erroring`: the node counts as failed, and under a
    /// deployment policy this stops the rollout.
    ///
    /// # What causes it
    ///
    /// Operators up to v0.19.1 mark the node as failed at the first failed attempt, and clear the
    /// status only when they start something new there, which a stopped rollout never does.
    ///
    /// # How to confirm
    ///
    /// The status annotation is `erroring`, the node is Ready, no entry of the node state is erroring or
    /// unknown, some entry is past its interrupt, and the rollout has stopped. While the rollout continues,
    /// the operator clears the status itself at the next stage.
    ///
    /// # How to fix
    ///
    /// Set the node's status annotation and label to `waiting` and reset the batch state, which
    /// `deployment-policy reset` does in this order. A reset of the batch state alone is undone at
    /// once, as the node is counted again.
    ///
    /// # Affected versions
    ///
    /// Up to v0.19.1 (upstream issue 633); v0.20.0 no longer causes this, but does not repair affected nodes.
    SKY306 "stale-erroring-after-reboot" Error needs Skyhooks Nodes Pods Jobs,
        blocks Install
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    if cluster.certainty_of_no_package_run() == Certainty::Unknown {
        return;
    }
    let (model, package_runs) = (findings.model(), findings.package_runs());
    for skyhook in cluster.skyhooks.iter().filter(|s| s.is_active()) {
        for node in model.unfinished(skyhook).filter(|n| n.ready() == Some(true)) {
            let Some(on) = cluster.on_node(node, skyhook.name()) else {
                continue;
            };
            let failed = |e: &Entry| matches!(e.state, State::Erroring | State::Unknown);
            let Some(entry) = on.entries().iter().find(|e| is_past_interrupt(skyhook, e)) else {
                continue;
            };
            let stale = on.status == Some(Status::Erroring)
                && !on.entries().iter().any(failed)
                && on.drain_start.is_none()
                && !on.is_malformed();
            let at_work = package_runs.any_alive_on(skyhook.name(), &node.name);
            // If the rollout is not stopped, the operator clears the status when it starts the next stage.
            let stopped = model.is_stopped(skyhook, node);
            if !stale || at_work || !stopped {
                continue;
            }
            let key = keys::status(cluster.flavor(), skyhook.name());
            let finding = findings.report(
                Subject::skyhook_on_node(skyhook, node),
                format!(
                    "the node counts as failed for {skyhook} although its interrupt succeeded, so the \
                     rollout stays stopped"
                ),
            );
            finding
                .evidence(node, &key, "erroring")
                .entry(&node.name, entry)
                .evidence(node, "condition Ready", "True")
                .evidence(skyhook, "shouldStop", "true")
                .reset_batches("Set the node to waiting and reset the batch state", skyhook, None)
                .caveat("the rollout continues, on other nodes as well");
        }
    }
}

fn is_past_interrupt(skyhook: &Skyhook, entry: &Entry) -> bool {
    let interrupts =
        skyhook.package(&entry.name).is_some_and(|p| p.version == entry.version && p.interrupt.is_some());
    interrupts
        && entry.state == State::Complete
        && matches!(entry.stage, Stage::Interrupt | Stage::PostInterrupt)
}
