use super::evidence::{fails_for_real, some_of};
use super::{Finding, Findings, Grade, Severity, Subject};
use crate::api::{Skyhook, Status};
use crate::cluster::Cluster;
use crate::cluster::order::Gate;

rule! {
    /// A custom resource waits on a node for an earlier one.
    ///
    /// # What it means
    ///
    /// Custom resources run one after the other on a node, by priority and then by name. An earlier
    /// one is not done, so this one does not start. With `sequencing: all` the earlier one has to be
    /// done on all of its nodes first, also for nodes that it does not select.
    ///
    /// # How it comes about
    ///
    /// This is how it should be while the earlier one gets on. It is a warning where that one fails,
    /// is blocked, or is paused: then this one waits as long as that lasts. A disabled one holds up
    /// nobody.
    ///
    /// # How to confirm
    ///
    /// The node's status is `waiting`, and a custom resource with a lower priority number is not
    /// complete there.
    ///
    /// # How to fix
    ///
    /// Treat the earlier one; what is wrong with it is a finding of its own. Or disable it, and the
    /// later ones go on without it.
    ///
    /// # Since
    ///
    /// Operators v0.8.0 and later; `sequencing: all` since v0.14.0.
    SKY302 "waits-for-earlier" Warning needs Skyhooks Nodes
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    for skyhook in cluster.skyhooks.items().iter().filter(|s| s.runs()) {
        if let Some(gate) = cluster.gate_everywhere(skyhook) {
            let waiting: Vec<&str> = cluster
                .selected(skyhook)
                .filter(|n| !cluster.is_complete_on(skyhook, n))
                .map(|n| n.name.as_str())
                .collect();
            if waiting.is_empty() {
                continue;
            }
            let root = gate.skyhook;
            let trouble = cluster
                .selected(root)
                .filter(|n| !cluster.is_complete_on(root, n))
                .find_map(|node| trouble(cluster, Gate { node, ..gate }));
            let finding = findings.report(
                Subject::skyhook(skyhook),
                format!(
                    "{} waits for {}, which has to be done on all of its nodes first{}",
                    skyhook.reference(),
                    root.reference(),
                    suffix(trouble.as_deref())
                ),
            );
            finding
                .evidence(root.reference(), "spec.sequencing", "all")
                .evidence(root.reference(), "not complete on", &gate.node.name)
                .evidence("nodes", "waiting", some_of(&waiting));
            close(finding, root, trouble.as_deref());
            continue;
        }
        for node in cluster.selected(skyhook) {
            if cluster.is_complete_on(skyhook, node) {
                continue;
            }
            let Some(gate) = cluster.gate_on(skyhook, node) else {
                continue;
            };
            let root = gate.skyhook;
            let trouble = trouble(cluster, gate);
            let finding = findings.report(
                Subject::node(&node.name, Some(skyhook.name())),
                format!(
                    "{} waits for {}, which goes first{}",
                    skyhook.reference(),
                    root.reference(),
                    suffix(trouble.as_deref())
                ),
            );
            let on = cluster.on_node(node, root.name());
            let progress = root.progress(on);
            finding
                .evidence(
                    root.reference(),
                    "priority",
                    format!("{}, before {}", root.order().0, skyhook.order().0),
                )
                .evidence(
                    format!("node/{}", node.name),
                    root.reference(),
                    format!(
                        "{} of {} packages complete",
                        progress.complete, progress.total
                    ),
                );
            close(finding, root, trouble.as_deref());
        }
    }
}

/// Why the earlier one does not get on, if so.
fn trouble(cluster: &Cluster, gate: Gate<'_>) -> Option<String> {
    let (root, node) = (gate.skyhook, gate.node);
    let on = cluster.on_node(node, root.name());
    let status = on.map_or(Status::Unknown, |on| on.operator_status());
    let fails = on.is_some_and(|on| fails_for_real(root, on));
    if root.paused() {
        Some("is paused".to_owned())
    } else if fails && status != Status::InProgress {
        Some("fails there".to_owned())
    } else if node.ignored(cluster.generation()) {
        Some("leaves an ignored node alone".to_owned())
    } else if status == Status::Blocked || cluster.policy_missing(root) {
        Some("is blocked".to_owned())
    } else if cluster.compartment_stopped(root, node) {
        Some("has stopped its rollout".to_owned())
    } else {
        None
    }
}

fn suffix(trouble: Option<&str>) -> String {
    trouble.map_or(String::new(), |t| format!(" and {t}"))
}

fn close(finding: &mut Finding, root: &Skyhook, trouble: Option<&str>) {
    finding.waits_for(root.name());
    if trouble.is_none() {
        finding.severity(Severity::Info);
        return;
    }
    finding.remedy(
        Grade::B0,
        "See how the earlier one stands",
        ["node", "list", "--skyhook", root.name()],
    );
    finding
        .remedy(
            Grade::B1,
            "Disable it, so that later ones go on without it",
            ["disable", root.name()],
        )
        .caveat("it is not finished then, and later ones may count on what it installs");
    if root.paused() {
        finding
            .remedy(Grade::B3, "Or resume it", ["resume", root.name()])
            .caveat("its packages run, with the interrupts that they have");
    }
}
