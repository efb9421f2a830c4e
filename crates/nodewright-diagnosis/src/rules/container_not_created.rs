use jiff::Timestamp;

use super::support::reason::shown;
use super::{Finding, Findings, Grade, Subject};
use crate::cluster::node::READY;
use crate::cluster::pod::{ContainerTrouble, TroubleKind};
use crate::cluster::{Cluster, Event, PackageRun, Pod};

rule! {
    /// A container of a package cannot be created on a node.
    ///
    /// # What it means
    ///
    /// The container cannot be created: something that its definition references is missing, a volume of the
    /// pod cannot be mounted, its sandbox cannot be set up, or the runtime refuses it. The operator does not
    /// check this: the node state continues to show `in_progress`.
    ///
    /// # What causes it
    ///
    /// The package's environment references a Secret or ConfigMap that does not exist in the operator's
    /// namespace, or lacks the key. Or a ConfigMap that the pod mounts was deleted, or the node's network or
    /// container runtime fails.
    ///
    /// # How to confirm
    ///
    /// A container of the package's pod waits with `CreateContainerConfigError`, `CreateContainerError` or
    /// `RunContainerError`; its message names the missing object. Or none of the containers has started long
    /// after the kubelet accepted the pod: the pod's events show the reason. With an event about a failure this is
    /// reported after a minute. Without such an event, this is a
    /// warning from ten minutes to an hour, because the pull of a large image looks the same. For a pod younger than
    /// ten minutes it is also a warning, unless the message names a missing object.
    ///
    /// # How to fix
    ///
    /// Create the missing object: the kubelet retries automatically. Or correct the package's
    /// environment, and the operator replaces the pod.
    ///
    /// # Affected versions
    ///
    /// All operators.
    SKY203 "container-not-created" Error needs Pods Jobs, also Nodes Events,
        blocks Install Uninstall, retried true
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let package_runs = findings.package_runs();
    for package_run in package_runs.all().iter().filter(|run| run.alive()) {
        let Some((pod, trouble)) = package_run.trouble() else {
            let mut pods = package_run.pods.iter();
            if let Some(pod) = pods.find(|p| has_nothing_started(cluster, p, package_run.node)) {
                not_set_up(cluster, findings, package_run, pod);
            }
            continue;
        };
        if trouble.kind != TroubleKind::Config || pod.ended() || pod.metadata.deleting() {
            continue;
        }
        let finding = findings.report(
            Subject::package_run(package_run),
            format!(
                "container {} of package {} cannot be created ({}), so stage {} does not continue",
                trouble.container,
                package_run.package,
                missing_reference(&trouble).unwrap_or_else(|| trouble.reason.to_owned()),
                package_run.stage
            ),
        );
        if missing_reference(&trouble).is_none() {
            finding.warning_if(cluster.is_recent(pod.metadata.creation_timestamp));
        }
        finding
            .set_failing_since(pod.metadata.creation_timestamp)
            .since(pod.metadata.creation_timestamp)
            .container_message(cluster, pod, &trouble);
        remedies(finding, cluster, package_run, pod);
    }
}

/// The kubelet's message about a missing object or key, such as `secret "license" not found`: retries do not fix
/// it. `None` for other problems.
fn missing_reference(trouble: &ContainerTrouble<'_>) -> Option<String> {
    let mentions = |words| trouble.message.contains(words);
    let missing = mentions("not found") || mentions("couldn't find key");
    (trouble.reason == "CreateContainerConfigError" && missing).then(|| shown(trouble.message))?
}

/// Seconds during which the image of the first container may still be pulled: the pod looks the same.
const LONGEST_PULL: i64 = 3600;

/// Seconds during which the kubelet may fail to set up a pod without a lasting cause.
const FIRST_TRIES: i64 = 60;

/// Whether the kubelet accepted the pod long ago or fails to set it up, no init container has run since, and the
/// node has been ready.
fn has_nothing_started(cluster: &Cluster, pod: &Pod, node: &str) -> bool {
    let status = &pod.status;
    let waits = |reason: &str| matches!(reason, "PodInitializing" | "ContainerCreating");
    let waiting = status.init_container_statuses.first().and_then(|c| c.state.waiting.as_ref());
    let fresh = status
        .init_container_statuses
        .iter()
        .all(|c| c.restart_count == 0 && c.last_state.terminated.is_none() && c.state.running.is_none());
    let there = cluster.node(node).is_none_or(|node| {
        let ready = node.condition(READY);
        let since =
            |at: Timestamp| status.start_time.is_some_and(|start| at <= start) || cluster.is_stale(Some(at));
        ready.is_none_or(|c| c.is_true() && c.last_transition_time.is_none_or(since))
    });
    let fails = newest_failure(cluster, pod).is_some_and(|event| cluster.is_recent(event.last));
    let young = cluster.seconds_since(status.start_time).is_none_or(|age| age < FIRST_TRIES);
    status.phase == "Pending"
        && (cluster.is_stale(status.start_time) || fails && !young)
        && waiting.is_some_and(|w| waits(&w.reason))
        && fresh
        && there
        && !pod.metadata.deleting()
}

/// Reports a pod that waits for its volumes, its sandbox or its first image: only events distinguish the
/// three.
fn not_set_up(cluster: &Cluster, findings: &mut Findings, package_run: &PackageRun<'_>, pod: &Pod) {
    let failed = newest_failure(cluster, pod);
    let waits = match failed.map(|event| event.reason.as_str()) {
        Some("FailedCreatePodSandBox") => "waits for its sandbox, which the node cannot create",
        Some("FailedMount" | "FailedAttachVolume") => "waits for a volume, which the node cannot mount",
        _ => "waits for its volumes, its sandbox or its first image",
    };
    let finding = findings.report(
        Subject::package_run(package_run),
        format!(
            "the pod of package {} {waits}, so stage {} does not start",
            package_run.package, package_run.stage
        ),
    );
    finding.set_failing_since(pod.status.start_time).since(pod.status.start_time).evidence(
        pod,
        "containers that ran",
        "none",
    );
    if let Some(event) = failed {
        let text = format!("{}: {}", event.reason, event.message);
        finding.evidence(pod, "event", text);
    }
    let started = pod.status.start_time;
    let old = started.is_some_and(|at| cluster.seconds_from(at) >= LONGEST_PULL);
    let fails_now = failed.is_some_and(|e| !cluster.is_stale(e.last));
    finding.warning_if(!(old || fails_now && cluster.is_stale(started)));
    remedies(finding, cluster, package_run, pod);
}

/// The kubelet's newest event about a failure of the pod.
fn newest_failure<'a>(cluster: &'a Cluster, pod: &Pod) -> Option<&'a Event> {
    let uid = pod.metadata.uid.as_deref();
    let events = cluster.events_about("Pod", pod.name()).filter(|e| {
        let same = e.uid.is_empty() || uid.is_none_or(|uid| uid == e.uid);
        same && e.reason.starts_with("Failed")
    });
    events.max_by_key(|e| e.last)
}

fn remedies(finding: &mut Finding, cluster: &Cluster, package_run: &PackageRun<'_>, pod: &Pod) {
    finding
        .describe_pod("Check what is missing or failing, and fix it", pod)
        .kubectl(
            Grade::B2,
            "Or correct the package in the spec",
            ["edit", &cluster.flavor().resource(), &package_run.skyhook],
        )
        .caveat("the operator then replaces the pod on every node");
}
