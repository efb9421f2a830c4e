//! Drains of nodes: recorded starts, the pods that they evict, and obstacles.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::policy::v1::PodDisruptionBudgetStatus;
use serde::Deserialize;

use super::admission::{Webhook, WebhookConfiguration};
use super::event::Event;
use super::{Certainty, Cluster, Node, NodeRecord, Pod, Source};
use crate::api::{
    LabelSelector, Meta, Skyhook, State, Status, UnknownFields, WithoutManagers, objects_with_metadata,
};
use crate::text::{Joined, list, plural};

/// Pods that drains evict, and the reasons why the API server refuses evictions.
#[derive(Clone, Copy)]
pub struct Evictions<'a>(pub(super) &'a Cluster);

/// A node that must be drained before a package can continue.
#[derive(Debug)]
pub struct Drain<'a> {
    pub skyhook: &'a Skyhook,
    pub node: &'a Node,
    pub package: &'a str,
    /// Whether the drain of the node may have begun.
    pub begun: bool,
    /// Whether the node is ignored. It is drained only after the ignore label is removed.
    pub ignored: bool,
}

impl NodeRecord {
    /// Whether a drain may be in progress: the operator cordons a node first.
    pub fn may_drain(&self) -> bool {
        self.cordon || self.drain_start.is_some() || self.drain_blocked.is_some()
    }
}

impl Cluster {
    /// Whether the operator works on no node of the custom resource, so that any node may be next.
    ///
    /// Package pods do not count as work. Before v0.20.0 the operator may create a pod on one node, abort the
    /// reconcile at a refused eviction on another node without recording the pod, and delete the pod in the
    /// next reconcile.
    pub fn is_idle(&self, skyhook: &Skyhook) -> bool {
        skyhook.status.node_priority.is_empty()
            && !self.selected(skyhook).any(|node| self.is_taken_up(skyhook, node))
    }

    /// Whether the operator has begun to work on the node.
    pub fn is_taken_up(&self, skyhook: &Skyhook, node: &Node) -> bool {
        skyhook.status.node_priority.contains_key(&node.name)
            || self
                .on_node(node, skyhook.name())
                .is_some_and(|on| on.may_drain() || on.operator_status() == Status::InProgress)
    }
}

impl<'a> Evictions<'a> {
    /// Workload pods that a drain evicts, including pods that are already being deleted, by node.
    pub fn pods_by_node(self) -> HashMap<&'a str, Vec<&'a Pod>> {
        let mut by_node: HashMap<&str, Vec<&Pod>> = HashMap::new();
        for pod in self.0.workloads.iter().filter(|p| is_active(p) && is_evicted(p)) {
            by_node.entry(&pod.spec.node_name).or_default().push(pod);
        }
        by_node
    }
}

/// Whether a pod runs, or will run, on a node.
pub fn is_active(pod: &Pod) -> bool {
    matches!(pod.status.phase.as_str(), "Running" | "Pending") && !pod.spec.node_name.is_empty()
}

/// Whether a drain evicts the pod (operator `ShouldEvict`). Pods of a DaemonSet tolerate a cordon.
pub fn is_evicted(pod: &Pod) -> bool {
    let tolerates = pod.spec.tolerations.iter().any(|t| t.key == "node.kubernetes.io/unschedulable");
    let owned_by_node_agent =
        pod.metadata.owner_references.iter().any(|o| o.kind == "DaemonSet" || o.kind == "Node");
    !tolerates && !owned_by_node_agent && pod.metadata.namespace.as_deref() != Some("kube-system")
}

/// Time within which the kubelet removes a pod after the end of the pod's grace period.
const REMOVED_WITHIN: SignedDuration = SignedDuration::from_mins(2);
/// Time within which an eviction shows an effect: the operator retries every 30 seconds.
const EVICTED_WITHIN: SignedDuration = SignedDuration::from_mins(10);

