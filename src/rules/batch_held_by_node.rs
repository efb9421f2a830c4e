use std::collections::BTreeMap;

use super::evidence::{fails_for_real, some_of};
use super::{Findings, Grade, Severity, Subject};
use crate::api::{Skyhook, Status};
use crate::cluster::{Cluster, Executions, Node, Source};

rule! {
    /// A node that does not get on holds up the whole batch.
    ///
    /// # What it means
    ///
    /// The operator finishes the nodes of a batch before it forms the next. A node of the batch that
    /// fails, is ignored or is blocked by a taint never finishes, so no other node of the
    /// compartment is started, whatever the budget says. Nodes that join later wait as well.
    ///
    /// # How it comes about
    ///
    /// The node went bad, or was ignored or tainted, after it had been chosen.
    ///
    /// # How to confirm
    ///
    /// `status.nodePriority` lists the node, its status is `erroring` or `blocked`, no node is in
    /// progress, and others with work left wait.
    ///
    /// # How to fix
    ///
    /// Repair the node, or take it out of the batch: the next batch then forms without it.
    ///
    /// # Since
    ///
    /// Operators v0.15.0 and later; from v0.20.0 on an ignored or tainted node holds no place any
    /// more (upstream issue 585), and a failing one is only a warning here.
    SKY305 "batch-held-by-node" Error needs Skyhooks Nodes, also Policies Pods Jobs
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    if cluster.operator_before(0, 15) {
        return;
    }
    let executions = cluster.executions();
    for skyhook in cluster.skyhooks.items().iter().filter(|s| s.runs()) {
        if skyhook.status.node_priority.is_empty() {
            continue;
        }
        if cluster.policy_not_read(skyhook) {
            findings.depends_on(Source::Policies);
        }
        let mut standing: BTreeMap<&str, Compartment<'_>> = BTreeMap::new();
        for name in skyhook.status.node_priority.keys() {
            let selector = &skyhook.spec.node_selectors;
            let Some(node) = cluster.node(name).filter(|n| selector.matches(&n.labels)) else {
                continue;
            };
            let Some(compartment) = cluster.compartment_of(skyhook, node) else {
                continue;
            };
            let Some(why) = does_not_get_on(cluster, skyhook, node) else {
                continue;
            };
            if cluster.is_complete_on(skyhook, node) || cluster.compartment_stopped(skyhook, node) {
                continue;
            }
            let compartment = standing
                .entry(compartment)
                .or_insert_with(|| Compartment::of(cluster, &executions, skyhook, compartment));
            if !compartment.moves && !compartment.waiting.is_empty() {
                report(cluster, findings, skyhook, node, why, &compartment.waiting);
            }
        }
    }
}

/// How a compartment stands.
struct Compartment<'a> {
    /// Some node of it may still get on.
    moves: bool,
    /// Nodes that could be started and are not in the batch.
    waiting: Vec<&'a str>,
}

impl<'a> Compartment<'a> {
    fn of(
        cluster: &'a Cluster,
        executions: &Executions<'a>,
        skyhook: &'a Skyhook,
        name: &str,
    ) -> Compartment<'a> {
        let within = |n: &Node| cluster.compartment_of(skyhook, n) == Some(name);
        let batch = &skyhook.status.node_priority;
        Compartment {
            moves: cluster
                .selected(skyhook)
                .filter(|n| within(n))
                .any(|n| may_move(cluster, executions, skyhook, n)),
            waiting: cluster
                .open_nodes(skyhook)
                .into_iter()
                .filter(|n| within(n) && !batch.contains_key(&n.name))
                .map(|n| n.name.as_str())
                .collect(),
        }
    }
}

fn report(
    cluster: &Cluster,
    findings: &mut Findings,
    skyhook: &Skyhook,
    node: &Node,
    why: &str,
    waiting: &[&str],
) {
    let finding = findings.report(
        Subject::node(&node.name, Some(skyhook.name())),
        format!(
            "{why} and holds its place in the batch of {}, so no other node is started",
            skyhook.reference()
        ),
    );
    // How newer operators choose around a failing node is not known for certain.
    if !cluster.operator_before(0, 20) {
        finding.severity(Severity::Warning);
    }
    let joined = skyhook.status.node_priority.get(&node.name);
    finding
        .holds_up(waiting)
        .since(joined.copied().flatten())
        .evidence(skyhook.reference(), "status.nodePriority", &node.name)
        .evidence("nodes", "in progress", "none")
        .evidence("nodes", "waiting", some_of(waiting));
    let name = node.name.as_str();
    if why == FAILS {
        finding.remedy(
            Grade::B0,
            "See why it fails, and repair it",
            ["node", "status", name],
        );
    }
    let out = format!(r#"{{"status":{{"nodePriority":{{"{name}":null}}}}}}"#);
    finding
        .kubectl(
            Grade::B2,
            "Take the node out of the batch, so that the next one forms without it",
            [
                "patch",
                &cluster.generation().resource(),
                skyhook.name(),
                "--subresource=status",
                "--type=merge",
                "-p",
                &out,
            ],
        )
        .caveat("the next batch starts at once; the node itself may be chosen again later");
    if node.ignored(cluster.generation()) {
        finding
            .remedy(Grade::B3, "Or stop ignoring it", ["node", "unignore", name])
            .caveat("packages run there at once, with the interrupts that they have");
    }
}

/// Whether the batch may still get on with another node: one at work, or one between two stages.
fn may_move<'a>(
    cluster: &'a Cluster,
    executions: &Executions<'a>,
    skyhook: &Skyhook,
    node: &'a Node,
) -> bool {
    let in_batch = skyhook.status.node_priority.contains_key(&node.name);
    is_in_progress(cluster, skyhook, node)
        || executions
            .on(skyhook.name(), &node.name)
            .any(|e| e.alive() && does_not_get_on(cluster, skyhook, node).is_none())
        || (in_batch
            && !cluster.is_complete_on(skyhook, node)
            && does_not_get_on(cluster, skyhook, node).is_none())
}

fn is_in_progress(cluster: &Cluster, skyhook: &Skyhook, node: &Node) -> bool {
    let on = cluster.on_node(node, skyhook.name());
    on.is_some_and(|on| on.operator_status() == Status::InProgress)
}

const FAILS: &str = "fails";

fn does_not_get_on(cluster: &Cluster, skyhook: &Skyhook, node: &Node) -> Option<&'static str> {
    let on = cluster.on_node(node, skyhook.name())?;
    let status = on.operator_status();
    let holds_while_blocked = cluster.operator_before(0, 20);
    if status == Status::Erroring {
        // In the middle of a reboot a node is called erroring as well.
        fails_for_real(skyhook, on).then_some(FAILS)
    } else if !holds_while_blocked {
        None
    } else if node.ignored(cluster.generation()) {
        Some("is ignored")
    } else if status == Status::Blocked && !cluster.untolerated_by(skyhook, node).is_empty() {
        Some("is blocked by a taint")
    } else {
        None
    }
}
