use super::strategies::strategies;
use super::{Input, LintFindings};
use crate::api::skyhook::DEFAULT_COMPARTMENT;
use crate::rules::{Severity, some_of};
use crate::text::plural;

lint_rule! {
    /// Selected nodes are in no compartment of the policy.
    ///
    /// # What it means
    ///
    /// The default budget and strategy apply to them. The finding is a warning if this default starts all of
    /// these nodes at once.
    ///
    /// # How to fix
    ///
    /// Add a compartment for these nodes, or set a default that is safe for them.
    SKY847 "nodes-in-no-compartment" Info
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for (manifest, policy) in input.policies() {
        if policy.spec.compartments.is_empty() || input.users(&policy.metadata.name).is_empty() {
            continue;
        }
        let Some(default) = strategies(policy).pop() else {
            continue;
        };
        let Some(nodes) = default.nodes(input, policy).filter(|nodes| !nodes.is_empty()) else {
            continue;
        };
        let at_once = nodes.len() > 1 && default.initial >= nodes.len() as i64;
        let message = format!(
            "no compartment matches {}: {}",
            plural(nodes.len(), "node"),
            if at_once {
                "the default strategy starts all of them at once"
            } else {
                "the default budget and strategy apply"
            }
        );
        let names: Vec<&str> = nodes.iter().map(|n| n.name.as_str()).collect();
        let finding = findings.report(manifest, &["spec", "compartments"], message);
        finding.subject.compartment = Some(DEFAULT_COMPARTMENT.to_owned());
        finding
            .fix("Add a compartment for these nodes, or set a default that is safe for them")
            .severity(if at_once { Severity::Warning } else { Severity::Info })
            .evidence("nodes", "in no compartment", some_of(&names));
    }
}