/// Obstacles that keep pods on the node of a drain.
#[derive(Debug, Default)]
pub struct Obstacles<'a> {
    /// Refusals that the operator recorded and that may still apply.
    pub noted: Vec<NotedRefusal>,
    /// Pods that the operator will not evict, because no controller would recreate them.
    pub unmanaged: Vec<&'a Pod>,
    /// Budgets that refuse evictions, by path, each with the pods whose eviction it refuses.
    pub budgets: BTreeMap<String, (&'a DisruptionBudget, Vec<&'a Pod>)>,
    /// Pods that several budgets select, each with these budgets.
    pub overlaps: Vec<(&'a Pod, Vec<&'a DisruptionBudget>)>,
    /// Evicted pods that should have ended some time ago.
    pub overdue: Vec<&'a Pod>,
    /// Pods that have not been evicted although the drain began some time ago, without a known obstacle.
    pub unexplained: Vec<&'a Pod>,
    /// Webhooks that may refuse to evict the unexplained pods.
    pub webhooks: Vec<EvictionWebhook<'a>>,
    /// Message of an event about a failed eviction of an unexplained pod.
    pub quoted: Option<&'a str>,
}

/// Finds the obstacles of drains.
pub struct ObstacleReader<'a> {
    cluster: &'a Cluster,
    pods: HashMap<&'a str, Vec<&'a Pod>>,
    budgets_by_namespace: HashMap<&'a str, Vec<&'a DisruptionBudget>>,
    /// Whether budgets and workload pods were read, and package runs are known.
    whole: bool,
}

