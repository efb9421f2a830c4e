use super::strategies::strategies;
use super::{Input, LintFindings};
use crate::api::skyhook::DEFAULT_COMPARTMENT;
use crate::rules::{Severity, some_of};
use crate::view::plural;

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
        let all = strategies(policy);
        let default = all.iter().find(|s| s.name == DEFAULT_COMPARTMENT);
        let nodes = default.and_then(|s| Some((s, s.nodes(input, policy)?)));
        let Some((default, nodes)) = nodes.filter(|(_, nodes)| !nodes.is_empty()) else {
            continue;
        };
        let at_once = nodes.len() > 1 && default.initial >= nodes.len() as i64;
        let message = format!(
            "{} in no compartment: {}",
            are(nodes.len()),
            if at_once {
                "the default strategy starts all of them at once"
            } else {
                "the default budget and strategy apply"
            }
        );
        let names: Vec<&str> = nodes.iter().map(|n| n.name.as_str()).collect();
        findings
            .report(manifest, &["spec", "compartments"], message)
            .compartment(DEFAULT_COMPARTMENT)
            .fix("Add a compartment for these nodes, or set a default that is safe for them")
            .severity(if at_once { Severity::Warning } else { Severity::Info })
            .evidence("nodes", "in no compartment", some_of(&names));
    }
}

/// Formats the number of nodes with its verb: `1 node is` or `5 nodes are`.
fn are(nodes: usize) -> String {
    let verb = if nodes == 1 { "is" } else { "are" };
    format!("{} {verb}", plural(nodes, "node"))
}
