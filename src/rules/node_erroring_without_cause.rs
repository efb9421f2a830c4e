use super::evidence::{
    execution_trouble, newest_execution, operator_log, pods_on_node, read_logs, rerun,
};
use super::{ALL, Finding, Findings, Grade, Severity, Subject};
use crate::api::{Entry, Skyhook, Stage, State, Status, keys};
use crate::cluster::{Absence, Cluster, Executions, Node, OnNode};

rule! {
    /// A node counts as failed, and no package on it says why.
    ///
    /// # What it means
    ///
    /// The operator calls the node erroring and starts nothing more there, though no package on it
    /// is erroring. Under a deployment policy the node counts as failed.
    ///
    /// # How it comes about
    ///
    /// The drain before an interrupt ran into `drainConfig.timeout`: the node stays cordoned, and
    /// the drain is not tried again. Or a Job gave up and the record of it was lost, or somebody
    /// changed the node's annotations by hand.
    ///
    /// # How to confirm
    ///
    /// The node's status annotation says `erroring`, no entry of its node state does, and nothing
    /// runs there for the custom resource. After a drain that ran into its timeout the annotation
    /// `drainStart_NAME` is there, and an event with the reason `Drain`.
    ///
    /// # How to fix
    ///
    /// Remove what keeps the node from being drained, or what the operator's log names. Then run the
    /// package again; if none has begun, reset the node, which starts all over there.
    ///
    /// # Since
    ///
    /// All operators; drains have a timeout that works since v0.19.0.
    SKY216 "node-erroring-without-cause" Error needs Skyhooks Nodes Pods Jobs
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let executions = cluster.executions();
    let mut told: Option<Vec<Finding>> = None;
    for skyhook in cluster.skyhooks.items().iter().filter(|s| s.runs()) {
        for node in cluster.selected(skyhook) {
            let on = cluster.on_node(node, skyhook.name());
            let Some(on) =
                on.filter(|on| is_without_cause(cluster, &executions, skyhook, node, on))
            else {
                continue;
            };
            let told = told.get_or_insert_with(|| what_others_tell(cluster));
            let told_here = told.iter().any(|f| {
                let subject = &f.subject;
                subject.node.as_ref() == Some(&node.name)
                    && subject
                        .skyhook
                        .as_deref()
                        .is_none_or(|s| s == skyhook.name())
            });
            if !told_here {
                report(cluster, findings, &executions, skyhook, node, on);
            }
        }
    }
}

/// Whether the operator calls the node failed for a reason that does not stand in its packages.
fn is_without_cause<'a>(
    cluster: &Cluster,
    executions: &Executions<'a>,
    skyhook: &Skyhook,
    node: &'a Node,
    on: &OnNode,
) -> bool {
    let failed = on.entries().iter().any(|e| e.state == State::Erroring);
    let stands = on.status == Some(Status::Erroring) && !failed && !on.is_malformed();
    if !stands || cluster.is_complete_on(skyhook, node) {
        return false;
    }
    if on.drain_start.is_some() {
        return true;
    }
    // The operator clears the mark when it comes to the next stage: what runs is such a stage, and after a reboot one
    // follows.
    let at_work = executions.on(skyhook.name(), &node.name).any(|e| e.alive());
    let mut ready = node.conditions.iter().filter(|c| c.kind == "Ready");
    let settled = ready.any(|c| c.is_true() && cluster.long_ago(c.last_transition_time));
    let back = |e: &Entry| {
        let past = matches!(e.stage, Stage::Interrupt | Stage::PostInterrupt);
        past && e.state == State::Complete
    };
    let rebooted = !settled && on.entries().iter().any(back);
    !at_work && !rebooted && cluster.absence_of_executions() != Absence::Unknown
}

/// The errors that the other rules find. That a batch waits for the node says nothing about the cause.
fn what_others_tell(cluster: &Cluster) -> Vec<Finding> {
    let others = ALL
        .iter()
        .filter(|r| !["SKY216", "SKY305"].contains(&r.code));
    let found = others.flat_map(|rule| {
        let mut findings = Findings::of(rule);
        (rule.detect)(cluster, &mut findings);
        findings.into_inner().0
    });
    found.filter(|f| f.severity == Severity::Error).collect()
}

fn report<'a>(
    cluster: &Cluster,
    findings: &mut Findings,
    executions: &Executions<'a>,
    skyhook: &Skyhook,
    node: &'a Node,
    on: &OnNode,
) {
    let name = skyhook.name();
    let reference = skyhook.reference();
    let message = match on.drain_start {
        Some(_) => format!(
            "the drain for {reference} ran into its timeout: the node stays cordoned, and nothing more is done here"
        ),
        None => format!("counts as failed for {reference}, and no package here says why"),
    };
    let finding = findings.report(Subject::node(&node.name, Some(name)), message);
    let object = format!("node/{}", node.name);
    let key = keys::status(cluster.generation(), name);
    finding.evidence(&object, key, "erroring");
    if let Some(start) = &on.drain_start {
        let key = cluster.generation().key(&format!("drainStart_{name}"));
        finding
            .since(start.parse().ok())
            .evidence(&object, key, start);
        if let Some(timeout) = &skyhook.spec.drain_config.timeout {
            finding.evidence(reference, "spec.drainConfig.timeout", timeout);
        }
    } else if cluster.absence_of_executions() == Absence::Presumed {
        finding.severity(Severity::Warning);
    }
    let open: Vec<&Entry> = on
        .entries()
        .iter()
        .filter(|e| skyhook.package(&e.name).is_some() && !skyhook.is_package_complete(&e.name, e))
        .collect();
    for entry in &open {
        finding.entry(&node.name, entry);
    }
    if on.drain_start.is_some() {
        pods_on_node(
            finding,
            "See which pods are still on the node, and what keeps them there",
            &node.name,
        );
    } else {
        operator_log(finding, cluster, "Read what the operator says of the node");
    }
    for entry in open.iter().filter(|_| on.drain_start.is_none()) {
        let Some(execution) = newest_execution(executions, name, &node.name, entry) else {
            continue;
        };
        execution_trouble(finding, execution);
        read_logs(finding, name, &node.name, &entry.name, &entry.stage);
        if entry.stage.is_uninstall() {
            continue;
        }
        let package = skyhook.package(&entry.name);
        let interrupt = package.and_then(|p| skyhook.pending_interrupt(&entry.name, p));
        let title = "Once the cause is gone, run the package again";
        rerun(
            finding,
            Grade::of_rerun(interrupt),
            title,
            name,
            &node.name,
            &entry.name,
        );
        if let Some(kind) = interrupt {
            finding.caveat(format!(
                "its interrupt follows: the node is drained, then {kind}"
            ));
        }
    }
    finding
        .remedy(
            Grade::B4,
            "Once the cause is gone, reset the node",
            ["reset", name, "--node", &node.name],
        )
        .caveat(match (skyhook.deleting(), on.entries().is_empty()) {
            (_, true) => {
                "nothing is recorded here yet: the work on the node begins anew, with the interrupts it has"
            }
            (true, false) => {
                "the record of what is installed is lost: what the deletion would have uninstalled stays on the host"
            }
            (false, false) => {
                "the record of what is installed is lost: packages run at once, with the interrupts that they have"
            }
        });
}
