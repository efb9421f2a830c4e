//! The metrics and the JUnit report of `diagnose stuck`.

use super::Diagnosis;
use super::group::{Detail, FindingGroup};
use crate::cluster::{Cluster, NodeRecord, Read, Source};
use crate::rules::support::causes::Causes;
use crate::rules::{Finding, NotChecked, Severity, Verdict};
use crate::view::monitoring::{self, Case, Labels, Metrics, TestResult};
use crate::view::to_json;

impl Diagnosis<'_> {
    pub(super) fn metrics(&self) -> Metrics {
        let report = &self.report;
        let mut metrics = Metrics::default();
        let verdicts = [Verdict::Stuck, Verdict::Blocked, Verdict::Healthy, Verdict::NotFullyChecked];
        metrics.gauge(
            "verdict",
            "1 for the current verdict, 0 for all others",
            verdicts.map(|verdict| {
                let name = match verdict {
                    Verdict::NotFullyChecked => "incomplete".to_owned(),
                    verdict => to_json(&verdict).as_str().unwrap_or_default().to_lowercase(),
                };
                (vec![("verdict", name)], u64::from(verdict == report.verdict))
            }),
        );
        metrics.gauge(
            "findings",
            "Findings that are not muted, by code, severity and custom resource",
            report.findings.iter().map(sample),
        );
        metrics.gauge(
            "muted_findings",
            "Muted findings, by code, severity and custom resource",
            report.muted.iter().map(sample),
        );
        let counts = [
            ("lapsed_mutes", "Mutes that no longer apply", report.lapsed.len()),
            ("rules_not_checked", "Rules that could not run", report.not_checked.len()),
            ("blocked_nodes", "Nodes that are blocked by errors", self.impact.blocked_nodes(Severity::Error)),
        ];
        for (name, help, value) in counts {
            metrics.gauge(name, help, [(Labels::new(), value as u64)]);
        }
        metrics.gauge("nodes", "Selected nodes by custom resource and status", nodes(self.cluster));
        let taken_at = u64::try_from(self.cluster.taken_at.as_second()).unwrap_or_default();
        metrics.gauge(
            "taken_at_seconds",
            "When the cluster was read, in seconds since 1970",
            [(Labels::new(), taken_at)],
        );
        metrics
    }
}

fn sample(finding: &Finding) -> (Labels, u64) {
    let skyhook = finding.subject.skyhook.clone().unwrap_or_default();
    let labels = vec![
        ("code", finding.rule.code.to_owned()),
        ("name", finding.rule.name.to_owned()),
        ("severity", finding.severity.to_string()),
        ("skyhook", skyhook),
    ];
    (labels, 1)
}

/// The samples of nodes; empty if nodes or custom resources were not read, because missing is not zero.
fn nodes(cluster: &Cluster) -> Vec<(Labels, u64)> {
    let read = |source| matches!(cluster.source(source), Read::Ok(_));
    if !read(Source::Nodes) || !read(Source::Skyhooks) {
        return Vec::new();
    }
    let pairs = cluster.skyhooks.iter().flat_map(|skyhook| {
        cluster.nodes.iter().filter(|node| skyhook.selects(node)).map(move |node| (skyhook, node))
    });
    let samples = pairs.map(|(skyhook, node)| {
        let record = cluster.on_node(node, skyhook.name());
        let status = record
            .map_or_else(|| "unknown".to_owned(), |record| NodeRecord::operator_status(record).to_string());
        let labels = vec![("skyhook", skyhook.name().to_owned()), ("status", status)];
        (labels, 1)
    });
    samples.collect()
}

impl Diagnosis<'_> {
    /// One test case for each shown cause, each muted cause and each rule that could not run; with `--all`,
    /// also for the effects. Notes pass; muted causes are skipped.
    pub(super) fn junit_report(&self) -> quick_junit::Report {
        let groups = self.groups();
        let causes = groups.iter().map(|group| self.cause_case(group));
        let not_checked = self.report.not_checked.iter();
        let unchecked = not_checked.map(|not_checked| self.unchecked_case(not_checked));
        let muted = Causes::of(&self.report.muted).ranked(&self.report.muted);
        let muted = muted.iter().map(|cause| {
            let group = FindingGroup::of(cause, &self.report.muted);
            let reason = group.first().muted.as_ref().map(ToString::to_string);
            let rule = group.first().rule;
            let subject = group.subject(true);
            Case {
                name: format!("{} {}: {subject}", rule.code, rule.name),
                result: TestResult::Skipped,
                message: format!("muted: {}", reason.unwrap_or_default()),
                detail: String::new(),
            }
        });
        monitoring::report("diagnose stuck", causes.chain(muted).chain(unchecked))
    }

    fn cause_case(&self, group: &FindingGroup<'_>) -> Case {
        let rule = group.first().rule;
        let subject = group.subject(true);
        let failed = group.severity > Severity::Info;
        Case {
            name: format!("{} {}: {subject}", rule.code, rule.name),
            result: if failed { TestResult::Failed } else { TestResult::Passed },
            message: group.message().into_owned(),
            detail: if failed { group.text(&self.grades, true, Detail::Full).plain() } else { String::new() },
        }
    }

    /// The test case of an unchecked rule: an error if the cluster did not return a source. If no rule was
    /// checked, no test case may be skipped.
    fn unchecked_case(&self, not_checked: &NotChecked) -> Case {
        let rule = not_checked.rule;
        let mut sources = rule.needs.iter().chain(rule.optional_sources);
        let nothing_checked = self.report.not_checked.len() == self.report.counts.rules;
        let withheld = sources.any(|source| self.cluster.missing(*source).is_some());
        Case {
            name: format!("{} {}", rule.code, rule.name),
            result: if withheld || nothing_checked { TestResult::Error } else { TestResult::Skipped },
            message: format!("not checked: {}", not_checked.reason),
            detail: String::new(),
        }
    }
}
