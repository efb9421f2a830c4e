use std::collections::{BTreeMap, BTreeSet};

use super::drain_remedies::{Held, remedies};
use super::evidence::some_of;
use super::{Blocks, Findings, Grade, Severity, Subject};
use crate::api::{Condition, Skyhook};
use crate::cluster::DisruptionBudget;
use crate::cluster::drain::{Drain, is_evicted};
use crate::cluster::pod::Pod;
use crate::cluster::refusal::Refusal;
use crate::cluster::{Certainty, Cluster, Node, NodeRecord};
use crate::view::plural;

rule! {
    /// A node cannot be drained for an interrupt.
    ///
    /// # What it means
    ///
    /// Before a package interrupts a node, the operator evicts the pods there, but a disruption
    /// budget, or a pod that no controller would recreate, prevents it. Up to v0.19.1 this aborts the
    /// operator's whole pass: the node is often not even cordoned, later nodes wait too, and only
    /// the operator's log says why. From v0.19.0 on the operator also waits until the evicted pods
    /// have ended.
    ///
    /// # What causes it
    ///
    /// A disruption budget allows no disruption although all its pods are healthy (`minAvailable` equal
    /// to the number of replicas, or a single replica). With `drainConfig.force: false` a pod without a
    /// controller is not evicted, with `deleteEmptyDirData: false` one with data in an `emptyDir`
    /// volume. Or an evicted pod does not end: a finalizer
    /// on it, a volume that cannot be unmounted, a container that cannot be killed.
    ///
    /// # How to confirm
    ///
    /// The package with the interrupt is not complete and no pod of it runs on the node, and a budget
    /// with `disruptionsAllowed: 0` covers a pod there, or a pod there has an old deletion timestamp.
    /// From v0.20.0 on the annotation `drainBlocked_NAME` of the node names the pods. It stays until the
    /// operator tries again, half a minute later, so the pods it names may no longer be the cause. The condition
    /// `DrainBlocked` of the custom resource does not mean that every node is blocked.
    ///
    /// # How to fix
    ///
    /// Scale the workload up or move it, or relax its budget until the node is drained. Delete a pod
    /// without a controller, or let the operator evict it. Fix a pod that does not terminate. The operator retries automatically. Ignoring the node lets the others go first.
    ///
    /// # Since
    ///
    /// All operators; the condition since v0.20.0.
    SKY401 "drain-blocked" Error needs Skyhooks Nodes Workloads DisruptionBudgets, also Pods Jobs,
        blocks Install Uninstall Reconcile
}

/// What it blocks where the operator continues with other nodes.
const HERE: &[Blocks] = &[Blocks::Install, Blocks::Uninstall];

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let known = cluster.workloads.ok().is_some()
        && cluster.disruption_budgets.ok().is_some()
        && cluster.certainty_of_no_package_run() != Certainty::Unknown;
    let workloads = cluster.workloads_by_node();
    let overdue = cluster.overdue_by_node();
    let waits_for_end = !cluster.operator_before(0, 19);
    let mut reported: BTreeSet<&str> = BTreeSet::new();
    let mut blocked = Vec::new();
    for drain in cluster.drains() {
        let name = drain.skyhook.name();
        let on = cluster.on_node(drain.node, name);
        if on.is_some_and(|on| on.drain_timed_out()) {
            reported.insert(name);
            continue;
        }
        let noted = on.map_or_else(Vec::new, |on| {
            cluster.refusals_in_force(drain.skyhook, drain.node, on)
        });
        let evicts = drain.skyhook.spec.drain_config.disable_eviction != Some(true);
        let pods = workloads.get(drain.node.name.as_str());
        let held = pods
            .filter(|_| known && evicts)
            .map_or_else(BTreeMap::new, |pods| by_budget(cluster, pods));
        let drains = on.is_some_and(|on| on.cordon || on.drain_start.is_some());
        let leaving = overdue
            .get(drain.node.name.as_str())
            .filter(|_| waits_for_end && drains);
        let leaving = leaving.into_iter().flatten().copied();
        let leaving: Vec<&Pod> = leaving.filter(|p| is_evicted(p)).collect();
        if let Some(state) = drain_state(cluster, &drain, on, &noted, &held, &leaving) {
            blocked.push((drain, noted, held, leaving, state));
        }
    }
    let others = others_held_up(cluster, blocked.iter().map(|(drain, ..)| drain));
    for (drain, noted, held, leaving, drain_state) in blocked {
        let name = drain.skyhook.name();
        let on = cluster.on_node(drain.node, name);
        // An older operator ends its pass over the refusal: later nodes and custom resources do not get their turn.
        let ends_reconciles = drain_state == DrainState::Blocked && cluster.operator_before(0, 20);
        let says = |what: &str| {
            let says = consequence(what, &drain, &held, drain_state);
            if ends_reconciles {
                format!(
                    "{says}; until it can be drained, every reconcile by the operator ends there"
                )
            } else {
                says
            }
        };
        let finding = findings.report(
            Subject::node(&drain.node.name, Some(name)).package(drain.package),
            says(&cause(&noted, &held, &leaving)),
        );
        if held.is_empty() {
            finding.alike(says(&alike(&noted, &leaving)));
        }
        if drain_state != DrainState::Blocked {
            finding.severity(Severity::Warning);
        }
        if !ends_reconciles {
            finding.blocks_only(HERE);
        }
        if drain.begun {
            reported.insert(name);
        }
        for (path, (budget, pods)) in &held {
            finding.evidence(
                format!("poddisruptionbudget/{path}"),
                "disruptionsAllowed",
                budget.allows(),
            );
            finding.evidence(
                format!("poddisruptionbudget/{path}"),
                "selects pods",
                some_of(pods),
            );
        }
        for pod in leaving.iter().take(SHOWN) {
            let object = format!("pod/{}", pod.path());
            let deleted = pod.metadata.deletion_timestamp.unwrap_or_default();
            finding
                .since(Some(deleted))
                .evidence(&object, "deletionTimestamp", deleted)
                .finalizers(object, &pod.metadata);
        }
        if let Some(on) = on.filter(|_| !noted.is_empty()) {
            let object = drain.node.reference();
            let key = |name_of: &str| cluster.flavor().key(&format!("{name_of}_{name}"));
            if let Some(start) = &on.drain_start {
                finding.since(start.parse().ok());
                finding.evidence(&object, key("drainStart"), start);
            }
            let text = on.drain_blocked.as_deref().unwrap_or_default();
            finding.evidence(object, key("drainBlocked"), text);
        }
        remedies(
            finding,
            cluster,
            &drain,
            &noted,
            &held,
            leaving.first().copied(),
            others.contains(name),
        );
    }
    let skyhooks = cluster.skyhooks.items().iter().filter(|s| s.runs());
    for skyhook in skyhooks.filter(|s| !reported.contains(s.name())) {
        if let Some(condition) = skyhook.true_condition("DrainBlocked") {
            report_condition(cluster, findings, skyhook, condition);
        }
    }
}

