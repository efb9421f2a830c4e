//! Standstills of custom resources on nodes, for the rules about waiting batches and custom resources.

use std::collections::HashMap;
use std::rc::Rc;

use super::evidence::fails_outside_reboot;
use super::node_troubles::NodeTroubles;
use crate::api::{Skyhook, Status};
use crate::cluster::{Cluster, Node, PackageRuns};
use crate::model::{Batch, Model, behavior};
use crate::rules::{Finding, Findings, Finds, Severity};

/// The reason why a node or a custom resource makes no progress.
#[derive(Debug, Clone)]
pub struct Trouble {
    /// A predicate without its subject: `is paused`.
    pub why: String,
    pub severity: Severity,
    /// Whether the cause has to be repaired on the node.
    pub on_node: bool,
    /// Whether the problem lasts until someone intervenes.
    pub permanent: bool,
}

impl Trouble {
    fn new(why: impl Into<String>, severity: Severity) -> Trouble {
        Trouble { why: why.into(), severity, on_node: false, permanent: true }
    }

    fn permanent(self, permanent: bool) -> Trouble {
        Trouble { permanent, ..self }
    }
}

/// The reason why a node of a batch does not finish without help; `None` if it may. A warning is uncertain.
pub fn stuck_in_batch(
    cluster: &Cluster,
    troubles: &NodeTroubles,
    skyhook: &Skyhook,
    node: &Node,
) -> Option<Trouble> {
    let on = cluster.on_node(node, skyhook.name());
    let status = cluster.status_on(skyhook, node);
    let holds_while_blocked = behavior::blocked_nodes_keep_places(cluster);
    // Exclude nodes that are only in the middle of a reboot: their status is erroring as well.
    if status == Status::Erroring && on.is_some_and(|on| fails_outside_reboot(skyhook, on)) {
        // Only a warning for newer operators: it is uncertain which nodes they choose while a node fails, and
        // a Job may retry.
        let cause = troubles.gravest_on(skyhook.name(), &node.name);
        let fails = cause.is_some_and(|f| f.severity == Severity::Error);
        let severity = if holds_while_blocked && fails { Severity::Error } else { Severity::Warning };
        return Some(Trouble { on_node: true, ..Trouble::new("fails", severity) });
    }
    if node.ignored(cluster.flavor()) {
        return holds_while_blocked.then(|| Trouble::new("is ignored", Severity::Error));
    }
    if status == Status::Blocked && !cluster.untolerated_by(skyhook, node).is_empty() {
        return holds_while_blocked.then(|| Trouble::new("is blocked by a taint", Severity::Error));
    }
    let cause = troubles.gravest_on(skyhook.name(), &node.name)?;
    Some(Trouble {
        on_node: true,
        ..Trouble::new(format!("makes no progress ({} {})", cause.rule.code, cause.rule.name), cause.severity)
    })
}

/// Whether no node of a compartment can make progress: apart from stuck nodes, none has running work, and
/// none of the batch is between two stages. Nodes that wait for an earlier custom resource, and nodes of
/// `Batch::passed_over`, which wait for nodes in progress, do not count as between two stages.
pub fn stands_still<'a>(
    cluster: &Cluster,
    model: &Model<'a>,
    troubles: &NodeTroubles,
    package_runs: &PackageRuns<'a>,
    skyhook: &Skyhook,
    batch: &Batch<'a>,
) -> bool {
    let moves = |node: &'a Node| {
        let on = cluster.on_node(node, skyhook.name());
        let work = on.is_some_and(|on| on.operator_status() == Status::InProgress)
            || package_runs.any_alive_on(skyhook, node);
        let next = skyhook.status.node_priority.contains_key(&node.name)
            && model.predecessor_on(skyhook, node).is_none()
            && batch.passed_over.iter().all(|n| n.name != node.name);
        (work || next) && stuck_in_batch(cluster, troubles, skyhook, node).is_none()
    };
    !batch.incomplete().any(moves)
}

/// Severity of a standstill, and whether it needs intervention. Ordered by severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct HoldSeverity {
    severity: Severity,
    permanent: bool,
}

