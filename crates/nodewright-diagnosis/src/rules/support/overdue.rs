//! Actions that the operator should have taken. One question for every action: has the time within which the
//! operator takes it passed without a trace of it?

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use jiff::Timestamp;

use crate::api::{Entry, Executor, Object, Skyhook, Status};
use crate::cluster::history::Changes;
use crate::cluster::pod::{ContainerStatus, Terminated};
use crate::cluster::restrictions::{Request, Restriction};
use crate::cluster::{Certainty, Clock, Cluster, Job, NodeRecord, PackageRun, Pod, Source};
use crate::model::{Action, DueAction, Model};
use crate::rules::Findings;

/// Seconds within which a healthy operator takes an action that a restriction forbids.
const AT_ONCE: i64 = 10;

/// An action that the operator has not taken in time.
pub struct Overdue<'a> {
    pub due: DueAction<'a>,
    /// The latest recorded change after which the operator should have acted.
    pub since: Timestamp,
    /// Whether the time of another change is not recorded, such as the departure of the last drained pod.
    pub undated: bool,
    /// Objects because of which the API server refuses the action.
    pub restrictions: Rc<[Restriction]>,
}

/// The operator's due actions, with the times since which they are due.
pub struct DueActions<'a> {
    cluster: &'a Cluster,
    model: Rc<Model<'a>>,
    changes: Rc<Changes<'a>>,
    /// Workload pods that a drain evicts, by node; `None` if they were not read.
    workloads: Option<HashMap<&'a str, Vec<&'a Pod>>>,
    /// The custom resources with a package pod whose values could not be decoded: it may run on any node.
    unreadable: HashSet<&'a str>,
}