/// How sure it is that a drain is blocked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DrainState {
    /// It is, and trying again does not help.
    Blocked,
    /// It is now, and the next attempt may succeed.
    MayPass,
    /// It has not come to the node yet, and will be then.
    Ahead,
}

/// Operators since v0.20.0 note refusals on the node itself; of others only the budgets tell.
fn drain_state(
    cluster: &Cluster,
    drain: &Drain<'_>,
    on: Option<&NodeRecord>,
    noted: &[Refusal],
    held: &Held<'_>,
    leaving: &[&Pod],
) -> Option<DrainState> {
    let for_good = held.values().any(|(budget, _)| budget.refuses_for_good());
    if !leaving.is_empty() && drain.begun {
        return Some(DrainState::Blocked);
    }
    if !noted.is_empty() {
        // What refused before the drain began refuses the next attempt, too.
        let start = on.and_then(NodeRecord::draining_since);
        let before = |budget: &DisruptionBudget| start.is_some_and(|at| budget.refused_before(at));
        let young = on.is_some_and(|on| cluster.refusal_is_young(on))
            && !held.values().any(|(budget, _)| before(budget));
        let lasts = for_good || held.is_empty();
        return Some(if lasts && !young {
            DrainState::Blocked
        } else {
            DrainState::MayPass
        });
    }
    match (for_good, drain.begun) {
        (true, true) if !cluster.operator_since(0, 20) => Some(DrainState::Blocked),
        (true, _) => Some(DrainState::Ahead),
        // A budget that will let pods go again, on a node whose turn has not come, is nothing yet.
        (false, true) if !held.is_empty() => Some(DrainState::MayPass),
        (false, _) => None,
    }
}

/// The custom resources with a blocked drain over which other nodes wait: those of its batches, and with an older operator,
/// which ends its pass over the refusal, those of all custom resources.
fn others_held_up<'a, 'c: 'a>(
    cluster: &'c Cluster,
    blocked: impl Iterator<Item = &'a Drain<'c>> + Clone,
) -> BTreeSet<&'c str> {
    let nodes: BTreeSet<&str> = blocked.clone().map(|d| d.node.name.as_str()).collect();
    let waits = |skyhook: &Skyhook, node: &Node| {
        !nodes.contains(node.name.as_str())
            && !node.ignored(cluster.flavor())
            && !cluster.is_complete_on(skyhook, node)
    };
    let ends_pass = cluster.operator_before(0, 20);
    let any = || {
        let mut skyhooks = cluster.skyhooks.items().iter().filter(|s| s.runs());
        skyhooks.any(|s| cluster.selected(s).any(|n| waits(s, n)))
    };
    let of_all = ends_pass && !nodes.is_empty() && any();
    let held_up = |skyhook: &Skyhook| {
        of_all
            || !ends_pass
                && cluster
                    .selected(skyhook)
                    .any(|n| waits(skyhook, n) && !cluster.is_taken_up(skyhook, n))
    };
    let skyhooks: BTreeSet<&str> = blocked.map(|d| d.skyhook.name()).collect();
    let resource = |name: &&str| cluster.skyhook(name).is_some_and(held_up);
    skyhooks.into_iter().filter(resource).collect()
}