impl HoldSeverity {
    fn of(finding: &Finding) -> HoldSeverity {
        HoldSeverity { severity: finding.severity, permanent: finding.permanent }
    }
}

/// Causes that keep custom resources waiting: problems on nodes, blocked batches and blocked deletions.
pub struct Standstill<'c> {
    model: Rc<Model<'c>>,
    troubles: Rc<NodeTroubles>,
    /// Nodes that are not chosen because a batch is blocked, by custom resource and node.
    held: HashMap<(String, String), HoldSeverity>,
    /// Custom resources whose deletion makes no progress on some node. Finished nodes keep waiting for the
    /// deletion.
    deletions: HashMap<String, HoldSeverity>,
}

impl<'c> Standstill<'c> {
    /// Collects the problems and the blocked nodes from the findings of other rules.
    pub fn of(cluster: &Cluster, findings: &Findings<'c>) -> Standstill<'c> {
        let troubles = findings.troubles(cluster);
        let deleted = cluster.skyhooks.items().iter().filter(|s| s.deleting());
        let deletions = deleted.filter_map(|s| {
            let gravest = troubles.of_skyhook(s.name()).map(HoldSeverity::of).max()?;
            Some((s.name().to_owned(), gravest))
        });
        let deletions = deletions.collect();
        let mut standstill =
            Standstill { model: findings.model(), deletions, troubles, held: HashMap::new() };
        for rule in findings.other_rules(Finds::HeldNodes) {
            for finding in findings.of_rule(rule, cluster).iter() {
                standstill.hold(finding);
            }
        }
        standstill
    }

    pub fn troubles(&self) -> &NodeTroubles {
        &self.troubles
    }

    /// Records that the nodes blocked by a finding are not chosen for its custom resource.
    pub fn hold(&mut self, finding: &Finding) {
        let Some(skyhook) = &finding.subject.skyhook else {
            return;
        };
        for node in &finding.blocked_nodes {
            let held = self.held.entry((skyhook.clone(), node.clone()));
            let gravest = held.or_insert(HoldSeverity::of(finding));
            *gravest = HoldSeverity::of(finding).max(*gravest);
        }
    }

    /// The reason why an earlier custom resource makes no progress on a node; `None` if it makes progress.
    pub fn trouble(&self, cluster: &Cluster, root: &Skyhook, node: &Node) -> Option<Trouble> {
        let on = cluster.on_node(node, root.name());
        let status = cluster.status_on(root, node);
        let fails = on.is_some_and(|on| fails_outside_reboot(root, on));
        let cause = self.troubles.gravest_on(root.name(), &node.name);
        let severity = cause.map_or(Severity::Warning, |f| f.severity);
        // Without a known cause, the failure may be retried or is about to be cleared.
        let permanent = cause.is_some_and(|f| f.permanent);
        let held = || {
            let key = (root.name().to_owned(), node.name.to_string());
            self.held.get(&key).copied()
        };
        if root.paused() {
            Some(Trouble::new("is paused", Severity::Warning))
        } else if fails && status != Status::InProgress {
            Some(Trouble::new("fails there", severity).permanent(permanent))
        } else if node.ignored(cluster.flavor()) {
            Some(Trouble::new("skips the ignored node", Severity::Warning))
        } else if cluster.policy_missing(root) {
            Some(Trouble::new("is blocked", Severity::Error))
        } else if status == Status::Blocked {
            Some(Trouble::new("is blocked", severity).permanent(permanent))
        } else if self.model.is_stopped(root, node) {
            Some(Trouble::new("has a stopped rollout", Severity::Error))
        } else if let Some(cause) = cause {
            let why = format!("makes no progress there ({} {})", cause.rule.code, cause.rule.name);
            Some(Trouble::new(why, severity).permanent(permanent))
        } else if let Some(held) = self.deletions.get(root.name()) {
            let why = "is being deleted, but the deletion makes no progress on other nodes";
            Some(Trouble::new(why, held.severity).permanent(held.permanent))
        } else {
            held().map(|held| {
                let why = "does not choose the node because its current batch is blocked";
                Trouble::new(why, held.severity).permanent(held.permanent)
            })
        }
    }
}
