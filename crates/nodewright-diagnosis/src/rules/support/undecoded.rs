//! Lowers the severity of findings about objects with values that could not be decoded.

use crate::cluster::{Cluster, Source, UnknownValues};
use crate::rules::{Finding, Finds, Severity};

/// Turns errors into warnings if they concern an object with an unknown value on which they may depend.
pub fn downgrade_uncertain<'a>(cluster: &Cluster, findings: impl Iterator<Item = &'a mut Finding>) {
    let mut unknown: Vec<UnknownValues<'_>> =
        Source::ALL.into_iter().flat_map(|source| cluster.unknown_values(source)).collect();
    unknown.retain(|object| object.undecoded.is_some());
    if unknown.is_empty() {
        return;
    }
    for finding in findings {
        if finding.severity < Severity::Error || finding.rule.finds == Finds::Unknowns {
            continue;
        }
        let concerned = unknown.iter().find(|object| concerns(cluster, finding, object));
        if let Some(object) = concerned {
            let why = object.undecoded.as_deref().unwrap_or_default();
            finding.severity(Severity::Warning).evidence(object, "unknown", why);
        }
    }
}

/// Whether a finding has an object as its subject or in its evidence, or is about a custom resource that
/// selects the node.
fn concerns(cluster: &Cluster, finding: &Finding, object: &UnknownValues<'_>) -> bool {
    let subject = &finding.subject;
    let mut evidence = finding.evidence.iter();
    let is_evidence = evidence.any(|evidence| {
        let kind = evidence.object.split('/').next().unwrap_or_default();
        let name = evidence.object.rsplit('/').next().unwrap_or_default();
        kind.eq_ignore_ascii_case(object.kind) && name == object.name
    });
    let is_subject = subject.kind == object.kind && subject.name == object.name;
    let concerns_all = || match (object.source, &subject.skyhook) {
        (Source::Skyhooks, Some(skyhook)) => skyhook == object.name,
        (Source::Nodes, skyhook) => {
            let selects = |name: &String| cluster.touches(name, object.name);
            subject.node.as_deref() == Some(object.name)
                || finding.blocked_nodes.iter().any(|node| node == object.name)
                || (subject.node.is_none() && skyhook.as_ref().is_some_and(selects))
        }
        _ => false,
    };
    is_evidence || is_subject || concerns_all()
}
