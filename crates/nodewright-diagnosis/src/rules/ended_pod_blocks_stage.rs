use std::collections::BTreeMap;

use jiff::Timestamp;

use super::support::evidence::due_entry;
use super::{Finding, Findings, Grade, Subject};
use crate::api::{Entry, Executor, Skyhook, Stage, State};
use crate::cluster::provenance::Unproven;
use crate::cluster::{Cluster, Job, PackageRun, PackageRuns, Pod};

rule! {
    /// A pod that has ended blocks its stage.
    ///
    /// # What it means
    ///
    /// The pod of a stage has ended, but the stage was not recorded as done. The operator only
    /// checks whether such a pod exists, not its state, so it never creates another one. Interrupts of
    /// other custom resources on the node wait for it, too.
    ///
    /// From v0.18 on a Job retries, which helps only once the cause is gone: the kubelet rejects
    /// each new pod before a container is created. A Job that has failed permanently must be recorded on the
    /// node; until then, no other Job is created.
    ///
    /// # What causes it
    ///
    /// The kubelet rejected the pod (`OutOfcpu`, `OutOfpods`, `NodeAffinity`), the pod was evicted, or the
    /// node shut down. Or a pod that the operator did not create carries its labels: the operator counts pods
    /// of all namespaces, and no command of this plugin deletes such a pod.
    ///
    /// # How to confirm
    ///
    /// A package's pod is in phase `Failed` or `Succeeded` and is not being deleted, and the entry in the
    /// node state is not complete. With Jobs: the newest pod has failed for a reason and has no container
    /// statuses (if the Job has just failed, this applies to all of its pods); or the Job's condition
    /// `Failed` is old and the entry is neither complete nor erroring.
    ///
    /// # How to fix
    ///
    /// Remove the cause, such as a full node, then retry the stage: the pod, or the Job that has failed
    /// permanently, is deleted, and the operator creates it again. At stage `post-interrupt` a package of
    /// bare pods starts over from `apply`. A Job that still retries continues by itself.
    ///
    /// # Affected versions
    ///
    /// All operators; up to v0.17 they run bare pods, from v0.18 on Jobs.
    ///
    /// # Severity
    ///
    /// Rejected pods of a Job are a warning for the first ten minutes, or until its retries are exhausted and
    /// the operator has replaced it.
    SKY204 "ended-pod-blocks-stage" Error needs Skyhooks Nodes Pods Jobs, also Events Operator,
        blocks Install Uninstall
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    if cluster.flavor().executor() == Executor::Job {
        return of_jobs(cluster, findings);
    }
    let package_runs = findings.package_runs();
    for package_run in package_runs.all() {
        let [pod] = package_run.pods.as_slice() else {
            continue;
        };
        let ended = pod.ended() && !pod.metadata.deleting() && !package_run.invalidated;
        if !ended || due_entry(cluster, package_run).is_none() {
            continue;
        }
        let Some(skyhook) = cluster.skyhook(&package_run.skyhook) else {
            continue;
        };
        let reason = match pod.status.reason.as_str() {
            "" => pod.status.phase.clone(),
            reason => format!("{}, {reason}", pod.status.phase),
        };
        let finding = findings.report(
            Subject::package_run(package_run),
            format!(
                "the pod for stage {} of package {} has ended ({reason}) and blocks a new pod",
                package_run.stage, package_run.package
            ),
        );
        finding.warning_if(!skyhook.is_active()).since(package_run.created()).evidence(
            package_run,
            "status.phase",
            reason,
        );
        if !pod.status.message.is_empty() {
            finding.evidence(package_run, "status.message", &pod.status.message);
        }
        // The operator starts nothing while Kubernetes taints the node for a shortage: a retry has no effect.
        let node = cluster.node(package_run.node);
        let taints = node.map_or_else(Vec::new, |node| cluster.untolerated_by(skyhook, node));
        if let Some(taint) = taints.iter().find(|taint| taint.of_lifecycle()) {
            let title = format!(
                "Repair the node until Kubernetes removes the taint {}; only then can the stage be retried",
                taint.kubectl_notation()
            );
            finding.taint(node.expect("it has taints"), taint).describe_node(title, package_run.node);
            continue;
        }
        finding.describe_pod("See why the pod ended, and fix the cause", pod);
        if let Some(why) = package_run.unproven(cluster) {
            not_ours(cluster, finding, pod, &why);
            continue;
        }
        start_again(cluster, finding, package_run);
        if package_run.stage == Stage::PostInterrupt {
            finding.caveat("the package starts again from stage apply, including its interrupt");
        }
    }
}

