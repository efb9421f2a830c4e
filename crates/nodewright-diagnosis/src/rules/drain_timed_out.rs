use super::support::evidence::open_entries;
use super::{Findings, Subject};
use crate::api::{Skyhook, keys};
use crate::cluster::{Cluster, Source};

rule! {
    /// The drain of a node timed out.
    ///
    /// # What it means
    ///
    /// The pods had not left the node within `drainConfig.timeout`. The operator marks the node as erroring,
    /// leaves it cordoned and does not try again, even after the cause is removed. Under a deployment policy
    /// the node counts as failed.
    ///
    /// # What causes it
    ///
    /// A disruption budget or a pod without a controller prevented eviction for that long, or pods took
    /// longer to terminate than the timeout allows.
    ///
    /// # How to confirm
    ///
    /// The node has the annotation `drainStart_NAME`, its status annotation is `erroring`, and no entry of
    /// its node state is `erroring`. Events with the reason `Drain` contain `drain timed out`.
    /// `drainBlocked_NAME` may still name the pods that could not be evicted.
    ///
    /// # How to fix
    ///
    /// Remove the cause that keeps the pods on the node, or raise the timeout. Then reset the node: the drain
    /// starts again. A reset alone only leads to another timeout.
    ///
    /// # Affected versions
    ///
    /// Operators v0.19.0 and later.
    SKY410 "drain-timed-out" Error needs Skyhooks Nodes, also Workloads DisruptionBudgets,
        blocks Install Uninstall
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let model = findings.model();
    let drains = model.drains();
    let evictable = cluster.evictions().pods_by_node();
    for skyhook in cluster.skyhooks.iter().filter(|s| s.is_active()) {
        for node in model.unfinished(skyhook) {
            let on = cluster.on_node(node, skyhook.name());
            let Some(on) = on.filter(|on| on.drain_timed_out()) else {
                continue;
            };
            let due = drains.iter().find(|d| d.node.name == node.name && d.skyhook.name() == skyhook.name());
            let any_left = evictable.contains_key(node.name.as_str());
            // Without pods, the node is drained and the operator continues.
            let drained = due.is_some() && cluster.source(Source::Workloads).ok().is_some() && !any_left;
            let mut subject = Subject::skyhook_on_node(skyhook, node);
            subject.package = due.map(|drain| drain.package.to_owned());
            let finding = findings.report(subject, message(skyhook, drained));
            finding.warning_if(drained);
            let name = skyhook.name();
            finding.evidence(node, keys::status(cluster.flavor(), name), "erroring");
            if let Some(start) = &on.drain_start {
                let key = cluster.flavor().key(&format!("drainStart_{name}"));
                finding.since(start.parse().ok()).evidence(node, key, start);
            }
            let in_force = cluster.evictions().refusals_in_force(skyhook, node, on);
            for refusal in &in_force {
                finding.evidence(node, "eviction refused", refusal);
            }
            for entry in open_entries(cluster, skyhook, on) {
                finding.entry(&node.name, entry);
            }
            finding
                .pods_on_node(
                    "See which pods are still on the node, and remove what keeps them there",
                    &node.name,
                )
                .reset_node("Then reset the node, so that the drain starts again", cluster, skyhook, node);
        }
    }
}

fn message(skyhook: &Skyhook, drained: bool) -> String {
    let timeout = match &skyhook.spec.drain_config.timeout {
        Some(timeout) => format!("its timeout of {timeout}"),
        None => "its timeout".to_owned(),
    };
    let what = format!("the drain for {skyhook} exceeded {timeout}");
    if drained {
        format!("{what}; the pods are gone now, so the operator may continue automatically")
    } else {
        format!("{what}: the node stays cordoned, and the drain is not retried")
    }
}