/// The operator says that a drain is blocked, and we do not see which: no node that we see notes a refusal.
fn report_condition(
    cluster: &Cluster,
    findings: &mut Findings,
    skyhook: &Skyhook,
    condition: &Condition,
) {
    // Where a node notes it, the annotation is more exact: it may be over, and the condition stays until the next attempt.
    let noted = |(_, on): (&Node, &NodeRecord)| on.drain_blocked.is_some();
    if cluster.tracked(skyhook.name()).any(noted) {
        return;
    }
    let finding = findings.report(
        Subject::skyhook(skyhook),
        format!("the operator reports that a drain for {skyhook} is blocked"),
    );
    finding
        .warning_if(!cluster.is_stale(condition.last_transition_time))
        .blocks_only(HERE)
        .since(condition.last_transition_time)
        .evidence(
            skyhook,
            "condition DrainBlocked",
            format!("{}: {}", condition.reason, condition.message),
        )
        .node_status("See which node is being drained", skyhook)
        .kubectl(
            Grade::B0,
            "Find the pods on that node, and fix the problem that condition DrainBlocked reports",
            ["get", "pods", "-A", "-o", "wide"],
        )
        .caveat("the operator retries automatically");
}

/// So many of the pods that do not end are evidence.
const SHOWN: usize = 5;

/// The pods that a drain would evict and may not, by the budget that refuses.
fn by_budget<'a>(cluster: &'a Cluster, pods: &[&Pod]) -> Held<'a> {
    let mut held = Held::new();
    for pod in pods.iter().filter(|p| is_evicted(p)) {
        for budget in cluster.disruption_budgets.items() {
            if budget.holds(pod) {
                let entry = held.entry(budget.path()).or_insert((budget, Vec::new()));
                entry.1.push(pod.path());
            }
        }
    }
    held
}

/// What blocks the drain.
fn cause(noted: &[Refusal], held: &Held<'_>, leaving: &[&Pod]) -> String {
    match held.keys().next() {
        Some(path) if held.len() == 1 => {
            format!("PodDisruptionBudget {path} allows no evictions")
        }
        Some(_) => format!("{} PodDisruptionBudgets allow no evictions", held.len()),
        None if leaving.len() == 1 => {
            format!(
                "pod {} was evicted but does not terminate",
                leaving[0].path()
            )
        }
        None if !leaving.is_empty() => {
            format!(
                "{} were evicted but do not terminate",
                plural(leaving.len(), "pod")
            )
        }
        None => refused(noted),
    }
}

/// What refuses, without the names of pods, which are of one node alone.
fn alike(noted: &[Refusal], leaving: &[&Pod]) -> String {
    if !leaving.is_empty() {
        return "pods were evicted but do not terminate".to_owned();
    }
    let mut pods = noted.iter().filter(|r| !r.name.is_empty());
    pods.next()
        .map_or_else(|| refused(noted), |first| refusal("a pod", &first.reason))
}

/// What follows from it for the drain.
fn consequence(what: &str, drain: &Drain<'_>, held: &Held<'_>, drain_state: DrainState) -> String {
    let package = drain.package;
    match drain_state {
        DrainState::Blocked => {
            format!("{what}, so the node cannot be drained for the interrupt of package {package}")
        }
        DrainState::Ahead => {
            format!("{what}: this will block the drain for the interrupt of package {package}")
        }
        DrainState::MayPass if held.is_empty() => format!(
            "{what}: the drain for the interrupt of package {package} was blocked and will be retried"
        ),
        DrainState::MayPass if held.values().any(|(b, _)| b.refuses_for_good()) => format!(
            "{what}: the drain for the interrupt of package {package} was blocked and will be retried"
        ),
        DrainState::MayPass => format!(
            "{what} while some of the covered pods are not healthy, and the interrupt of package \
             {package} waits for the drain"
        ),
    }
}

/// What the operator noted, in words.
fn refused(noted: &[Refusal]) -> String {
    let Some(first) = noted.iter().find(|r| !r.name.is_empty()) else {
        return "the operator reports that the drain is blocked".to_owned();
    };
    let what = refusal(&format!("pod {}", first.pod()), &first.reason);
    match noted.len() {
        1 => what,
        n => format!(
            "{what} (one of {} that cannot be evicted)",
            plural(n, "pod")
        ),
    }
}

fn refusal(pod: &str, reason: &str) -> String {
    match reason {
        "UnmanagedPod" => format!("{pod} has no controller that would recreate it"),
        "EmptyDirData" => format!("{pod} keeps data in an emptyDir volume"),
        reason => format!("{pod} is not evicted ({reason})"),
    }
}
