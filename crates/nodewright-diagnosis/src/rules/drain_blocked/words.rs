//! The message of a finding about a blocked drain.

use super::DrainState;
use crate::cluster::drain::Drain;
use crate::cluster::drain::eviction::EvictionWebhook;
use crate::cluster::drain::obstacles::Obstacles;
use crate::cluster::drain::refusal::Refusal;
use crate::cluster::{DisruptionBudget, Pod};
use crate::view::{list, plural};

pub(super) struct Description {
    pub message: String,
    /// The message for several nodes, if `message` names a pod of one node.
    pub on_any_node: Option<String>,
}

pub(super) fn describe(
    drain: &Drain<'_>,
    obstacles: &Obstacles<'_>,
    state: DrainState,
    ends_reconciles: bool,
) -> Description {
    let sentence = |cause: &str| {
        let sentence = with_consequence(cause, drain, obstacles, state);
        if ends_reconciles {
            format!("{sentence}; until the node can be drained, every operator reconcile ends at this node")
        } else {
            sentence
        }
    };
    let (cause, on_any_node) = cause(obstacles);
    Description { message: sentence(&cause), on_any_node: on_any_node.map(|cause| sentence(&cause)) }
}

/// The cause of the blocked drain. The second text is for several nodes: it names no pod.
fn cause(obstacles: &Obstacles<'_>) -> (String, Option<String>) {
    let Obstacles { noted, budgets, overlaps, overdue, unexplained, webhooks, quoted } = obstacles;
    if let Some((pod, selecting)) = overlaps.first() {
        let paths: Vec<String> = selecting.iter().map(|budget| budget.path()).collect();
        let paths = list(&paths);
        let both = |what: &str| {
            format!(
                "{what} selected by {} PodDisruptionBudgets ({paths}), and the eviction API supports only one",
                selecting.len()
            )
        };
        let more = match overlaps.len() {
            1 => String::new(),
            n => format!(" (one of {})", plural(n, "such pod")),
        };
        let this = both(&format!("pod {}{more} is", pod.path()));
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
            format!("{pods} not evicted, although no budget protects it{}", webhook_clause(webhooks))
        };
        let more = match unexplained.len() {
            1 => String::new(),
            n => format!(" (one of {})", plural(n, "such pod")),
        };
        let this = format!("pod {}{more} is", first.path());
        let this = match quoted {
            Some(text) => format!("{this} not evicted: {text}"),
            None => not_evicted(&this),
        };
        return (this, Some(not_evicted("a pod is")));
    }
    let mut pods = noted.iter().filter(|refusal| !refusal.name.is_empty());
    let first = pods.next();
    let on_any_node = first.map(|first| refusal("a pod", &first.reason));
    (refused(noted), on_any_node)
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

/// Appends the consequence for the drain to the cause.
fn with_consequence(cause: &str, drain: &Drain<'_>, obstacles: &Obstacles<'_>, state: DrainState) -> String {
    let package = drain.package;
    let budgets = &obstacles.budgets;
    match state {
        DrainState::Blocked => {
            format!("{cause}, so the node cannot be drained for the interrupt of package {package}")
        }
        DrainState::Ahead => {
            format!("{cause}, which would block the drain for the interrupt of package {package}")
        }
        DrainState::MayPass if obstacles.are_pods() => {
            format!("{cause}, and the interrupt of package {package} waits for the drain")
        }
        DrainState::MayPass if budgets.is_empty() || budgets.values().any(|(b, _)| b.refuses_for_good()) => {
            format!(
                "{cause}: the drain for the interrupt of package {package} was blocked and will be retried"
            )
        }
        DrainState::MayPass => format!(
            "{cause} while some of the covered pods are not healthy, and the interrupt of package {package} waits for \
             the drain"
        ),
    }
}

/// Describes the refusals that the operator recorded.
fn refused(noted: &[Refusal]) -> String {
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
        "UnmanagedPod" => format!("{pod} has no controller that would recreate it"),
        "EmptyDirData" => format!("{pod} keeps data in an emptyDir volume"),
        reason => format!("{pod} is not evicted ({reason})"),
    }
}