impl<'a> ObstacleReader<'a> {
    pub fn new(cluster: &'a Cluster) -> ObstacleReader<'a> {
        let mut budgets_by_namespace: HashMap<&str, Vec<&DisruptionBudget>> = HashMap::new();
        for budget in &cluster.disruption_budgets {
            budgets_by_namespace.entry(budget.namespace()).or_default().push(budget);
        }
        ObstacleReader {
            cluster,
            pods: cluster.evictions().pods_by_node(),
            budgets_by_namespace,
            whole: cluster.workloads.ok().is_some()
                && cluster.disruption_budgets.ok().is_some()
                && cluster.certainty_of_no_package_run() != Certainty::Unknown,
        }
    }

    pub fn of(&self, drain: &Drain<'a>) -> Obstacles<'a> {
        let cluster = self.cluster;
        let on = cluster.on_node(drain.node, drain.skyhook.name());
        let mut obstacles = Obstacles {
            noted: on.map_or_else(Vec::new, |on| {
                cluster.evictions().refusals_in_force(drain.skyhook, drain.node, on)
            }),
            ..Obstacles::default()
        };
        let config = &drain.skyhook.spec.drain_config;
        let evicts = config.disable_eviction != Some(true);
        let draining = on.is_some_and(|on| on.cordon || on.drain_start.is_some());
        let began = on.and_then(|on| on.draining_since());
        let pods = self.pods.get(drain.node.name.as_str());
        for pod in pods.into_iter().flatten().copied() {
            if pod.metadata.deleting() {
                // Before v0.19 the operator does not wait until evicted pods have ended.
                let waits = draining && !cluster.operator().before(0, 19);
                let due = pod.metadata.deletion_timestamp;
                if waits && self.older(due, REMOVED_WITHIN) {
                    obstacles.overdue.push(pod);
                }
                continue;
            }
            if config.spares_unmanaged() && pod.metadata.controller().is_none() {
                obstacles.unmanaged.push(pod);
                continue;
            }
            let budgets = self.budgets_by_namespace.get(pod.namespace());
            let budgets = budgets.into_iter().flatten().copied().filter(|_| self.whole && evicts);
            match block(pod, budgets) {
                Some(EvictionBlock::Budget(budget)) => {
                    obstacles.budgets.entry(budget.path()).or_insert((budget, Vec::new())).1.push(pod);
                }
                Some(EvictionBlock::Overlap(budgets)) => obstacles.overlaps.push((pod, budgets)),
                None if self.whole && self.refused_silently(pod, began, &obstacles.noted) => {
                    obstacles.unexplained.push(pod);
                }
                None => {}
            }
        }
        if !obstacles.unexplained.is_empty() {
            obstacles.webhooks = cluster.evictions().webhooks().collect();
            let event = obstacles.unexplained.iter().find_map(|pod| cluster.evictions().event(pod));
            obstacles.quoted = event.map(|event| event.message.as_str());
        }
        obstacles
    }

    /// Whether a pod from before the drain has not been evicted for a long time, without a refusal recorded
    /// by the operator.
    fn refused_silently(&self, pod: &Pod, began: Option<Timestamp>, noted: &[NotedRefusal]) -> bool {
        let before = pod.metadata.creation_timestamp.zip(began);
        let noted = noted.iter().any(|refusal| refusal.pod() == pod.path());
        let possible = || began.max(self.cluster.evictions().allowed_since(&[pod]));
        before.is_some_and(|(created, began)| created < began)
            && !noted
            && self.older(began, EVICTED_WITHIN)
            && self.older(possible(), EVICTED_WITHIN)
    }

    fn older(&self, at: Option<Timestamp>, than: SignedDuration) -> bool {
        at.is_some_and(|at| self.cluster.taken_at.duration_since(at) >= than)
    }
}

impl Obstacles<'_> {
    /// The cause of the blocked drain. The second text is for several nodes: it names no pod.
    pub fn cause(&self) -> (String, Option<String>) {
        let Obstacles { noted, unmanaged, budgets, overlaps, overdue, unexplained, webhooks, quoted } = self;
        if let Some((pod, selecting)) = overlaps.first() {
            let paths: Vec<String> = selecting.iter().map(|budget| budget.path()).collect();
            let paths = list(&paths);
            let both = |what: &str| {
                format!(
                    "{what} selected by {} PodDisruptionBudgets ({paths}), and the eviction API supports only one",
                    selecting.len()
                )
            };
            let this = both(&format!("{} is", first_of(pod, overlaps.len())));
            return (this, Some(both("a pod is")));
        }
        let mut held = budgets.iter();
        if let (Some((path, (budget, pods))), more) = (held.next(), held.next()) {
            let cause = if more.is_some() {
                format!("{} PodDisruptionBudgets allow no evictions", budgets.len())
            } else {
                format!("PodDisruptionBudget {path} allows no evictions{}", unhealthy(budget, pods))
            };
            return (cause, None);
        }
        if let Some(first) = overdue.first() {
            let does_not = |pods: &str, verb: &str| format!("{pods} evicted but {verb} not terminate");
            let this = match overdue.len() {
                1 => does_not(&format!("pod {} was", first.path()), "does"),
                n => does_not(&format!("{} were", plural(n, "pod")), "do"),
            };
            return (this, Some(does_not("pods were", "do")));
        }
        if let (Some(first), []) = (unexplained.first(), noted.as_slice()) {
            let not_evicted = |pods: &str| {
                format!(
                    "{pods} not evicted, although no PodDisruptionBudget protects it{}",
                    webhook_clause(webhooks)
                )
            };
            let this = format!("{} is", first_of(first, unexplained.len()));
            let this = match quoted {
                Some(text) => format!("{this} not evicted: {text}"),
                None => not_evicted(&this),
            };
            return (this, Some(not_evicted("a pod is")));
        }
        if let (Some(first), []) = (unmanaged.first(), noted.as_slice()) {
            let this = refusal(&first_of(first, unmanaged.len()), UNMANAGED);
            return (this, Some(refusal("a pod", UNMANAGED)));
        }
        let first = noted.iter().find(|refusal| !refusal.name.is_empty());
        let on_any_node = first.map(|first| refusal("a pod", &first.reason));
        (refused(noted), on_any_node)
    }

    pub fn is_empty(&self) -> bool {
        self.unmanaged.is_empty() && self.are_none_but_unmanaged()
    }

    /// Whether pods without a controller are the only obstacle.
    pub fn are_unmanaged(&self) -> bool {
        !self.unmanaged.is_empty() && self.are_none_but_unmanaged()
    }

    fn are_none_but_unmanaged(&self) -> bool {
        self.noted.is_empty()
            && self.budgets.is_empty()
            && self.overlaps.is_empty()
            && self.overdue.is_empty()
            && self.unexplained.is_empty()
    }

    /// Whether the obstacle is pods (not ready, not terminating in time, or not evicted), rather than a
    /// budget that will allow a disruption again.
    pub fn are_pods(&self) -> bool {
        let mut held = self.budgets.values().flat_map(|(_, pods)| pods);
        !self.overdue.is_empty() || !self.unexplained.is_empty() || held.any(|pod| !pod.ready())
    }
}

/// The first of some pods, with their number.
fn first_of(pod: &Pod, pods: usize) -> String {
    match pods {
        1 => format!("pod {}", pod.path()),
        n => format!("pod {} (one of {})", pod.path(), plural(n, "such pod")),
    }
}

/// A clause about the webhooks that may refuse evictions; empty without webhooks.
fn webhook_clause(webhooks: &[EvictionWebhook<'_>]) -> String {
    let names: Vec<String> = webhooks.iter().map(|(_, w)| w.name.clone()).collect();
    match names.len() {
        0 => String::new(),
        1 => format!("; admission webhook {} can refuse evictions", names[0]),
        _ => format!("; admission webhooks {} can refuse evictions", list(&names)),
    }
}

/// A clause about a budget that also protects pods that are not ready; empty if all are ready.
fn unhealthy(budget: &DisruptionBudget, pods: &[&Pod]) -> String {
    if pods.iter().all(|pod| pod.ready()) {
        return String::new();
    }
    let healthy = budget.status.current_healthy.unwrap_or(0);
    let needed = budget.status.desired_healthy.unwrap_or(0);
    format!(" and also protects pods that are not ready ({healthy} healthy, {needed} required)")
}

/// Describes the refusals that the operator recorded.
fn refused(noted: &[NotedRefusal]) -> String {
    let Some(first) = noted.iter().find(|refusal| !refusal.name.is_empty()) else {
        return "the operator reports that the drain is blocked".to_owned();
    };
    let what = refusal(&format!("pod {}", first.pod()), &first.reason);
    match noted.len() {
        1 => what,
        n => format!("{what} (one of {} that cannot be evicted)", plural(n, "pod")),
    }
}

fn refusal(pod: &str, reason: &str) -> String {
    match reason {
        UNMANAGED => format!("{pod} has no controller that would recreate it"),
        "EmptyDirData" => format!("{pod} keeps data in an emptyDir volume"),
        reason => format!("{pod} is not evicted ({reason})"),
    }
}

/// A webhook that may refuse evictions, with its configuration.
pub type EvictionWebhook<'a> = (&'a WebhookConfiguration, &'a Webhook);

/// The reason why the API server refuses to evict a pod.
#[derive(Debug, Clone)]
pub enum EvictionBlock<'a> {
    /// The only budget that selects the pod allows no disruption.
    Budget(&'a DisruptionBudget),
    /// Several budgets select the pod: the eviction API supports only one, and refuses even if all of them
    /// allow a disruption.
    Overlap(Vec<&'a DisruptionBudget>),
}

impl Webhook {
    /// Whether the webhook matches evictions. Its namespace and object selectors are not evaluated.
    fn sees_evictions(&self) -> bool {
        self.covers("", "pods/eviction", "CREATE")
    }
}

impl<'a> Evictions<'a> {
    /// The reason why the known budgets do not allow the eviction of a pod now.
    pub fn block(self, pod: &Pod) -> Option<EvictionBlock<'a>> {
        block(pod, self.0.disruption_budgets.iter())
    }

    /// The latest time at which a budget of these pods began to allow evictions; `None` if none is recorded.
    pub fn allowed_since(self, pods: &[&Pod]) -> Option<Timestamp> {
        let protects = |budget: &&DisruptionBudget| pods.iter().any(|pod| budget.selects(pod));
        let budgets = self.0.disruption_budgets.iter().filter(protects);
        budgets.filter_map(|budget| budget.disruption_allowed(true)).max()
    }

    /// Whether some of these pods stay on a node that is drained: the operator recorded a refusal, or will not evict a
    /// pod without a controller, or a budget refuses.
    pub fn refuses(self, skyhook: &Skyhook, node: &Node, pods: &[&Pod]) -> bool {
        let config = &skyhook.spec.drain_config;
        let spared = |pod: &Pod| config.spares_unmanaged() && pod.metadata.controller().is_none();
        let blocked = |pod: &Pod| config.disable_eviction != Some(true) && self.block(pod).is_some();
        let on = self.0.on_node(node, skyhook.name());
        on.is_some_and(|on| !self.refusals_in_force(skyhook, node, on).is_empty())
            || pods.iter().any(|pod| !pod.metadata.deleting() && (spared(pod) || blocked(pod)))
    }

    /// The newest eviction failure event of an existing pod.
    pub fn event(self, pod: &Pod) -> Option<&'a Event> {
        let about = self.0.events.iter().filter(|event| {
            let text = event.message.to_lowercase();
            let of_pod = event.kind == "Pod" && event.name == pod.name();
            (of_pod || text.contains(pod.name())) && text.contains("evict")
        });
        about.max_by_key(|event| event.last)
    }

    /// Admission webhooks that match evictions. Each of them may refuse one.
    fn webhooks(self) -> impl Iterator<Item = EvictionWebhook<'a>> {
        let each =
            self.0.admission.webhooks.iter().flat_map(|c| c.webhooks.iter().map(move |webhook| (c, webhook)));
        each.filter(|(_, webhook)| webhook.sees_evictions())
    }
}

