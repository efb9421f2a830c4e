use super::support::evidence::some_of;
use super::{Findings, Grade, Subject};
use crate::api::keys;
use crate::cluster::{Cluster, NodeRecord, Pod};
use crate::text::plural;

rule! {
    /// Someone lifted the operator's cordon during a drain.
    ///
    /// # What it means
    ///
    /// The operator cordoned the node and drains it for an interrupt, but the node is schedulable again, and newer pods
    /// have arrived. The drain evicts them while others arrive, so it may never end.
    ///
    /// # What causes it
    ///
    /// Another program, or a person, uncordoned the node: the driver manager of the NVIDIA GPU Operator at the end of a
    /// driver upgrade, a reboot daemon, `kubectl uncordon`.
    ///
    /// # How to confirm
    ///
    /// The annotation `cordon_NAME` is on the node, `spec.unschedulable` is not set, and pods are younger than the
    /// annotation `drainStart_NAME`. Labels such as `nvidia.com/gpu-driver-upgrade-state` and the managers of
    /// `spec.unschedulable` in `managedFields` show who may have lifted the cordon.
    ///
    /// # How to fix
    ///
    /// Stop the program that lifts the cordon until the interrupt is over, or cordon the node again.
    ///
    /// # Affected versions
    ///
    /// Operators v0.18.0 and later, which record the start of a drain.
    ///
    /// # Severity
    ///
    /// A warning in the first ten minutes.
    SKY415 "cordon-lifted" Error needs Skyhooks Nodes Workloads, also Pods Jobs Events,
        blocks Install Uninstall
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let pods = cluster.evictions().pods_by_node();
    for drain in findings.model().drains().into_iter().filter(|drain| drain.begun && !drain.ignored) {
        let (node, skyhook) = (drain.node, drain.skyhook);
        let on = cluster.on_node(node, skyhook.name()).filter(|on| on.cordon && !on.drain_timed_out());
        let start = on.and_then(NodeRecord::draining_since).filter(|_| node.cordoned() == Some(false));
        let Some(start) = start else {
            continue;
        };
        let younger = |pod: &&&Pod| pod.metadata.creation_timestamp.is_some_and(|created| created > start);
        let here = pods.get(node.name.as_str()).into_iter().flatten();
        let arrived: Vec<String> = here.filter(younger).map(|pod| pod.path()).collect();
        if arrived.is_empty() {
            continue;
        }
        let suspects = node.may_have_uncordoned();
        let by = suspects.first().map_or_else(String::new, |suspect| format!(", probably by {suspect}"));
        let interrupt = Grade::of_rerun(
            skyhook.package(drain.package).and_then(|p| skyhook.pending_interrupt(drain.package, p)),
        );
        let events = cluster.events_about("Node", &node.name);
        let lifted: i64 =
            events.filter(|event| event.reason == "NodeSchedulable").map(|event| event.count).sum();
        let message = |pods: &str| {
            let package = drain.package;
            format!(
                "the operator's cordon was lifted during the drain for package {package}{by}, and {pods} arrived \
                 afterwards"
            )
        };
        let finding = findings.report(
            Subject::skyhook_on_node(skyhook, node).package(drain.package),
            message(&plural(arrived.len(), "pod")),
        );
        finding.group_message(message("pods"));
        if lifted > 1 {
            finding.evidence(node, "cordons lifted, by events", lifted);
        }
        finding
            .warning_if(!cluster.is_stale(Some(start)))
            .since(Some(start))
            .evidence(node, keys::cordon(cluster.flavor(), skyhook.name()), "set")
            .evidence(node, "spec.unschedulable", "not set")
            .evidence(node, cluster.flavor().key(&format!("drainStart_{}", skyhook.name())), start)
            .evidence(node, "pods younger than the drain", some_of(&arrived))
            .evidence(
                node,
                "may have lifted the cordon",
                if suspects.is_empty() { "unknown".to_owned() } else { suspects.join("; ") },
            )
            .pods_on_node(
                "Find out what uncordons the node, and stop it until the interrupt is over",
                &node.name,
            )
            .kubectl(interrupt, "Or cordon the node again", ["cordon", &node.name])
            .caveat("the drain then ends, and the interrupt follows; a program that lifts cordons may lift this one, too");
    }
}
