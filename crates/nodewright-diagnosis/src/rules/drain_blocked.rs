use std::collections::{BTreeSet, HashMap};

use super::remedies::drain::remedies;
use super::{Blocks, Finding, Findings, Grade, Severity, Subject};
use crate::api::{Condition, Skyhook};
use crate::cluster::drain::{Drain, ObstacleReader, Obstacles};
use crate::cluster::{Cluster, Node, NodeRecord};
use crate::model::profile::{obstacles_end_turn, refused_eviction_ends_turn};
use crate::model::{DrainRefusal, Model, drain_state};
use crate::text::{Joined, NodeSet};

rule! {
    /// A node cannot be drained for an interrupt.
    ///
    /// # What it means
    ///
    /// Before a package interrupts a node, the operator evicts the pods there, but a disruption budget, or a
    /// pod that no controller would recreate, prevents it. Up to v0.19.1 the operator then leaves the custom
    /// resource without recording the refusal: the node is often not even cordoned, the other nodes wait too, and
    /// only the operator's log shows the reason. Other custom resources go on. From v0.19.0 on the operator also
    /// waits until the evicted pods have ended.
    ///
    /// # What causes it
    ///
    /// A disruption budget allows no disruption although all its pods are healthy (`minAvailable` equal to
    /// the number of replicas, or a single replica). With `drainConfig.force: false`, pods without a
    /// controller are not evicted; with `deleteEmptyDirData: false`, pods with data in an `emptyDir` volume
    /// are not evicted. Two budgets select the same pod, which the eviction API always refuses. An admission
    /// webhook refuses the eviction. Or an evicted pod does not end: a finalizer on it, a volume that cannot
    /// be unmounted, a container that cannot be killed.
    ///
    /// While too few pods behind a budget are healthy, the budget also protects its unhealthy pods, unless it
    /// has `unhealthyPodEvictionPolicy: AlwaysAllow`. A pod that crashes again and again then blocks the
    /// drain for good.
    ///
    /// # How to confirm
    ///
    /// The package with the interrupt is not complete, and none of its pods runs on the node. A disruption
    /// budget with `disruptionsAllowed: 0` covers a pod on the node, two budgets cover the same pod, or the
    /// deletion timestamp of a pod is old. If a pod is older than the annotation `drainStart_NAME` and was
    /// not evicted within ten minutes, something refuses its eviction: `kubectl drain --dry-run=server` or
    /// the operator's log shows the reason. From v0.20.0 on, the annotation `drainBlocked_NAME` of the node
    /// names the blocking pods. The annotation stays until the operator tries again, half a minute later, so
    /// these pods may no longer be the cause. The condition `DrainBlocked` of the custom resource does not
    /// mean that every node is blocked.
    ///
    /// # How to fix
    ///
    /// Scale the workload up or move it, or relax its budget until the node is drained. Repair pods that are
    /// not healthy, or let the API server evict them. Leave one budget for each pod. Delete a pod without a
    /// controller, or let the operator evict it. Fix a pod that does not terminate. The operator retries
    /// automatically. Ignore the node to let the other nodes go first.
    ///
    /// # Affected versions
    ///
    /// All operators; the condition since v0.20.0.
    SKY401 "drain-blocked" Error needs Skyhooks Nodes Workloads DisruptionBudgets, also Pods Jobs Webhooks,
        blocks Install Uninstall OtherNodes
}

/// The blocked operations if the operator continues with other nodes.
const HERE: &[Blocks] = &[Blocks::Install, Blocks::Uninstall];