/// The reason why these budgets do not allow the eviction of a pod now (`EvictionREST`).
fn block<'a>(pod: &Pod, budgets: impl Iterator<Item = &'a DisruptionBudget>) -> Option<EvictionBlock<'a>> {
    // The API server ignores budgets for pods that are pending, have ended, or are being deleted.
    if pod.status.phase == "Pending" || pod.ended() || pod.metadata.deleting() {
        return None;
    }
    let selecting: Vec<_> = budgets.filter(|budget| budget.selects(pod)).collect();
    match selecting.as_slice() {
        [] => None,
        [budget] => budget.holds(pod).then_some(EvictionBlock::Budget(budget)),
        _ => Some(EvictionBlock::Overlap(selecting)),
    }
}

/// Number of seconds within which the newer operator retries a refused eviction (30) and records the result
/// (15).
const RETRY: i64 = 30 + 15;

/// The reason of a refusal of a pod that no controller would recreate.
const UNMANAGED: &str = "UnmanagedPod";

/// A refused eviction from the annotation `drainBlocked_NAME`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NotedRefusal {
    pub namespace: String,
    pub name: String,
    /// `PodDisruptionBudget`, `UnmanagedPod` or `EmptyDirData`.
    pub reason: String,
    pub detail: String,
}

impl NotedRefusal {
    /// `namespace/name` of the pod.
    pub fn pod(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// Formats the refusal as `pod apps/web-1: PodDisruptionBudget: …`.
impl fmt::Display for NotedRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.name.is_empty() {
            write!(f, "pod {}: ", self.pod())?;
        }
        let parts = [self.reason.as_str(), self.detail.as_str()];
        let parts = parts.into_iter().filter(|part| !part.is_empty());
        f.write_str(&parts.joined(": "))
    }
}

