use std::collections::HashMap;

use super::support::evidence::{failing_since, restarted_by_its_own_reboot};
use super::support::overdue::{exceeds_usual_attempts, operator_retries, retry_reason};
use super::support::reason::with_attempts;
use super::{Finding, Findings, Grade, Subject};
use crate::api::{Entry, Skyhook, State};
use crate::cluster::contrast::{Contrast, contrasts};
use crate::cluster::pod::ContainerTrouble;
use crate::cluster::{Cluster, Job, Node, NodeRecord, PackageRun, Pod};
use crate::model::Model;

rule! {
    /// A package fails on a node.
    ///
    /// # What it means
    ///
    /// A script of the package, or its check, ends with an error. The node does not get past this
    /// stage, and depending on the rollout's policy other nodes wait for it.
    ///
    /// # What causes it
    ///
    /// The script fails on this host, its container is killed (`OOMKilled`), or a stage runs into
    /// its timeout. Before Kubernetes 1.26, evictions count as failed attempts. A custom resource without a selector also
    /// runs on nodes for which its packages are not made. Older operators restart the pod in place forever; newer ones run a Job that
    /// gives up after a few attempts and then waits for someone to act.
    ///
    /// # How to confirm
    ///
    /// The entry in the node state is `erroring` at an installing stage. The pod's init container status
    /// shows the exit code.
    ///
    /// # How to fix
    ///
    /// Read the logs and fix the host or the package; a change to the package's environment,
    /// image or resources restarts the stage. Then retry the stage if its Job has failed permanently.
    ///
    /// # Affected versions
    ///
    /// All operators.
    ///
    /// # Severity
    ///
    /// A warning while a Job has attempts left; after the first failure of a bare pod, which the kubelet
    /// restarts at once; after the first failure of a pod whose Job was created while the cluster was read;
    /// and on a node that the custom resource no longer selects.
    SKY201 "package-erroring" Error needs Skyhooks Nodes, also Pods Jobs,
        blocks Install Uninstall, retried true
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let (model, package_runs) = (findings.model(), findings.package_runs());
    let mut splits = HashMap::new();
    for skyhook in &cluster.skyhooks {
        let unselective = split_without_selector(cluster, &model, skyhook, &mut splits);
        for (node, on) in cluster.tracked(skyhook.name()) {
            for entry in on.entries().iter().filter(|e| fails(skyhook, e)) {
                let package_run = package_runs.newest(skyhook.name(), &node.name, entry);
                let tries = retry_reason(cluster, package_run);
                let retries = operator_retries(cluster, package_run, on);
                let (trouble, message) = messages(cluster, entry, package_run);
                let finding = findings.report(
                    Subject::skyhook_on_node(skyhook, node).package(&entry.name),
                    match tries {
                        Some(why) => format!("{message}: {why}"),
                        None => with_attempts(message, cluster, entry, package_run, retries),
                    },
                );
                finding.group_message(&trouble);
                finding.warning_if(
                    tries.is_some() || retries && !exceeds_usual_attempts(cluster, entry, package_run),
                );
                finding.set_failing_since(failing_since(cluster, skyhook, node));
                finding.entry(&node.name, entry);
                finding.warning_unless_selected(skyhook, node);
                if let Some(package_run) = package_run {
                    finding.since(package_run.created());
                    finding.package_run_trouble(cluster, package_run);
                }
                finding.reruns_wait(skyhook);
                if skyhook.spec.node_selectors.is_empty() {
                    finding.evidence(skyhook, "spec.nodeSelectors", "none: every node is selected");
                }
                if let Some(contrast) = &unselective {
                    select_fewer(finding, skyhook, contrast);
                }
                let by_kubelet = package_run.and_then(|run| run.job?.failed_by_kubelet(&run.pods));
                if let Some(pod) = by_kubelet {
                    let what = if pod.evicted() { "evicted" } else { "rejected" };
                    finding.group_message(format!(
                        "{trouble}: the kubelet {what} all its pods ({})",
                        pod.status.reason
                    ));
                    let title = if pod.evicted() {
                        "Free the resource that the node is short of"
                    } else {
                        "See why the node rejects the pods, and remove the cause"
                    };
                    finding.describe_node(title, &node.name);
                }
                let killed = out_of_memory(finding, skyhook, entry, package_run);
                let by_policy = package_run.and_then(|run| {
                    Some((run, run.job.filter(|job| job.deadline_exceeded())?, run.foreign_deadline()?))
                });
                if let Some((run, job, deadline)) = by_policy {
                    finding.evidence(run, "spec.activeDeadlineSeconds", deadline).describe_job(
                        "Find out which admission policy sets activeDeadlineSeconds on jobs, and exempt the operator's namespace",
                        job,
                    );
                }
                if package_run.is_some_and(interrupt_out_of_memory) {
                    finding.list_operators("Upgrade the operator to v0.19.1 or later").caveat(
                        "older operators give an interrupt 64Mi of memory, regardless of the package's \
                         resources; newer ones give it 256Mi",
                    );
                } else if by_kubelet.is_none() && by_policy.is_none() {
                    // Otherwise the logs do not show the cause.
                    finding.read_logs(skyhook.name(), &node.name, &entry.name, &entry.stage);
                }
                if unselective.is_some() {
                    finding.caveat("only if the node is meant to be selected");
                }
                if killed {
                    finding.caveat("the log ends where the container was killed");
                }
                let uninstalls = uninstall_requested(skyhook, entry);
                if uninstalls {
                    finding.caveat("once the installation completes, the requested uninstall starts");
                }
                if !skyhook.selects(node) {
                    select_again(finding, skyhook, package_run);
                    continue;
                }
                let retried = finding.retry_given_up(package_run, skyhook, &node.name, entry);
                if uninstalls {
                    // The uninstall starts only after the failing installation completes.
                    finding
                        .package_field(skyhook, &entry.name, "uninstall.apply", "true")
                        .cancel_uninstall(
                            "If the package should stay installed, cancel the uninstall",
                            skyhook,
                            &entry.name,
                        )
                        .skip_uninstall(skyhook.name(), &node.name, entry);
                    continue;
                }
                // Do not offer a rerun: the running Job succeeds once the cause is fixed, without another
                // interrupt.
                if retries && package_run.and_then(|run| run.job).is_some_and(Job::restarts_in_place) {
                    continue;
                }
                let title = if retried {
                    "Or run the package again from the start"
                } else {
                    "Once the cause is gone, run the package again"
                };
                finding.rerun(title, skyhook, node, &entry.name);
            }
        }
    }
}