fn detect(_: &Cluster, findings: &mut Findings) {
    let cluster = findings.cluster();
    let reader = ObstacleReader::new(cluster);
    let mut reported: BTreeSet<&str> = BTreeSet::new();
    let mut blocked = Vec::new();
    let mut far: HashMap<&str, BTreeSet<&str>> = HashMap::new();
    for drain in findings.model().drains() {
        let on = cluster.on_node(drain.node, drain.skyhook.name());
        if on.is_some_and(|on| on.drain_timed_out()) {
            reported.insert(drain.skyhook.name());
            continue;
        }
        let obstacles = reader.of(&drain);
        // Until then such pods may be gone, and nodes of later batches wait for those of this one.
        if !drain.begun && obstacles.are_unmanaged() {
            far.entry(drain.skyhook.name()).or_default().insert(&drain.node.name);
        } else if let Some(state) = drain_state(cluster, &drain, &obstacles) {
            blocked.push((drain, obstacles, state));
        }
    }
    let others =
        with_other_nodes_waiting(cluster, &findings.model(), blocked.iter().map(|(drain, ..)| drain), &far);
    let far: HashMap<&str, NodeSet> = far.iter().map(|(name, nodes)| (*name, NodeSet::of(nodes))).collect();
    let mut of_skyhook: HashMap<&str, usize> = HashMap::new();
    blocked.iter().for_each(|(drain, ..)| *of_skyhook.entry(drain.skyhook.name()).or_default() += 1);
    for (drain, obstacles, state) in &blocked {
        let name = drain.skyhook.name();
        if drain.begun {
            reported.insert(name);
        }
        let ends_turn = *state == DrainRefusal::Blocked && obstacles_end_turn(cluster, obstacles);
        let (message, on_any_node) = describe(drain, obstacles, *state, ends_turn);
        let finding =
            findings.report(Subject::node(&drain.node.name, Some(name)).package(drain.package), message);
        if let Some(on_any_node) = on_any_node {
            finding.group_message(on_any_node);
        }
        if *state != DrainRefusal::Blocked {
            finding.severity(Severity::Warning);
        }
        if !ends_turn {
            finding.blocks_only(HERE);
        }
        evidence(cluster, finding, drain, obstacles);
        let far = far.get(name).filter(|_| !obstacles.unmanaged.is_empty());
        if let Some(far) = far {
            finding.other_waiting_nodes(drain.skyhook, "pods without a controller", far);
        }
        let several = of_skyhook[name] + far.map_or(0, NodeSet::len) > 1;
        remedies(finding, cluster, drain, obstacles, several, others.contains(name));
    }
    for skyhook in cluster.skyhooks.iter().filter(|s| s.is_active()).filter(|s| !reported.contains(s.name()))
    {
        if let Some(condition) = skyhook.true_condition("DrainBlocked") {
            report_condition(cluster, findings, skyhook, condition);
        }
    }
}

/// Maximum number of pods in the evidence, per kind of obstacle.
const SHOWN: usize = 5;

fn evidence(cluster: &Cluster, finding: &mut Finding, drain: &Drain<'_>, obstacles: &Obstacles<'_>) {
    let key = |prefix: &str| cluster.flavor().key(&format!("{prefix}_{}", drain.skyhook.name()));
    let on = cluster.on_node(drain.node, drain.skyhook.name());
    if let Some(start) = on.and_then(|on| on.drain_start.as_deref()) {
        finding.since(start.parse().ok()).evidence(drain.node, key("drainStart"), start);
    }
    for (path, (budget, pods)) in &obstacles.budgets {
        let budget_object = format!("poddisruptionbudget/{path}");
        finding.evidence(&budget_object, "disruptionsAllowed", budget.allows());
        for pod in pods.iter().take(SHOWN) {
            let ready = if pod.ready() { "ready" } else { "not ready" };
            finding.evidence(&budget_object, "selects pod", format!("{}, {ready}", pod.path()));
        }
    }
    for (pod, budgets) in obstacles.overlaps.iter().take(SHOWN) {
        let paths = budgets.iter().map(|budget| budget.path()).joined(", ");
        finding.evidence(pod, "selected by budgets", paths);
    }
    for pod in obstacles.overdue.iter().take(SHOWN) {
        let deleted = pod.metadata.deletion_timestamp.unwrap_or_default();
        finding
            .since(Some(deleted))
            .evidence(pod, "deletionTimestamp", deleted)
            .finalizers(pod, &pod.metadata);
    }
    for pod in obstacles.unexplained.iter().take(SHOWN) {
        finding.evidence(pod, "deletionTimestamp", "none");
        if let Some(event) = cluster.evictions().event(pod) {
            finding.evidence(pod, format!("event {}", event.reason), &event.message);
        }
    }
    for (configuration, webhook) in &obstacles.webhooks {
        let kind = configuration.kind.to_lowercase();
        let object = format!("{kind}/{}", configuration.metadata.name);
        finding.evidence(object, "called for evictions", &webhook.name);
    }
    if !obstacles.unexplained.is_empty() && cluster.admission.webhooks.ok().is_none() {
        finding.evidence("admission webhooks", "called for evictions", "not read");
    }
    for pod in obstacles.unmanaged.iter().take(SHOWN) {
        finding.evidence(pod, "controller", "none");
    }
    for refusal in obstacles.noted.iter().take(SHOWN) {
        finding.evidence(drain.node, key("drainBlocked"), refusal);
    }
}

