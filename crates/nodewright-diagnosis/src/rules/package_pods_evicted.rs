use std::collections::{BTreeMap, BTreeSet};

use super::{Findings, Subject};
use crate::cluster::pod::Ending;
use crate::cluster::{Cluster, Event, PackageRun, Pod};

rule! {
    /// The pods of a package are evicted.
    ///
    /// # What it means
    ///
    /// The kubelet, the scheduler or another program evicts package pods. The Job starts another pod, without
    /// counting the evicted one as a failed attempt, and the script starts from the beginning each time: the stage may
    /// never end, and no package is shown as failing.
    ///
    /// # What causes it
    ///
    /// The kubelet evicts pods if images, logs or files of the package fill the disk of the node, or pods use more memory
    /// than the node has. The scheduler preempts pods for others of higher priority, a taint with effect `NoExecute` evicts
    /// pods that do not tolerate it, and autoscalers and people evict pods from nodes that they drain.
    ///
    /// # How to confirm
    ///
    /// Pods of the package in phase `Failed` with the reason `Evicted` or the condition `DisruptionTarget`, or at least two
    /// events such as `TaintManagerEviction` and `Preempted` about its pods, while its Job still runs. The node's
    /// conditions `DiskPressure` and `MemoryPressure` are only true for as long as the shortage lasts.
    ///
    /// # How to fix
    ///
    /// Free space on the node, or stop the eviction. The Job continues by itself.
    ///
    /// # Affected versions
    ///
    /// Operators v0.18.0 and later. Up to v0.17 an evicted pod blocks its stage, which is another finding.
    SKY413 "package-pods-evicted" Warning needs Skyhooks Pods Jobs, also Nodes Events,
        blocks Install Uninstall, retried true
}

/// Events about evictions of pods by others than the kubelet.
const BY_OTHERS: [&str; 3] = ["Preempted", "Preempting", "TaintManagerEviction"];

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let package_runs = findings.package_runs();
    let mut evictions: BTreeMap<&str, BTreeMap<&str, &Event>> = BTreeMap::new();
    let events = cluster.events.iter().filter(|event| event.kind == "Pod");
    for event in events.filter(|event| BY_OTHERS.contains(&event.reason.as_str())) {
        if let Some((job, _)) = event.name.rsplit_once('-') {
            evictions.entry(job).or_default().insert(&event.name, event);
        }
    }
    for package_run in package_runs.all() {
        let Some(job) = package_run.job.filter(|_| !package_run.finished()) else {
            continue;
        };
        let evicted: Vec<&Pod> = package_run.pods.iter().copied().filter(|pod| pod.evicted()).collect();
        match evicted.first() {
            Some(newest) => by_kubelet(cluster, findings, package_run, &evicted, newest),
            None => {
                let events = evictions.get(job.metadata.name.as_str());
                by_others(cluster, findings, package_run, events);
            }
        }
    }
}

fn by_kubelet<'a>(
    cluster: &'a Cluster,
    findings: &mut Findings,
    package_run: &PackageRun<'a>,
    evicted: &[&'a Pod],
    newest: &'a Pod,
) {
    let ending = cluster.ending(newest);
    let finding = findings.report(
        Subject::package_run(package_run),
        format!(
            "the kubelet evicts the pods for stage {} of package {}: {}",
            package_run.stage,
            package_run.package,
            eviction_cause(ending.map_or("", |ending| ending.message))
        ),
    );
    finding
        .mark_transient()
        .since(evicted.iter().filter_map(|pod| pod.metadata.creation_timestamp).min())
        .evidence(package_run, "evicted pods", evicted.len());
    if let Some(ending) = ending {
        finding.ending(newest, ending);
    }
    if let Some(node) = cluster.node(package_run.node) {
        let pressure = node.conditions().iter().filter(|c| c.kind.ends_with("Pressure"));
        for condition in pressure.filter(|c| c.is_true()) {
            finding.evidence(node, format!("condition {}", condition.kind), "True");
        }
    }
    finding.describe_node(
        "See which resource the node is short of, and free some; the job continues automatically",
        package_run.node,
    );
}

/// Reports a stage whose pods are evicted again and again. A reboot ends the pods of an interrupt, and one eviction is past.
fn by_others<'a>(
    cluster: &'a Cluster,
    findings: &mut Findings,
    package_run: &PackageRun<'a>,
    events: Option<&BTreeMap<&'a str, &'a Event>>,
) {
    let disrupted: Vec<&Pod> =
        package_run.pods.iter().copied().filter(|pod| pod.ended() && pod.disrupted()).collect();
    let mut pods: BTreeSet<&str> = disrupted.iter().map(|pod| pod.name()).collect();
    pods.extend(events.into_iter().flat_map(BTreeMap::keys));
    if package_run.interrupt || pods.len() < 2 {
        return;
    }
    let newest = events.and_then(|events| events.values().max_by_key(|event| event.last));
    let (object, ending) = match (disrupted.first().and_then(|pod| Some((pod, cluster.ending(pod)?))), newest)
    {
        (Some((pod, ending)), _) => (pod.to_string(), ending),
        (None, Some(event)) => {
            let ending = Ending { field: "event", reason: &event.reason, message: &event.message };
            (format!("pod/{}", event.name), ending)
        }
        (None, None) => return,
    };
    let who = match ending.reason {
        "Preempted" | "Preempting" | "PreemptionByScheduler" => "for pods of higher priority",
        "TaintManagerEviction" | "DeletionByTaintManager" => "because of a NoExecute taint",
        "TerminationByKubelet" => "by the kubelet",
        _ => "by another program",
    };
    let finding = findings.report(
        Subject::package_run(package_run),
        format!(
            "the pods for stage {} of package {} are evicted {who}, and the job creates new pods each time",
            package_run.stage, package_run.package
        ),
    );
    finding.mark_transient().evidence(package_run, "evicted pods", pods.len()).evidence(
        object,
        ending.field,
        format!("{}: {}", ending.reason, ending.message),
    );
    if let Some(node) = cluster.node(package_run.node) {
        for taint in node.taints().iter().filter(|taint| taint.effect == "NoExecute") {
            finding.taint(node, taint);
        }
    }
    finding.describe_node("See who evicts the pods, and stop it until the stage is done", package_run.node);
}

/// The first sentence of the kubelet's message: `The node was low on resource: ephemeral-storage`.
pub(super) fn eviction_cause(message: &str) -> &str {
    let first = message.split(". ").next().unwrap_or_default();
    match first.trim_end_matches('.') {
        "" => "the node is short of a resource",
        cause => cause,
    }
}