fn of_jobs(cluster: &Cluster, findings: &mut Findings) {
    let package_runs = findings.package_runs();
    let remade = remade_jobs(cluster);
    between_two_jobs(cluster, findings, &package_runs, &remade);
    for package_run in package_runs.all() {
        let Some(job) = package_run.job else {
            continue;
        };
        let resting = job.metadata.deleting() || job.spec.suspend || package_run.invalidated;
        let Some(entry) = due_entry(cluster, package_run).filter(|_| !resting) else {
            continue;
        };
        let since = remade.get(job.metadata.name.as_str()).copied();
        if since.is_some() && entry.state != State::Erroring {
            rejects_pods(cluster, findings, package_run, entry, since);
        } else if let Some(failed) = job.failed() {
            // The operator may not have noticed the failure yet. Without a transition time, the failure is as
            // old as the run.
            let at = failed.last_transition_time.or(package_run.created());
            let again = package_runs
                .of_skyhook_on(&package_run.skyhook, package_run.node)
                .any(|run| run.package == package_run.package && run.alive());
            if entry.state == State::Erroring || again {
                continue;
            }
            if cluster.is_stale(at) {
                let finding = report(
                    cluster,
                    findings,
                    package_run,
                    format!(
                        "the job for stage {} of package {} has failed permanently, but the operator has not recorded the \
                         failure, so nothing runs",
                        package_run.stage, package_run.package
                    ),
                );
                finding.since(at).entry(package_run.node, entry);
                finding.package_run_trouble(cluster, package_run);
                if let Some(pod) = rejected(package_run) {
                    rejection(finding, pod);
                }
                finding.describe_job("See why the job ended, and fix the cause", job);
                finding
                    .operator_log(cluster, "Check the operator's log to see why the failure is not recorded");
                start_again(cluster, finding, package_run);
            } else if never_ran(package_run, job) {
                rejects_pods(cluster, findings, package_run, entry, None);
            }
        } else if rejected(package_run).is_some() {
            rejects_pods(cluster, findings, package_run, entry, None);
        }
    }
}

/// Whether the kubelet rejected every attempt of a Job: the operator does not record such a failure, but
/// recreates the Job.
fn never_ran(package_run: &PackageRun<'_>, job: &Job) -> bool {
    let count = i64::try_from(package_run.pods.len()).unwrap_or(i64::MAX);
    count >= job.status.failed && package_run.pods.iter().all(|p| p.rejected())
}

/// Reports a stage whose newest attempt was rejected, or whose Job has been recreated repeatedly from `since`
/// on.
///
/// The finding keeps its subject and message, although pods and Jobs are replaced every few seconds.
fn rejects_pods(
    cluster: &Cluster,
    findings: &mut Findings,
    package_run: &PackageRun<'_>,
    entry: &Entry,
    since: Option<Timestamp>,
) {
    let message = rejects(&package_run.stage, &package_run.package);
    let finding = report(cluster, findings, package_run, message);
    let pods_since =
        package_run.pods.iter().filter(|p| p.rejected()).filter_map(|p| p.metadata.creation_timestamp);
    if let Some(pod) = rejected(package_run) {
        rejection(finding, pod);
    }
    let replaced = since.is_some();
    let since = pods_since.chain(since).min();
    close_rejected(cluster, finding, package_run.node, entry, since, replaced);
}

/// Names of Jobs that have given up more than once recently, with the time of the first failure.
///
/// A Job whose pods were all rejected is deleted and recreated endlessly, and is never recorded as failed.
/// For a part of each cycle nothing looks wrong.
fn remade_jobs(cluster: &Cluster) -> BTreeMap<&str, Timestamp> {
    let mut rounds: BTreeMap<&str, (i64, Option<Timestamp>)> = BTreeMap::new();
    for event in &cluster.events {
        let gave_up = event.kind == "Job" && event.reason == "BackoffLimitExceeded";
        if gave_up && cluster.is_recent(event.last) {
            let (count, first) = rounds.entry(&event.name).or_default();
            *count += event.count;
            *first = first.iter().copied().chain(event.first).min();
        }
    }
    let again = rounds.into_iter().filter(|(_, (count, _))| *count > 1);
    again.filter_map(|(name, (_, first))| Some((name, first?))).collect()
}