impl<'a> DueActions<'a> {
    pub fn new(findings: &Findings<'a>) -> DueActions<'a> {
        let cluster = findings.cluster();
        // A pod whose node cannot be read may hold up any drain.
        let unknown = cluster.unknown_values(Source::Workloads).iter().any(|pod| pod.undecoded.is_some());
        let read = cluster.source(Source::Workloads).ok().is_some() && !unknown;
        let workloads = read.then(|| cluster.evictions().pods_by_node());
        let key = cluster.flavor().key("name");
        let pods = cluster.pods.iter().filter(|pod| pod.unknown_fields().iter().next().is_some());
        let unreadable = pods.filter_map(|pod| Some(&**pod.metadata.labels.get(&key)?)).collect();
        DueActions { cluster, model: findings.model(), changes: findings.changes(), workloads, unreadable }
    }

    /// The actions that the operator should have taken for a custom resource by now.
    pub fn overdue(&self, skyhook: &'a Skyhook) -> Vec<Overdue<'a>> {
        // SKY222 reports a custom resource that the operator has never processed.
        if skyhook.is_untouched() || self.unreadable.contains(skyhook.name()) {
            return Vec::new();
        }
        let due_since = self.changes.due_since(skyhook);
        let mut known: HashMap<String, Rc<[Restriction]>> = HashMap::new();
        let due = self.model.due_actions(skyhook.name()).filter(|due| self.is_known(skyhook, due));
        let dated = due.filter_map(|due| {
            let node = due.node;
            let since = due_since(node)?;
            let on = self.cluster.on_node(node, skyhook.name());
            let undated = on.is_some_and(|on| on.drain_start.is_some());
            let restrictions = known.entry(due.action.to_string());
            let restrictions = restrictions.or_insert_with(|| {
                self.cluster.operator().restrictions(request(skyhook, &due.action)).into()
            });
            let restrictions = Rc::clone(restrictions);
            Some(Overdue { due, since, undated, restrictions })
        });
        // SKY113 reports a deletion that stops without a visible reason.
        let own = |overdue: &Overdue<'_>| !skyhook.deleting() || !overdue.restrictions.is_empty();
        dated.filter(|overdue| overdue.is_late(self.cluster) && own(overdue)).collect()
    }

    /// Whether the action, and the changes before it, can be determined from what was read, and other rules
    /// do not report it.
    fn is_known(&self, skyhook: &Skyhook, due: &DueAction<'_>) -> bool {
        let cluster = self.cluster;
        let node = due.node;
        let pods =
            self.workloads.as_ref().map(|pods| pods.get(node.name.as_str()).map_or(&[][..], Vec::as_slice));
        // SKY410 reports a drain that timed out: the operator does not retry it.
        if cluster.on_node(node, skyhook.name()).is_some_and(|on| on.drain_timed_out()) {
            return false;
        }
        let status = cluster.status_on(skyhook, node);
        let seen = cluster.certainty_of_no_package_run() == Certainty::Proven || !is_at_work(&status);
        let known = match &due.action {
            Action::StartStage { package, .. } if pods.is_none() => {
                let interrupts = |spec| skyhook.pending_interrupt(package, spec).is_some();
                seen && !skyhook.package(package).is_some_and(interrupts)
            }
            Action::StartStage { .. } | Action::Interrupt { .. } => seen,
            Action::Drain => pods.is_some_and(|pods| {
                let under_way = pods.iter().any(|pod| pod.metadata.deleting());
                !under_way && !cluster.evictions().refuses(skyhook, node, pods)
            }),
            Action::Cordon | Action::RemoveEntry { .. } | Action::SkipInterrupt { .. } => true,
            _ => false,
        };
        // Without field managers, nodes at work and requested restarts change without a trace.
        let noted = node.condition(&cluster.flavor().key(&format!("{}/NotReady", skyhook.name())));
        let waits = status == Status::Waiting && noted.is_some_and(|c| c.last_transition_time.is_some());
        let dated = node.has_managers && !skyhook.metadata.managed_fields.is_empty();
        known && (dated || waits)
    }
}

fn is_at_work(status: &Status) -> bool {
    matches!(status, Status::InProgress | Status::Erroring)
}

/// The operator's request for an action.
fn request<'s>(skyhook: &'s Skyhook, action: &Action<'_>) -> Request<'s> {
    let package = action.package().and_then(|name| skyhook.package(name));
    match (action, package) {
        (Action::StartStage { .. } | Action::Interrupt { .. }, Some(package)) => Request::Start(package),
        (Action::Drain, _) => Request::Evict,
        _ => Request::PatchNode,
    }
}

impl Overdue<'_> {
    /// Whether the operator should have acted by now.
    fn is_late(&self, cluster: &Cluster) -> bool {
        let since = Some(self.since);
        if !self.restrictions.is_empty() {
            // The capture may be older than its newest time.
            let age = cluster.seconds_since(since);
            age.is_some_and(|age| age >= AT_ONCE || cluster.clock == Clock::Newest)
        } else if self.undated {
            cluster.is_stale(since)
        } else {
            cluster.is_late(since)
        }
    }
}

/// Why a recent first failure needs no action yet; `None` if it does.
///
/// Nodes and pods are listed separately: a pod may have been read before it failed, or after it succeeded.
pub fn retry_reason(cluster: &Cluster, package_run: Option<&PackageRun<'_>>) -> Option<&'static str> {
    let package_run = package_run?;
    let mut pods = package_run.pods.iter();
    let young = pods.all(|pod| cluster.is_recent(pod.metadata.creation_timestamp));
    if package_run.job_unseen {
        // If all Jobs were read except this one, it is newer than the read: the node state may be about an earlier Job.
        let newer = young && cluster.jobs.absence() == Certainty::Proven;
        return newer.then_some("the stage is being retried");
    }
    let [pod] = package_run.pods.as_slice() else {
        return None;
    };
    if !young || !package_run.bare() {
        return None;
    }
    if succeeded(pod) {
        return Some("its pod has since succeeded");
    }
    if !package_run.alive() {
        return None;
    }
    let mut containers = pod.status.init_container_statuses.iter();
    containers.all(has_failed_at_most_once).then_some("the stage is being retried")
}

/// Whether all scripts of a pod have succeeded. The older operator deletes the pod once it has recorded this.
pub fn succeeded(pod: &Pod) -> bool {
    let ended_well = |e: &Terminated| e.exit_code == 0;
    let mut containers = pod.status.init_container_statuses.iter();
    containers.len() > 0 && containers.all(|c| c.state.terminated.as_ref().is_some_and(ended_well))
}

/// Whether a Job of the newer operator is still retried: it has not failed, or the node is not erroring yet.
///
/// The operator sets the node to erroring once the Job has failed permanently, even if the Job was not read. A
/// waiting node with a failure is not retried: the operator passes it over.
pub fn operator_retries(cluster: &Cluster, package_run: Option<&PackageRun<'_>>, on: &NodeRecord) -> bool {
    let result_pending = |run: &PackageRun<'_>| {
        let waits = on.status == Some(Status::Waiting);
        let unseen = run.job_unseen && !waits && !cluster.is_stale(run.created());
        // The Job has succeeded, but the operator has not recorded the result yet.
        let passed = run.job.filter(|j| j.status.succeeded > 0 && j.failed().is_none());
        unseen || passed.is_some_and(|j| !cluster.is_stale(j.status.completion_time))
    };
    // A running Job counts even on an erroring node: before v0.20 the operator sets the node to erroring at the first
    // failed attempt, and any version does so for another package.
    let is_running = |run: &PackageRun<'_>| run.alive() && run.job.is_some_and(|j| j.failed().is_none());
    cluster.flavor().executor() == Executor::Job
        && (package_run.is_some_and(is_running)
            || on.status != Some(Status::Erroring)
                && package_run.is_none_or(|run| run.alive() || result_pending(run)))
}

/// Whether a container that is restarted in place has failed more often than a Job with new pods would allow.
pub fn exceeds_usual_attempts(
    cluster: &Cluster,
    entry: &Entry,
    package_run: Option<&PackageRun<'_>>,
) -> bool {
    const ATTEMPTS: i64 = 4;
    package_run.is_some_and(|run| {
        run.job.is_some_and(Job::restarts_in_place) && run.failed_attempts(cluster.flavor(), entry) > ATTEMPTS
    })
}

/// Whether a script of a bare pod has failed at most once, or has succeeded. After a failure, the kubelet restarts it; the
/// older operator sets the node to erroring at once, although the second attempt may succeed.
fn has_failed_at_most_once(container: &ContainerStatus) -> bool {
    let failed = |ended: &Option<Terminated>| ended.as_ref().is_some_and(|e| e.exit_code != 0);
    let ended = &container.state.terminated;
    match container.restart_count {
        0 => true,
        _ if ended.is_some() => !failed(ended),
        1 => failed(&container.last_state.terminated) && container.state.waiting.is_none(),
        _ => false,
    }
}
