use std::collections::{BTreeMap, BTreeSet};

use super::evidence::{pods_on_node, some_of};
use super::{Findings, Grade, Severity, Subject};
use crate::api::{Condition, Skyhook};
use crate::cluster::drain::{Drain, is_evicted};
use crate::cluster::pod::{DisruptionBudget, Pod};
use crate::cluster::{Absence, Cluster};

rule! {
    /// A node cannot be drained for an interrupt.
    ///
    /// # What it means
    ///
    /// Before a package interrupts a node the operator evicts the pods there, and a disruption
    /// budget, or a pod that nobody would make again, refuses. Up to v0.19.1 the refusal aborts the
    /// operator's whole pass: the node is often not even cordoned, later nodes wait too, and nothing
    /// but the operator's log says why. From v0.19.0 on the operator waits until the evicted pods
    /// have ended, too.
    ///
    /// # How it comes about
    ///
    /// A disruption budget allows no disruption though all its pods are well (`minAvailable` equal
    /// to the number of replicas, or a single replica). Or an evicted pod does not end: a finalizer
    /// on it, a volume that cannot be unmounted, a container that cannot be killed.
    ///
    /// # How to confirm
    ///
    /// The package with the interrupt is not complete and runs nothing on the node, and a budget
    /// with `disruptionsAllowed: 0` covers a pod there, or a pod there has an old deletion timestamp.
    /// Newer operators set the condition `DrainBlocked` and the node annotation `drainBlocked_NAME`.
    /// Where only the condition says so, its message names the pod.
    ///
    /// # How to fix
    ///
    /// Scale the workload up or move it, or relax its budget until the node is drained. Help a pod
    /// that does not end. The operator tries again by itself. Ignoring the node lets the others go first.
    ///
    /// # Since
    ///
    /// All operators; the condition since v0.20.0.
    SKY401 "drain-blocked" Error needs Skyhooks Nodes Workloads DisruptionBudgets, also Pods Jobs
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let known = cluster.workloads.ok().is_some()
        && cluster.disruption_budgets.ok().is_some()
        && cluster.absence_of_executions() != Absence::Unknown;
    let workloads = cluster.workloads_by_node();
    let overdue = cluster.overdue_by_node();
    let waits_for_end = !cluster.operator_before(0, 19);
    let mut told: BTreeSet<&str> = BTreeSet::new();
    for drain in cluster.drains() {
        let name = drain.skyhook.name();
        let on = cluster.on_node(drain.node, name);
        let annotation = on.and_then(|on| on.drain_blocked.as_deref());
        let evicts = drain.skyhook.spec.drain_config.disable_eviction != Some(true);
        let pods = workloads.get(drain.node.name.as_str());
        let held = pods
            .filter(|_| known && evicts)
            .map_or_else(BTreeMap::new, |pods| by_budget(cluster, pods));
        let condition = drain
            .skyhook
            .true_condition("DrainBlocked")
            .filter(|_| annotation.is_some() || on.is_some_and(|on| on.drain_start.is_some()));
        let said = annotation.is_some() || condition.is_some();
        let drains = on.is_some_and(|on| on.cordon || on.drain_start.is_some());
        let leaving = overdue
            .get(drain.node.name.as_str())
            .filter(|_| waits_for_end && drains);
        let leaving = leaving.into_iter().flatten().copied();
        let leaving: Vec<&Pod> = leaving.filter(|p| is_evicted(p)).collect();
        if held.is_empty() && leaving.is_empty() && !said {
            continue;
        }
        let for_good = held.values().any(|(budget, _)| budget.refuses_for_good());
        let sure = for_good || !leaving.is_empty() || (said && held.is_empty());
        // A budget that will let pods go again, on a node whose turn has not come, is nothing yet.
        if !sure && !drain.begun {
            continue;
        }
        let finding = findings.report(
            Subject::node(&drain.node.name, Some(name)).package(drain.package),
            message(&drain, &held, &leaving, sure),
        );
        if !(sure && drain.begun) {
            finding.severity(Severity::Warning);
        } else if cluster.operator_before(0, 20) {
            // The refusal ends the pass: later nodes and custom resources do not get their turn.
            finding.stops_all();
        }
        if drain.begun {
            told.insert(name);
        }
        for (path, (budget, pods)) in &held {
            let status = &budget.status;
            finding.evidence(
                format!("poddisruptionbudget/{path}"),
                "disruptionsAllowed",
                format!(
                    "{}; {} healthy, {} required",
                    status.disruptions_allowed, status.current_healthy, status.desired_healthy
                ),
            );
            finding.evidence(
                format!("poddisruptionbudget/{path}"),
                "holds pods",
                some_of(&pods.iter().map(String::as_str).collect::<Vec<_>>()),
            );
        }
        for pod in leaving.iter().take(SHOWN) {
            let object = format!("pod/{}", pod.path());
            let deleted = pod.metadata.deletion_timestamp.unwrap_or_default();
            finding.since(Some(deleted)).evidence(
                &object,
                "deletionTimestamp",
                deleted.to_string(),
            );
            if !pod.metadata.finalizers.is_empty() {
                finding.evidence(object, "finalizers", pod.metadata.finalizers.join(", "));
            }
        }
        if let Some(text) = annotation {
            let key = cluster.generation().key(&format!("drainBlocked_{name}"));
            finding.evidence(format!("node/{}", drain.node.name), key, text);
        }
        if let Some(condition) = condition {
            finding.since(condition.last_transition_time).evidence(
                drain.skyhook.reference(),
                "condition DrainBlocked",
                format!("{}: {}", condition.reason, condition.message),
            );
        }
        remedies(finding, &drain, &held, leaving.first().copied());
    }
    let skyhooks = cluster.skyhooks.items().iter().filter(|s| s.runs());
    for skyhook in skyhooks.filter(|s| !told.contains(s.name())) {
        if let Some(condition) = skyhook.true_condition("DrainBlocked") {
            on_its_word(findings, skyhook, condition);
        }
    }
}

