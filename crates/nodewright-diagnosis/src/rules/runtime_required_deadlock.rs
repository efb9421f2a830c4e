use super::{Findings, Grade, Subject};
use crate::cluster::Cluster;

rule! {
    /// Two custom resources wait for each other because of the runtime-required taint.
    ///
    /// # What it means
    ///
    /// The node carries the runtime-required taint. The earlier custom resource has no `runtimeRequired` and
    /// does not tolerate the taint, so it does not run. The completion of the later one would remove the
    /// taint, but the later one has to wait for the earlier one, now or once its pause or disable ends. The node never becomes
    /// usable.
    ///
    /// # What causes it
    ///
    /// The priorities place a custom resource without `runtimeRequired` before one that has it.
    ///
    /// # How to confirm
    ///
    /// Both custom resources select the node and are incomplete there, the node has the taint, and the
    /// earlier one has neither `runtimeRequired` nor a toleration for it.
    ///
    /// # How to fix
    ///
    /// Give the earlier one `runtimeRequired: true` or a toleration, or change its priority to run after the
    /// other.
    ///
    /// # Affected versions
    ///
    /// All operators.
    SKY407 "runtime-required-deadlock" Error needs Skyhooks Nodes, also Operator,
        blocks Install Uninstall Workloads
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let model = findings.model();
    for node in &cluster.nodes {
        let Some(taint) = cluster.runtime_required().on(node) else {
            continue;
        };
        let waiting: Vec<_> =
            cluster.skyhooks.iter().filter(|s| s.selects(node) && !model.is_done_on(s, node)).collect();
        let Some(later) = waiting.iter().rev().find(|s| s.spec.runtime_required) else {
            continue;
        };
        for first in waiting.iter().filter(|s| s.is_active() && s.order() < later.order()) {
            let kept_off = cluster.untolerated_by(first, node).iter().any(|t| t.key == taint.key);
            if first.spec.runtime_required || !kept_off {
                continue;
            }
            let (each, stopped) = match later.stopped() {
                None => (", and each waits for the other".to_owned(), String::new()),
                Some(how) => (format!("; {later} is {how}, and would wait for {first}"), format!(", {how}")),
            };
            findings
                .report(
                    Subject::skyhook_on_node(first, node),
                    format!(
                        "{first} does not tolerate the runtime-required taint, which only {later} would remove{each}"
                    ),
                )
                .evidence(node, "taint", taint.kubectl_notation())
                .evidence(
                    first,
                    "order",
                    format!("priority {}, without runtimeRequired", first.order().0),
                )
                .evidence(
                    later,
                    "order",
                    format!("priority {}, with runtimeRequired{stopped}", later.order().0),
                )
                .edit(
                    Grade::B2,
                    format!("Set runtimeRequired on {first}, or set its spec.priority to a number above that of {later}"),
                    first,
                )
                .caveat("with runtimeRequired, the packages of the earlier custom resource run on tainted nodes, and so do their interrupts");
        }
    }
}
