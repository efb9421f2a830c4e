//! What keeps an uninstall from getting on.

use crate::cluster::Cluster;
use crate::rules::{self, Finding, Report, Scope, Severity};

/// Findings that are beside the point: what is installed, what waits for the package, what comes after.
const BESIDE: [&str; 9] = [
    "SKY101", "SKY111", "SKY207", "SKY209", "SKY305", "SKY306", "SKY402", "SKY405", "SKY407",
];

/// What at error level keeps a package from being uninstalled; `gone` tells where it is already.
pub(super) fn hindrances(
    cluster: &Cluster,
    skyhook: &str,
    package: &str,
    gone: impl Fn(&str) -> bool,
) -> Report {
    let scope = Scope {
        skyhooks: vec![skyhook.to_owned()],
        ..Scope::default()
    };
    let mut report = rules::diagnose(cluster, &scope);
    let hinders = |finding: &Finding| {
        let subject = &finding.subject;
        let other = subject.package.as_ref().is_some_and(|p| p != package);
        let done = subject.node.as_deref().is_some_and(&gone) && subject.package.is_some();
        finding.severity == Severity::Error
            && (finding.stops_all || !(BESIDE.contains(&finding.rule.code) || other || done))
    };
    report.findings.retain(hinders);
    report.counts.errors = report.findings.len();
    (report.counts.warnings, report.counts.infos) = (0, 0);
    report
}

/// `SKY112 gpu driver node-2`: the same from one look to the next.
pub(super) fn name_of(finding: &Finding) -> String {
    let subject = &finding.subject;
    let mut words = vec![finding.rule.code];
    words.extend(subject.skyhook.as_deref());
    words.extend(subject.package.as_deref());
    words.extend(subject.node.as_deref());
    if words.len() == 1 {
        words.push(&subject.name);
    }
    words.join(" ")
}
