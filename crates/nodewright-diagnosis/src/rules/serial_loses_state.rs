use super::{Findings, Grade, Subject};
use crate::api::State;
use crate::cluster::{Cluster, Node, NodeRecord, PackageRun};
use crate::text::count;

rule! {
    /// A custom resource with `serial: true` makes no progress.
    ///
    /// # What it means
    ///
    /// With `serial` an older operator ends its reconcile as soon as it has started a pod, before it has
    /// recorded the stage on the node. The next reconcile finds a pod without a record, treats it as a stray
    /// pod, removes it, and starts over. Pods come and go, the node state stays as it is, and the status
    /// stays `waiting`.
    ///
    /// # What causes it
    ///
    /// `spec.serial: true`, meant to work on one package at a time.
    ///
    /// # How to confirm
    ///
    /// `spec.serial` is true, the operator is older than v0.18, and nodes have work left. When you watch for
    /// a while, pods of the custom resource are replaced every few seconds, and no node state changes.
    ///
    /// # How to fix
    ///
    /// Set `spec.serial` to false. Use `interruptionBudget` or a deployment policy to limit how many nodes
    /// are in progress at once. With `serial`, newer operators run one package per node and reconcile.
    ///
    /// # Affected versions
    ///
    /// Up to v0.17.
    ///
    /// # Severity
    ///
    /// A warning while a stage is running that the node state records.
    SKY214 "serial-loses-state" Error needs Skyhooks Nodes, also Pods,
        blocks Install Uninstall
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    if !crate::model::profile::serial_loses_states(cluster) {
        return;
    }
    let (model, package_runs) = (findings.model(), findings.package_runs());
    for skyhook in cluster.skyhooks.iter().filter(|s| s.spec.serial) {
        let open = model.actionable_nodes(skyhook);
        if open.is_empty() {
            continue;
        }
        // A running stage that is recorded in the node state may still complete.
        let runs_as_recorded = |node: &&Node| {
            let on = cluster.on_node(node, skyhook.name());
            let mut entries = on.map_or(&[][..], NodeRecord::entries).iter();
            let runs = package_runs.of_skyhook_on(skyhook.name(), &node.name);
            let alive: Vec<_> = runs.filter(|run| run.alive()).collect();
            entries.any(|entry| {
                let runs = |run: &&PackageRun<'_>| run.is_of_version(entry) && run.stage == entry.stage;
                entry.state != State::Complete && alive.iter().copied().any(|run| runs(&run))
            })
        };
        let recorded = open.iter().any(runs_as_recorded);
        let finding = findings.report(
            Subject::skyhook(skyhook),
            format!(
                "{skyhook} {}: with spec.serial, this operator loses track of the pods that it started",
                if recorded {
                    "makes progress on one node at a time, if at all"
                } else {
                    "makes no progress"
                }
            ),
        );
        finding
            .warning_if(recorded)
            .evidence(skyhook, "spec.serial", "true")
            .evidence("nodes", "with unfinished work", count(open.len()))
            .patch(
                Grade::B3,
                "Turn serial off",
                skyhook,
                &["--type=merge", "-p", r#"{"spec":{"serial":false}}"#],
            )
            .caveat("its packages then run on the nodes, including their interrupts");
    }
}