impl NodeRecord {
    /// Start of the node's drain.
    pub fn draining_since(&self) -> Option<Timestamp> {
        self.drain_start.as_deref()?.parse().ok()
    }

    /// Whether the drain timed out: the operator then reports the node as failed and does not retry.
    pub fn drain_timed_out(&self) -> bool {
        let failed = self.entries().iter().any(|e| e.state == State::Erroring);
        self.drain_start.is_some() && self.status == Some(Status::Erroring) && !failed
    }

    /// The refusals recorded by the operator; text in another format becomes one refusal without a pod.
    pub fn refusals(&self) -> Vec<NotedRefusal> {
        let Some(text) = &self.drain_blocked else {
            return Vec::new();
        };
        serde_json::from_str(text)
            .unwrap_or_else(|_| vec![NotedRefusal { detail: text.clone(), ..NotedRefusal::default() }])
    }
}

impl<'a> Evictions<'a> {
    /// The recorded refusals that may still apply: the operator updates them only at its next attempt.
    pub fn refusals_in_force(self, skyhook: &Skyhook, node: &Node, on: &NodeRecord) -> Vec<NotedRefusal> {
        let mut refusals = on.refusals();
        refusals.retain(|r| self.still_refused(skyhook, node, r).unwrap_or(true));
        refusals
    }

    /// Whether the pod still exists and its eviction would be refused again; `None` if unknown.
    fn still_refused(self, skyhook: &Skyhook, node: &Node, refusal: &NotedRefusal) -> Option<bool> {
        if refusal.name.is_empty() {
            return None;
        }
        self.0.source(Source::Workloads).ok()?;
        let named = |p: &&Pod| {
            p.spec.node_name == node.name
                && p.name() == refusal.name
                && p.metadata.namespace.as_deref() == Some(&refusal.namespace)
        };
        let Some(pod) = self.0.workloads.iter().find(named) else {
            return Some(false);
        };
        if pod.ended() || pod.metadata.deleting() {
            return Some(false);
        }
        let drain = &skyhook.spec.drain_config;
        match refusal.reason.as_str() {
            "PodDisruptionBudget" if drain.disable_eviction == Some(true) => Some(false),
            "PodDisruptionBudget" => {
                self.0.disruption_budgets.ok()?;
                Some(self.block(pod).is_some())
            }
            UNMANAGED => Some(drain.spares_unmanaged()),
            "EmptyDirData" => Some(drain.delete_empty_dir_data == Some(false)),
            _ => Some(true),
        }
    }