/// The kubelet's reason for the end of a container that exceeded its memory limit.
const OUT_OF_MEMORY: &str = "OOMKilled";

/// What separates failing from complete nodes, by the names of both: many custom resources fail on the same nodes.
type Splits<'a> = HashMap<[Vec<&'a str>; 2], Option<Contrast>>;

/// For a custom resource without a selector: a value that all nodes on which it fails have, and no complete one.
fn split_without_selector<'a>(
    cluster: &'a Cluster,
    model: &Model<'_>,
    skyhook: &'a Skyhook,
    splits: &mut Splits<'a>,
) -> Option<Contrast> {
    if !skyhook.spec.node_selectors.is_empty() {
        return None;
    }
    let failing =
        |(node, on): (_, &NodeRecord)| on.entries().iter().any(|e| fails(skyhook, e)).then_some(node);
    let failing: Vec<&'a Node> = cluster.tracked(skyhook.name()).filter_map(failing).collect();
    if failing.is_empty() {
        return None;
    }
    let healthy: Vec<&'a Node> =
        cluster.selected(skyhook).filter(|node| model.is_done_on(skyhook, node)).collect();
    let names = |nodes: &[&'a Node]| nodes.iter().map(|node| node.name.as_str()).collect();
    let split = || contrasts(&failing, &healthy).into_iter().find(Contrast::separates);
    splits.entry([names(&failing), names(&healthy)]).or_insert_with(split).clone()
}

/// Adds the remedy that selects only the nodes for which the packages are made.
fn select_fewer(finding: &mut Finding, skyhook: &Skyhook, contrast: &Contrast) {
    let Contrast { attribute, value, .. } = contrast;
    finding
        .edit(
            Grade::B2,
            format!(
                "Select only the nodes that the packages are made for: all failing nodes have {attribute} {value}, and no \
                 complete node does"
            ),
            skyhook,
        )
        .caveat(
            "nodes that are no longer selected keep the installed packages, the operator's annotations and labels, and a \
             runtime-required taint",
        );
}

/// If a stage exceeded its memory limit, adds the limit and how to raise it, and returns true. The logs of a
/// killed container rarely show the cause.
fn out_of_memory(
    finding: &mut Finding,
    skyhook: &Skyhook,
    entry: &Entry,
    package_run: Option<&PackageRun<'_>>,
) -> bool {
    let killed = package_run.filter(|run| !run.interrupt).and_then(|run| run.trouble());
    let Some((pod, trouble)) = killed.filter(|(_, trouble)| trouble.reason == OUT_OF_MEMORY) else {
        return false;
    };
    if let Some(limit) = pod.memory_limit(trouble.container) {
        let field = format!("container {}: memory limit", trouble.container);
        finding.evidence(pod, field, limit);
    }
    let field = format!("spec.packages.{}.resources.memoryLimit", entry.name);
    finding
        .edit_to_continue(format!("Raise {field}"), skyhook)
        .caveat("packages run again on every node where they are not complete");
    true
}

/// Whether an interrupt exceeded the memory limit of older operators.
fn interrupt_out_of_memory(package_run: &PackageRun<'_>) -> bool {
    let killed = |(pod, trouble): (&Pod, ContainerTrouble<'_>)| {
        trouble.reason == OUT_OF_MEMORY && pod.memory_limit(trouble.container) == Some("64Mi")
    };
    package_run.interrupt && package_run.trouble().is_some_and(killed)
}

/// Whether the uninstall of the package is requested. Deletions have their own finding.
fn uninstall_requested(skyhook: &Skyhook, entry: &Entry) -> bool {
    let package = skyhook.package(&entry.name);
    !skyhook.deleting() && package.is_some_and(|p| skyhook.uninstalls(p))
}

/// Adds remedies for a node that is no longer selected: the operator ignores the node.
fn select_again(finding: &mut Finding, skyhook: &Skyhook, package_run: Option<&PackageRun<'_>>) {
    finding.edit(
        Grade::B2,
        "If the package should be installed here, make the selector match the node again",
        skyhook,
    );
    let alive = package_run.filter(|run| run.alive());
    let named = alive.and_then(|alive| Some((alive, alive.kind_and_name()?)));
    if let Some((alive, (kind, name))) = named {
        let namespace = alive.namespace();
        finding
            .kubectl(
                Grade::B1,
                "If the package should not be installed here, delete the pod or job that is still running",
                ["delete", kind, "-n", namespace, name],
            )
            .caveat("changes that the script made to the host remain");
    }
}

/// Whether the entry fails outside a deletion or uninstall, which other rules report.
fn fails(skyhook: &Skyhook, entry: &Entry) -> bool {
    let current = skyhook.package(&entry.name).filter(|p| p.version == entry.version);
    entry.state == State::Erroring
        && !entry.stage.is_uninstall()
        && current.is_some_and(|p| !(skyhook.deleting() && p.uninstall().enabled))
        && !restarted_by_its_own_reboot(skyhook, entry)
}

/// The message without attempts and retries, which groups findings, and the message with the exit code of the newest failed
/// attempt, unless its pod ended as a whole.
fn messages(cluster: &Cluster, entry: &Entry, package_run: Option<&PackageRun<'_>>) -> (String, String) {
    let trouble = package_run.and_then(PackageRun::trouble).map(|(_, trouble)| trouble);
    let killed = trouble.as_ref().is_some_and(|trouble| trouble.reason == OUT_OF_MEMORY);
    let ending = package_run.and_then(|run| run.ended_as_a_whole(cluster));
    let code = trouble.filter(|_| !killed && ending.is_none()).and_then(|trouble| trouble.exit_code);
    // The status of an evicted or rejected pod is in the message about all attempts.
    let ending = ending.filter(|(pod, _)| pod.status.reason.is_empty()).map(|(_, ending)| ending.reason);
    let why = if killed { Some(OUT_OF_MEMORY) } else { ending };
    let why = why.map_or_else(String::new, |why| format!(" ({why})"));
    let common = format!("package {} fails at stage {}{why}", entry.name, entry.stage);
    let message = code.map_or_else(|| common.clone(), |code| format!("{common} (exit code {code})"));
    (common, message)
}
