//! The metrics of `diagnose stuck`.

use super::Diagnosis;
use crate::cluster::NodeRecord;
use crate::cluster::{Cluster, Read, Source};
use crate::rules::{Finding, Severity, Verdict};
use crate::view::openmetrics::{Labels, Metrics};
use crate::view::to_json;

impl Diagnosis<'_> {
    pub(super) fn metrics(&self) -> Metrics {
        let report = &self.report;
        let mut metrics = Metrics::default();
        let verdicts = [Verdict::Stuck, Verdict::Blocked, Verdict::Healthy, Verdict::Incomplete];
        metrics.gauge(
            "verdict",
            "1 for the current verdict, 0 for all others",
            verdicts.map(|verdict| {
                let name = to_json(&verdict).as_str().unwrap_or_default().to_lowercase();
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
            ("rules_not_checked", "Rules that could not be checked", report.not_checked.len()),
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
    let pairs = cluster.skyhooks.items().iter().flat_map(|skyhook| {
        let nodes = cluster.nodes.items().iter();
        let selected = nodes.filter(|node| skyhook.selects(node));
        selected.map(move |node| (skyhook, node))
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