    /// Whether the drain began so recently that the operator has not retried a refused eviction yet.
    pub fn refusal_is_young(self, on: &NodeRecord) -> bool {
        on.draining_since().is_some_and(|at| self.0.seconds_from(at) < RETRY)
    }
}

/// A `PodDisruptionBudget`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct DisruptionBudget {
    #[serde(with = "WithoutManagers")]
    pub metadata: Meta,
    spec: DisruptionBudgetSpec,
    pub status: PodDisruptionBudgetStatus,
    #[serde(skip)]
    pub unknown_fields: UnknownFields,
}

objects_with_metadata!(DisruptionBudget);

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct DisruptionBudgetSpec {
    /// `None` selects no pod; an empty selector selects every pod of the namespace.
    selector: Option<LabelSelector>,
    /// `IfHealthyBudget` (the default) or `AlwaysAllow`.
    unhealthy_pod_eviction_policy: Option<String>,
}

impl DisruptionBudget {
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// The namespace; empty if unset.
    pub fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// `namespace/name`.
    pub fn path(&self) -> String {
        format!("{}/{}", self.namespace(), self.name())
    }

    /// The allowed disruptions, as in `0; 2 healthy, 2 required`.
    pub fn allows(&self) -> String {
        let status = &self.status;
        let number = |number: Option<i32>| number.unwrap_or(0);
        format!(
            "{}; {} healthy, {} required",
            number(status.disruptions_allowed),
            number(status.current_healthy),
            number(status.desired_healthy)
        )
    }

    /// Whether the budget covers the pod.
    pub fn selects(&self, pod: &Pod) -> bool {
        let covers = |selector: &LabelSelector| selector.matches(&pod.metadata.labels);
        pod.metadata.namespace.as_deref() == Some(self.namespace())
            && self.spec.selector.as_ref().is_some_and(covers)
    }

    /// Whether the budget refuses the eviction of a pod that it covers. A budget that no controller has
    /// processed yet refuses every eviction, except those that `AlwaysAllow` permits.
    pub fn holds(&self, pod: &Pod) -> bool {
        let policy = self.spec.unhealthy_pod_eviction_policy.as_deref();
        let spares_unhealthy = policy == Some("AlwaysAllow") || self.is_healthy();
        self.allows_none() && (pod.ready() || !spares_unhealthy)
    }

    /// Whether enough pods are healthy: the default policy then allows the eviction of unhealthy pods.
    fn is_healthy(&self) -> bool {
        let desired = self.status.desired_healthy.unwrap_or(0);
        desired > 0 && self.status.current_healthy.unwrap_or(0) >= desired
    }

    fn allows_none(&self) -> bool {
        self.status.disruptions_allowed.unwrap_or(0) <= 0
    }

    /// Whether the budget allows no eviction although all its pods are healthy, so that waiting does not
    /// help.
    ///
    /// Excludes the time right after an eviction: the budget allows no other eviction then, but more pods
    /// than required still count as healthy.
    pub fn refuses_for_good(&self) -> bool {
        let status = &self.status;
        let expected = status.expected_pods.unwrap_or(0);
        let healthy = status.current_healthy.unwrap_or(0);
        self.allows_none()
            && status.observed_generation.is_some()
            && expected > 0
            && healthy >= expected
            && healthy <= status.desired_healthy.unwrap_or(0)
    }

    /// Whether the budget has refused since before a drain began, so that no eviction of that drain used it
    /// up.
    pub fn refused_before(&self, start: Timestamp) -> bool {
        self.disruption_allowed(false).is_some_and(|since| since < start)
    }

    /// The time since which the condition DisruptionAllowed is true, or is not.
    fn disruption_allowed(&self, is_true: bool) -> Option<Timestamp> {
        let mut conditions = self.status.conditions.iter().flatten();
        let allowed = conditions.find(|c| c.type_ == "DisruptionAllowed")?;
        ((allowed.status == "True") == is_true).then_some(allowed.last_transition_time.0)
    }
}