/// The operator says that a drain is blocked, and we do not see which.
fn on_its_word(findings: &mut Findings, skyhook: &Skyhook, condition: &Condition) {
    let finding = findings.report(
        Subject::skyhook(skyhook),
        format!(
            "the operator says that a drain for {} is blocked",
            skyhook.reference()
        ),
    );
    finding
        .since(condition.last_transition_time)
        .evidence(
            skyhook.reference(),
            "condition DrainBlocked",
            format!("{}: {}", condition.reason, condition.message),
        )
        .remedy(
            Grade::B0,
            "See which node is at work",
            ["node", "status", "--skyhook", skyhook.name()],
        )
        .kubectl(
            Grade::B0,
            "See the pods there, and remove what the condition names",
            ["get", "pods", "-A", "-o", "wide"],
        )
        .caveat("the operator tries again by itself");
}

/// So many of the pods that do not end are evidence.
const SHOWN: usize = 5;

type Held<'a> = BTreeMap<String, (&'a DisruptionBudget, Vec<String>)>;

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

fn message(drain: &Drain<'_>, held: &Held<'_>, leaving: &[&Pod], sure: bool) -> String {
    let package = drain.package;
    let what = match held.keys().next() {
        Some(path) if held.len() == 1 => {
            format!("disruption budget {path} lets no pod go")
        }
        Some(_) => format!("{} disruption budgets let no pod go", held.len()),
        None if leaving.len() == 1 => {
            format!("pod {} was told to go and does not end", leaving[0].path())
        }
        None if !leaving.is_empty() => {
            format!("{} pods were told to go and do not end", leaving.len())
        }
        None => "the operator says that its drain is blocked".to_owned(),
    };
    match (sure, drain.begun) {
        (true, true) => {
            format!("{what}, so the node cannot be drained for the interrupt of package {package}")
        }
        (true, false) => {
            format!("{what}: the drain for the interrupt of package {package} will be refused here")
        }
        (false, _) => format!(
            "{what} while some of its pods are not healthy, and the interrupt of package \
             {package} waits for the drain"
        ),
    }
}

fn remedies(
    finding: &mut super::Finding,
    drain: &Drain<'_>,
    held: &Held<'_>,
    leaving: Option<&Pod>,
) {
    pods_on_node(finding, "See what runs on the node", &drain.node.name);
    if let Some(pod) = leaving {
        finding.kubectl(
            Grade::B0,
            "See what keeps the pod from ending",
            ["describe", "pod", "-n", pod_namespace(pod), pod.name()],
        );
    }
    // A deletion waits for the node, be it left out or not.
    if !drain.skyhook.deleting() {
        finding
            .remedy(
                Grade::B1,
                "Leave the node out for now, so that the others go on",
                ["node", "ignore", &drain.node.name],
            )
            .caveat(
                "every custom resource leaves the node alone until it is unignored; before v0.20 an ignored node of \
                 a batch holds that batch up",
            );
    }
    if let Some((budget, _)) = held.values().next() {
        let namespace = budget.metadata.namespace.as_deref().unwrap_or_default();
        finding
            .kubectl(
                Grade::B3,
                "Or relax the budget until the node is drained, or scale its workload up",
                [
                    "edit",
                    "poddisruptionbudget",
                    "-n",
                    namespace,
                    &budget.metadata.name,
                ],
            )
            .caveat("the pods are then evicted as soon as the operator tries again");
    }
    if let Some(pod) = leaving {
        let namespace = pod_namespace(pod);
        if pod.metadata.finalizers.is_empty() {
            finding
                .kubectl(
                    Grade::B3,
                    "If its node is down or its runtime hangs, delete it by force",
                    [
                        "delete",
                        "pod",
                        "-n",
                        namespace,
                        pod.name(),
                        "--force",
                        "--grace-period=0",
                    ],
                )
                .caveat(
                    "its containers may still run on the node while a successor starts elsewhere",
                );
        } else {
            finding
                .kubectl(
                    Grade::B3,
                    "If whoever set its finalizers is gone, remove them",
                    ["edit", "pod", "-n", namespace, pod.name()],
                )
                .caveat("what the finalizers were to clean up stays");
        }
    }
}

fn pod_namespace(pod: &Pod) -> &str {
    pod.metadata.namespace.as_deref().unwrap_or_default()
}