/// Custom resources whose blocked drain keeps other nodes waiting. `far` has the nodes whose drains will be refused the same
/// way.
fn with_other_nodes_waiting<'a, 'c: 'a>(
    cluster: &'c Cluster,
    model: &Model<'_>,
    blocked: impl Iterator<Item = &'a Drain<'c>> + Clone,
    far: &HashMap<&str, BTreeSet<&str>>,
) -> BTreeSet<&'c str> {
    let nodes: BTreeSet<&str> = blocked.clone().map(|d| d.node.name.as_str()).collect();
    let ends_turn = refused_eviction_ends_turn(cluster);
    let waits = |skyhook: &Skyhook| {
        let far = far.get(skyhook.name());
        model.unfinished(skyhook).any(|node| {
            let name = node.name.as_str();
            !nodes.contains(name)
                && !far.is_some_and(|far| far.contains(name))
                && !node.ignored(cluster.flavor())
                && (ends_turn || !cluster.is_taken_up(skyhook, node))
        })
    };
    let skyhooks: BTreeSet<&str> = blocked.map(|d| d.skyhook.name()).collect();
    skyhooks.into_iter().filter(|name| cluster.skyhook(name).is_some_and(waits)).collect()
}

/// Reports condition DrainBlocked if no node records a refusal.
fn report_condition(cluster: &Cluster, findings: &mut Findings, skyhook: &Skyhook, condition: &Condition) {
    // A node's annotation is more exact: the condition stays until the next attempt, even if the refusal is
    // over.
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
        .evidence(skyhook, "condition DrainBlocked", format!("{}: {}", condition.reason, condition.message))
        .node_status("See which node is being drained", skyhook)
        .kubectl(
            Grade::B0,
            "Find the pods on that node, and fix the problem that condition DrainBlocked reports",
            ["get", "pods", "-A", "-o", "wide"],
        )
        .caveat("the operator retries automatically");
}

/// The message, and that for several nodes if the message names a pod of one node.
fn describe(
    drain: &Drain<'_>,
    obstacles: &Obstacles<'_>,
    state: DrainRefusal,
    ends_turn: bool,
) -> (String, Option<String>) {
    let end = if ends_turn {
        "; until the node can be drained, the operator does nothing on the other nodes of this custom resource"
    } else {
        ""
    };
    let sentence = |cause: &str| with_consequence(cause, drain, obstacles, state) + end;
    let (cause, on_any_node) = obstacles.cause();
    (sentence(&cause), on_any_node.map(|cause| sentence(&cause)))
}

/// Appends the consequence for the drain to the cause.
fn with_consequence(
    cause: &str,
    drain: &Drain<'_>,
    obstacles: &Obstacles<'_>,
    state: DrainRefusal,
) -> String {
    let package = drain.package;
    let budgets = &obstacles.budgets;
    match state {
        DrainRefusal::Blocked => {
            format!("{cause}, so the node cannot be drained for the interrupt of package {package}")
        }
        DrainRefusal::Ahead => {
            format!("{cause}, which would block the drain for the interrupt of package {package}")
        }
        DrainRefusal::MayPass if obstacles.are_pods() => {
            format!("{cause}, and the interrupt of package {package} waits for the drain")
        }
        DrainRefusal::MayPass
            if budgets.is_empty() || budgets.values().any(|(b, _)| b.refuses_for_good()) =>
        {
            format!(
                "{cause}: the drain for the interrupt of package {package} was blocked and will be retried"
            )
        }
        DrainRefusal::MayPass => format!(
            "{cause} while some of the covered pods are not healthy, and the interrupt of package {package} waits for \
             the drain"
        ),
    }
}
