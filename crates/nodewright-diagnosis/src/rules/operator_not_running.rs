use super::{Finding, Findings, Grade, Severity, Subject};
use crate::api::Skyhook;
use crate::cluster::installation::{Lease, Namespace, WhyDown};
use crate::cluster::{Certainty, Cluster, Deployment};
use crate::text::some_of;

/// Maximum number of pods in a caveat.
const SHOWN: usize = 3;

rule! {
    /// The operator is not running.
    ///
    /// # What it means
    ///
    /// No pod of the operator is available, all of them end again and again, or none leads. Nothing changes on any node, deletions
    /// hang in their finalizer, and if the webhooks are installed, every change to a custom resource is rejected,
    /// including a pause or the removal of a finalizer.
    ///
    /// # What causes it
    ///
    /// The operator's image cannot be pulled, or the operator runs out of memory on a large cluster, rejects
    /// its configuration, was scaled to zero, or was uninstalled before its custom resources, as by a
    /// deletion of its namespace. Or all nodes have the runtime-required taint, which only the operator
    /// removes, and its own pod does not tolerate it.
    ///
    /// # How to confirm
    ///
    /// The operator's Deployment has no available replica, or does not exist. If it does not exist and no custom
    /// resource waits for the operator, this is a warning. If its condition `Progressing` is true, this is a warning
    /// for the first ten minutes: the operator has just started, or was restarted or upgraded. An operator also counts
    /// as ending again and again, even if it is available, when its container has ended three times or more, the last
    /// time after less than ten minutes, and has not run for five minutes since. Or the Deployment is available, and elects
    /// a leader, but nothing has renewed the Lease `3c22c1ae.nvidia.com` in its namespace for ten minutes.
    ///
    /// # How to fix
    ///
    /// Check its pods and fix what they report. All other findings may resolve themselves once the operator runs.
    ///
    /// # Affected versions
    ///
    /// All operators.
    SKY501 "operator-not-running" Error needs Skyhooks Operator, also OperatorPods Webhooks,
        blocks Reconcile
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    if cluster.skyhooks.items().is_empty() || cluster.operators.absence() != Certainty::Proven {
        return;
    }
    match cluster.operator().why_down() {
        // Another rule reports a CRD that is being deleted: no operator can be installed before its end.
        Some(WhyDown::Absent) if cluster.deleted_definition().is_some() => {}
        Some(WhyDown::Absent) => report_none(cluster, findings),
        Some(WhyDown::NoReplica) => {
            cluster.operators.iter().for_each(|deployment| report_down(cluster, findings, deployment));
        }
        Some(WhyDown::Silent(lease)) => report_silent(cluster, findings, lease),
        None => {}
    }
}

fn report_none(cluster: &Cluster, findings: &mut Findings) {
    let work_in_progress = findings.model().is_operator_needed();
    let ending = terminating(cluster);
    let finding = findings.report(
        Subject::object("Deployment", "operator"),
        match ending.first() {
            Some(namespace) => format!(
                "no deployment of the operator was found, and namespace {} is Terminating, so the custom resources are not \
                 reconciled",
                namespace.metadata.name
            ),
            None => "no deployment of the operator was found, so the custom resources are not reconciled".to_owned(),
        },
    );
    if !work_in_progress {
        finding.severity(Severity::Warning);
    }
    finding.mark_permanent().evidence("deployments", "running the operator", "none");
    for namespace in &ending {
        let name = &namespace.metadata.name;
        let object = format!("namespace/{name}");
        finding.since(namespace.metadata.deletion_timestamp).evidence(&object, "status.phase", "Terminating");
        for condition in namespace.remaining() {
            finding.evidence(&object, format!("condition {}", condition.kind), &condition.message);
        }
        let remedy = finding.kubectl(
            Grade::B0,
            "See what blocks the deletion of the namespace; the operator can be installed there only after the \
             namespace is deleted",
            ["describe", "namespace", name],
        );
        let pods: Vec<String> = cluster
            .pods
            .iter()
            .filter(|pod| pod.namespace() == name && pod.metadata.deleting())
            .map(|pod| match pod.spec.node_name.as_str() {
                "" => pod.to_string(),
                node => format!("{pod} on {node}"),
            })
            .collect();
        if !pods.is_empty() {
            remedy.caveat(format!("not terminated yet: {}", some_of(&pods, SHOWN)));
        }
    }
    if ending.is_empty() {
        finding.list_operators("List controller deployments; install the operator if it is missing");
    }
    for skyhook in cluster.skyhooks.iter().filter(|s| s.deleting() && s.has_finalizer()) {
        finding
            .remedy(
                "If the operator will not be reinstalled, strip the finalizer",
                ["finalizer", "strip", skyhook.name()],
            )
            .caveat("uninstall.sh does not run on any node");
    }
    let names: Vec<&str> = cluster.skyhooks.iter().filter(|s| !s.deleting()).map(Skyhook::name).collect();
    if let Some(first) = names.first() {
        let delete = ["delete", &cluster.flavor().resource(), "--wait=false"];
        let strip = if cluster.webhooks().unreachable("UPDATE", None).is_empty() {
            "then strip"
        } else {
            "then delete the webhook configurations that SKY505 names, strip"
        };
        finding
            .kubectl(
                Grade::B4,
                "If the operator will not be reinstalled, delete the custom resources and strip their finalizers",
                delete.into_iter().chain(names.iter().copied()),
            )
            .effect("uninstalls do not run")
            .caveat(format!(
                "{strip} each finalizer, as in `kubectl skyhook finalizer strip {first}`, and run `kubectl skyhook leftovers`; \
                 uninstall.sh does not run on any node"
            ));
    }
}

