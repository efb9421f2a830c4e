//! What holds up a deletion, among all that the rules find. Pure.

use std::collections::BTreeSet;

use crate::api::Skyhook;
use crate::cluster::{Absence, Cluster, Read};
use crate::rules::{Finding, Report, Severity};

/// That nobody acts on anything.
pub const OPERATOR_DOWN: &str = "SKY501";
/// What is wrong with an installation alone. Where it holds up an uninstall, a rule about deletions says so.
const INSTALLING: [&str; 4] = ["SKY103", "SKY104", "SKY111", "SKY201"];
/// Warnings that an uninstall does not get past by itself.
const GRAVE_WARNINGS: [&str; 2] = ["SKY302", "SKY304"];
/// That a taint is in the way, be it noticed by the operator yet or not.
const TAINT: &str = "SKY403";
/// About deletions themselves.
const DELETION: &str = "SKY1";
/// About the operator, its webhooks and its API.
const OPERATOR: &str = "SKY5";
/// That a deployment policy is missing: the operator stops before it looks at the deletion.
const POLICY: &str = "SKY303";

/// The findings that hold up the deletion of a custom resource that the operator works on.
///
/// What goes wrong while packages are installed does not hold up their removal; what holds up nodes does as long as
/// something is left to uninstall there.
pub fn holding_up<'r>(
    cluster: &Cluster,
    report: &'r Report,
    skyhook: &Skyhook,
) -> Vec<&'r Finding> {
    let pending = cluster.pending_uninstalls(skyhook);
    let nodes: BTreeSet<&str> = pending.iter().map(|p| p.node.name.as_str()).collect();
    let concerns = |f: &Finding| {
        let subject = &f.subject;
        let node = subject.node.as_deref();
        subject.skyhook.as_deref() == Some(skyhook.name())
            && node.is_none_or(|n| nodes.contains(n))
            && subject.package.as_ref().is_none_or(|package| {
                pending
                    .iter()
                    .any(|p| p.name == package && node.is_none_or(|n| n == p.node.name))
            })
    };
    let hinders = |f: &&Finding| {
        let code = f.rule.code;
        let own = f.subject.skyhook.as_deref() == Some(skyhook.name());
        if code == OPERATOR_DOWN {
            return f.severity == Severity::Error || no_operator(cluster);
        }
        let grave = f.severity == Severity::Error
            || (f.severity == Severity::Warning && GRAVE_WARNINGS.contains(&code))
            || (code == TAINT && stays_tainted(cluster, skyhook, f));
        if !grave || INSTALLING.contains(&code) {
            return false;
        }
        let about = code.starts_with(DELETION) || code == POLICY || code.starts_with(OPERATOR);
        f.stops_all || (about && own) || (!pending.is_empty() && concerns(f))
    };
    report.findings.iter().filter(hinders).collect()
}

/// Whether the taint in the way is none that comes and goes as the node restarts.
fn stays_tainted(cluster: &Cluster, skyhook: &Skyhook, finding: &Finding) -> bool {
    let node = finding
        .subject
        .node
        .as_deref()
        .and_then(|n| cluster.node(n));
    let taints = node.map(|n| cluster.untolerated_by(skyhook, n));
    taints.is_some_and(|all| all.iter().any(|t| !t.of_lifecycle()))
}

/// Whether there is surely no deployment that runs the operator.
pub fn no_operator(cluster: &Cluster) -> bool {
    cluster.operators.absence() == Absence::Proven
        && matches!(&cluster.operators, Read::Ok(all) if all.is_empty())
}
