use super::evidence::{
    execution_trouble, newest_execution, no_longer_selected, operator_retries, read_logs, rerun,
    restarted_by_its_own_reboot,
};
use super::{Findings, Grade, Severity, Subject};
use crate::api::{Entry, Skyhook, State};
use crate::cluster::{Cluster, Execution};

rule! {
    /// A package fails on a node.
    ///
    /// # What it means
    ///
    /// A script of the package, or its check, ends with an error. The node does not get past this
    /// stage, and depending on the rollout's policy other nodes wait for it.
    ///
    /// # How it comes about
    ///
    /// The script fails on this host, its container is killed (`OOMKilled`), or a stage runs into
    /// its timeout. Older operators restart the pod in place for ever; newer ones run a Job that
    /// gives up after a few attempts and then waits for someone to act.
    ///
    /// # How to confirm
    ///
    /// The entry in the node state is `erroring` at an installing stage. The pod's init container
    /// tells the exit code.
    ///
    /// # How to fix
    ///
    /// Read the logs and repair the host or the package; a change of the package's environment,
    /// image or resources starts the stage anew. Then run the package again if its Job has given up.
    ///
    /// # Since
    ///
    /// All operators. From v0.18.0 on, while a Job has attempts left, this is a warning; so
    /// it is where the custom resource no longer selects the node.
    SKY201 "package-erroring" Error needs Skyhooks Nodes, also Pods Jobs
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let executions = cluster.executions();
    for skyhook in cluster.skyhooks.items() {
        for (node, on) in cluster.tracked(skyhook.name()) {
            for entry in on.entries().iter().filter(|e| fails(skyhook, e)) {
                let execution = newest_execution(&executions, skyhook.name(), &node.name, entry);
                let retries = operator_retries(cluster, execution, on);
                let finding = findings.report(
                    Subject::node(&node.name, Some(skyhook.name())).package(&entry.name),
                    message(entry, execution, retries),
                );
                if retries {
                    finding.severity(Severity::Warning);
                }
                finding.entry(&node.name, entry);
                no_longer_selected(finding, skyhook, node);
                if let Some(execution) = execution {
                    finding.since(execution.created());
                    execution_trouble(finding, execution);
                }
                read_logs(
                    finding,
                    skyhook.name(),
                    &node.name,
                    &entry.name,
                    &entry.stage,
                );
                let interrupt = skyhook
                    .package(&entry.name)
                    .and_then(|p| skyhook.pending_interrupt(&entry.name, p));
                rerun(
                    finding,
                    Grade::of_rerun(interrupt),
                    "Once the cause is gone, run the package again",
                    skyhook.name(),
                    &node.name,
                    &entry.name,
                )
                .for_all_nodes(["--all-nodes", "--failed-only"]);
                if let Some(kind) = interrupt {
                    finding.caveat(format!(
                        "its interrupt follows: the node is drained, then {kind}"
                    ));
                }
            }
        }
    }
}

/// Whether the entry fails and is nobody else's finding: a deletion or an uninstall has its own.
fn fails(skyhook: &Skyhook, entry: &Entry) -> bool {
    let current = skyhook
        .package(&entry.name)
        .filter(|p| p.version == entry.version);
    entry.state == State::Erroring
        && !entry.stage.is_uninstall()
        && current.is_some_and(|p| !(skyhook.deleting() && p.uninstall().enabled))
        && !restarted_by_its_own_reboot(skyhook, entry)
}

fn message(entry: &Entry, execution: Option<&Execution<'_>>, retries: bool) -> String {
    let what = format!("package {} fails at stage {}", entry.name, entry.stage);
    let job = execution.and_then(|e| e.job);
    match job {
        Some(job) if job.failed().is_some() => {
            format!(
                "{what}: its job has given up after {} failed attempts",
                job.status.failed
            )
        }
        Some(job) if retries => {
            format!(
                "{what}: its job tries again, {} failed so far",
                job.status.failed
            )
        }
        None if retries => format!("{what}; the operator does not give it up yet"),
        _ => what,
    }
}