/// Reports stages in progress whose Job is recreated repeatedly and does not exist at this moment.
fn between_two_jobs(
    cluster: &Cluster,
    findings: &mut Findings,
    package_runs: &PackageRuns<'_>,
    remade: &BTreeMap<&str, Timestamp>,
) {
    for skyhook in cluster.skyhooks.iter().filter(|_| !remade.is_empty()) {
        for (node, on) in cluster.tracked(skyhook.name()) {
            for entry in on.entries().iter().filter(|e| e.state == State::InProgress) {
                let version = entry.version.replace('.', "-");
                let name =
                    format!("{}-{}-{version}-{}-{}-", skyhook.name(), entry.name, entry.stage, node.name);
                let there = package_runs
                    .newest(skyhook.name(), &node.name, entry)
                    .is_some_and(|run| run.stage == entry.stage && run.job.is_some());
                let mut remade = remade.range(name.as_str()..).take_while(|(job, _)| job.starts_with(&name));
                let Some((_, since)) = remade.next().filter(|_| !there) else {
                    continue;
                };
                let subject = Subject::skyhook_on_node(skyhook, node).package(&entry.name);
                let finding = findings.report(subject, rejects(&entry.stage, &entry.name));
                finding.warning_if(!skyhook.is_active());
                close_rejected(cluster, finding, &node.name, entry, Some(*since), true);
            }
        }
    }
}

fn rejects(stage: &Stage, package: &str) -> String {
    format!("the kubelet rejects the pods for stage {stage} of package {package}, and the job keeps retrying")
}

/// `replaced`: whether the retries of a Job were exhausted, and the operator has created another Job.
fn close_rejected(
    cluster: &Cluster,
    finding: &mut Finding,
    node: &str,
    entry: &Entry,
    since: Option<Timestamp>,
    replaced: bool,
) {
    finding.effect_of(&["SKY409"]);
    // At first only a warning: the node may have room again at any moment.
    finding.warning_if(!replaced && !cluster.is_stale(since)).since(since).entry(node, entry).describe_node(
        "See why the node rejects the pods; once the cause is gone, the next job continues automatically",
        node,
    );
}

fn report<'f>(
    cluster: &Cluster,
    findings: &'f mut Findings,
    package_run: &PackageRun<'_>,
    message: String,
) -> &'f mut Finding {
    let finding = findings.report(Subject::package_run(package_run), message);
    let active = cluster.skyhook(&package_run.skyhook).is_some_and(Skyhook::is_active);
    finding.warning_if(!active);
    finding
}

fn rejection(finding: &mut Finding, pod: &Pod) {
    finding.evidence(pod, "status.reason", &pod.status.reason);
    if !pod.status.message.is_empty() {
        finding.evidence(pod, "status.message", &pod.status.message);
    }
}

/// Adds the command that deletes the ended pod or Job, which the operator then recreates.
fn start_again(cluster: &Cluster, finding: &mut Finding, package_run: &PackageRun<'_>) {
    if package_run.unproven(cluster).is_some() {
        return;
    }
    finding.retry("Retry the stage", &package_run.skyhook, package_run.node, &package_run.package);
}

/// Adds evidence that the operator did not create the pod, and the command that removes the pod's label: the
/// operator counts pods of all namespaces by their labels.
fn not_ours(cluster: &Cluster, finding: &mut Finding, pod: &Pod, why: &Unproven) {
    let label = cluster.flavor().key("name");
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    finding.evidence(pod, why.verdict(), why).kubectl(
        Grade::B1,
        "Remove the label if the pod belongs to something else",
        ["label", "pod", "-n", namespace, pod.name(), &format!("{label}-")],
    );
}

/// The newest pod that the kubelet has acknowledged, if it was rejected before a container was created.
fn rejected<'a>(package_run: &PackageRun<'a>) -> Option<&'a Pod> {
    // Skip a pod that the kubelet has not acknowledged: it may still be rejected.
    package_run.pods.iter().find(|p| !p.unacknowledged()).copied().filter(|p| p.rejected())
}
