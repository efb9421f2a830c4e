use jiff::{SignedDuration, Timestamp};

use super::evidence::{no_execution, operator_log};
use super::{ALL, Finding, Findings, Severity, Subject};
use crate::api::{Skyhook, Status};
use crate::cluster::{Absence, Cluster, Executions, Node};

rule! {
    /// A custom resource has work left, nothing is at work, and no other rule says why.
    ///
    /// # What it means
    ///
    /// On some nodes packages are left to be installed or uninstalled, and nothing that is known keeps
    /// the operator from them. Yet no pod or Job runs for the custom resource, and nothing about it
    /// has changed for a long time.
    ///
    /// # How it comes about
    ///
    /// The operator's pass ends early, or it cannot make pods: a quota or an admission policy of its
    /// namespace rejects them, the name and version of a package are not valid in a label, or it runs
    /// into conflicts again and again. Only its log tells.
    ///
    /// # How to confirm
    ///
    /// The newest time on the custom resource, its nodes, Jobs, pods and events is more than half an
    /// hour old.
    ///
    /// # How to fix
    ///
    /// Read the operator's log, and repair what ends its pass.
    ///
    /// # Since
    ///
    /// All operators.
    SKY222 "nothing-at-work" Warning needs Skyhooks Nodes Pods Jobs, also Events Operator,
        blocks Install Uninstall
}

const QUIET: SignedDuration = SignedDuration::from_mins(30);

fn detect(cluster: &Cluster, findings: &mut Findings) {
    if cluster.absence_of_executions() == Absence::Unknown {
        return;
    }
    let executions = cluster.executions();
    let mut others: Option<Vec<Finding>> = None;
    let running = cluster.skyhooks.items().iter().filter(|s| !s.deleting());
    for skyhook in running {
        // What the operator itself calls complete it has looked at.
        let done = skyhook.status.status == Some(Status::Complete);
        let mut own = executions.all().iter();
        if done || own.any(|e| e.skyhook == skyhook.name() && e.alive()) {
            continue;
        }
        // A spec that the operator has not looked at may be of this moment, where nobody notes when it was written.
        let dated = !skyhook.metadata.managed_fields.is_empty();
        if !dated && skyhook.status.observed_generation < skyhook.metadata.generation {
            continue;
        }
        let open = cluster.open_nodes(skyhook);
        if open.is_empty() {
            continue;
        }
        let Some(last) = last_sign(cluster, &executions, skyhook, &open) else {
            continue;
        };
        let quiet = cluster.taken_at.duration_since(last);
        if quiet < QUIET {
            continue;
        }
        let others = others.get_or_insert_with(|| what_others_find(cluster, findings));
        let about = |f: &Finding| {
            f.stops_all()
                || f.subject.skyhook.as_deref() == Some(skyhook.name())
                    && (f.severity > Severity::Info || !f.blocks.is_empty())
                || f.subject.skyhook.is_none()
                    && f.subject
                        .node
                        .as_ref()
                        .is_some_and(|n| open.iter().any(|o| o.name == *n))
        };
        if others.iter().any(about) {
            continue;
        }
        let finding = findings.report(
            Subject::skyhook(skyhook),
            format!(
                "{} has work left on {}, and nothing is at work",
                skyhook.reference(),
                match open.len() {
                    1 => "1 node".to_owned(),
                    n => format!("{n} nodes"),
                }
            ),
        );
        let names: Vec<&str> = open.iter().map(|n| n.name.as_str()).collect();
        // Not seeing what the operator is about does not say that it is about nothing.
        finding
            .passes()
            .since(Some(last))
            .evidence("nodes", "with work left", super::evidence::some_of(&names))
            .evidence(skyhook.reference(), "newest sign of work", last.to_string());
        if cluster.absence_of_executions() == Absence::Presumed {
            finding.severity(Severity::Info);
        }
        no_execution(finding, cluster, "package pods and jobs");
        operator_log(finding, cluster, "Read what the operator says of it");
    }
}

/// The newest time that tells of the operator's work for a custom resource.
fn last_sign(
    cluster: &Cluster,
    executions: &Executions<'_>,
    skyhook: &Skyhook,
    open: &[&Node],
) -> Option<Timestamp> {
    let meta = &skyhook.metadata;
    let name = skyhook.name();
    let start = format!("{}/", cluster.generation().key(name));
    let written = meta.managed_fields.iter().filter_map(|m| m.time);
    let conditions = skyhook.status.conditions.iter();
    let conditions = conditions.filter_map(|c| c.last_transition_time);
    let nodes = cluster.selected(skyhook).flat_map(|node| {
        let ours = node
            .conditions
            .iter()
            .filter(|c| c.kind.starts_with(&start));
        let ours = ours.filter_map(|c| c.last_transition_time);
        ours.chain(node.annotated)
    });
    let new = open.iter().filter_map(|n| n.created);
    let of_it = executions.all().iter().filter(|e| e.skyhook == name);
    let worked = of_it.flat_map(|e| {
        let ended = e.job.and_then(|j| j.status.completion_time);
        let failed = e.job.and_then(|j| j.failed()?.last_transition_time);
        e.created().into_iter().chain(ended).chain(failed)
    });
    let events = cluster.events.items().iter();
    let events = events.filter(|e| e.name == name || e.message.contains(name));
    written
        .chain(conditions)
        .chain(nodes.collect::<Vec<_>>())
        .chain(new)
        .chain(worked.collect::<Vec<_>>())
        .chain(events.filter_map(|e| e.last))
        .chain(meta.creation_timestamp)
        .max()
}

/// What the rules find that do not build on each other.
fn what_others_find(cluster: &Cluster, findings: &Findings) -> Vec<Finding> {
    let builds_on_others = ["SKY113", "SKY222"];
    let others = ALL.iter().filter(|r| !builds_on_others.contains(&r.code));
    others
        .flat_map(|rule| findings.by(rule, cluster).to_vec())
        .collect()
}