/// Terminating namespaces in which the operator may run.
fn terminating(cluster: &Cluster) -> Vec<&Namespace> {
    let possible = cluster.operator().possible_namespaces();
    let mut ending: Vec<&Namespace> = cluster.installation.namespaces.iter().collect();
    ending.retain(|found| found.metadata.deleting() && possible.contains(found.metadata.name.as_str()));
    ending
}

fn report_silent(cluster: &Cluster, findings: &mut Findings, lease: &Lease) {
    for deployment in cluster.operators.iter() {
        let finding = findings.report(
            Subject::deployment(deployment),
            "the operator is available but no longer renews its leader lease, so the custom resources are not reconciled",
        );
        let object = format!("lease/{}", lease.name());
        finding
            .since(lease.renewed())
            .evidence(&object, "holderIdentity", lease.holder())
            .evidence(&object, "last renewal", lease.renewed().unwrap_or_default())
            .operator_log(cluster, "Check the operator's log for the cause");
        finding.kubectl(
            Grade::B1,
            "Restart the operator if its replicas hang",
            ["rollout", "restart", "deployment", "-n", deployment.namespace(), deployment.name()],
        );
    }
}

fn report_down(cluster: &Cluster, findings: &mut Findings, deployment: &Deployment) {
    let zero = deployment.replicas() == 0;
    let limit = deployment.memory_limit().filter(|_| !zero && out_of_memory(cluster, deployment));
    let circle = waits_for_own_taint(cluster, deployment);
    let what = if zero {
        "the operator is scaled to zero".to_owned()
    } else if let Some(limit) = limit {
        format!("the operator exceeds its memory limit of {limit:.0} MiB and is killed")
    } else if let Some(pod) = cluster.operator().crash_looping(deployment) {
        match pod.trouble().and_then(|trouble| trouble.exit_code) {
            Some(code) => format!("the operator is crash-looping (exit code {code})"),
            None => "the operator is crash-looping".to_owned(),
        }
    } else if let Some(key) = &circle {
        format!("the operator's pod does not tolerate the taint {key}, which only the operator removes")
    } else {
        "no replica of the operator is available".to_owned()
    };
    let finding = findings.report(
        Subject::deployment(deployment),
        format!("{what}, so the custom resources are not reconciled"),
    );
    finding.since(deployment.unavailable_since()).evidence(
        deployment,
        "available",
        format!("{} of {}", deployment.available_replicas(), deployment.replicas()),
    );
    add_pod_problems(finding, cluster, deployment);
    finding.effect_of(&["SKY503"]);
    finding.warning_if(cluster.operator().coming_up_since().is_some());
    let change = match (circle, limit) {
        (Some(key), _) => Some(format!("Add a toleration of {key} to the operator's Deployment")),
        (None, Some(limit)) => Some(format!("Raise the operator's memory limit, which is {limit:.0} MiB")),
        (None, None) => None,
    };
    match change {
        _ if zero => finding.scale_up("Scale up the operator", deployment),
        Some(change) => finding
            .edit_operator(Grade::B2, &format!("{change}, in the values of its chart"), deployment)
            .caveat("rollouts that were in progress continue"),
        None => finding.describe_operator("See why", deployment),
    };
}

/// The key of a runtime-required taint that keeps the operator's pod from all nodes: only the operator would remove it.
fn waits_for_own_taint(cluster: &Cluster, operator: &Deployment) -> Option<String> {
    let mut reasons = cluster.operator().pods_of(operator).filter_map(|pod| pod.unschedulable());
    let keys = cluster.runtime_required().taints();
    reasons.find_map(|why| {
        let named = keys
            .iter()
            .find(|(key, _)| why.contains(&format!("{{{key}:")) || why.contains(&format!("{{{key}}}")))?;
        Some(named.0.clone())
    })
}

/// Whether the kernel killed a container of the operator for its memory use.
fn out_of_memory(cluster: &Cluster, operator: &Deployment) -> bool {
    cluster.operator().pods_of(operator).any(|pod| {
        let ended = pod.trouble().or_else(|| pod.last_failure());
        ended.is_some_and(|ended| ended.reason == "OOMKilled")
    })
}

/// Adds the problems of the operator's pods, or the reason why none could be created.
fn add_pod_problems(finding: &mut Finding, cluster: &Cluster, operator: &Deployment) {
    if let Some(failure) = operator.replica_failure() {
        finding.evidence(operator, "condition ReplicaFailure", failure);
    }
    for pod in cluster.operator().pods_of(operator) {
        if let Some(why) = pod.unschedulable() {
            finding.evidence(pod, "condition PodScheduled", why);
        }
        if let Some(ended) = pod.trouble().or_else(|| pod.last_failure()) {
            finding.container_trouble(cluster, pod, &ended);
        }
    }
}
