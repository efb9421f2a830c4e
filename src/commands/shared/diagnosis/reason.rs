//! The reason for which a package fails: outcome, log and events of its latest attempt.

use crate::cluster::Cluster;
use crate::rules::support::reason::Recurring;
use crate::rules::{Finding, Reason};
use crate::view::ago;
use crate::view::text::{self, Line, Text};

/// The most informative finding of a problem: the first one with a log, else the first one that describes an
/// attempt.
pub fn most_informative<'f>(findings: &[&'f Finding]) -> Option<(&'f Finding, &'f Reason)> {
    let with = |finding: &&'f Finding| Some((*finding, finding.reason.as_deref()?));
    let mut all = findings.iter().filter_map(with);
    findings.iter().filter_map(with).find(|(_, reason)| reason.log.is_some()).or_else(|| all.next())
}

/// The text of an attempt: its outcome, last log lines and disruptions.
///
/// `full`: whether the report also shows the evidence, which contains the outcome. Otherwise, the text
/// includes the outcome. At most `lines` log lines are shown.
pub fn text(findings: &[&Finding], cluster: &Cluster, full: bool, lines: usize) -> Text {
    let mut text = Text::new();
    let Some((finding, reason)) = most_informative(findings) else {
        return text;
    };
    let on = match (findings.len(), &finding.subject.node) {
        (2.., Some(node)) => format!(" on {node}"),
        _ => String::new(),
    };
    // The evidence contains the outcome.
    if !full && let Some(outcome) = reason.outcome() {
        text.paragraph(outcome);
    }
    if let Some(log) = &reason.log {
        if full {
            text.line(text::dim(format!("last log lines of {}{on}", log.from)));
        }
        for line in log.last(lines) {
            text.line(text::dim("| ") + line);
        }
    }
    let not_in_evidence = |event: &&Recurring| {
        !finding.evidence.iter().any(|e| !event.message.is_empty() && e.value.contains(&event.message))
    };
    let events: Vec<&Recurring> = reason.events.iter().filter(not_in_evidence).collect();
    if full && !events.is_empty() {
        text.line(text::dim(format!("events{on}")));
        for event in events {
            let times = match event.count {
                1 => String::new(),
                n => format!(" {n} times,"),
            };
            let ago = ago(event.at, cluster.taken_at);
            let what = Line::from(event.object.as_str()) + ": " + event.reason.as_str();
            text.item("- ", what + text::dim(format!(",{times} {ago}: ")) + event.message.as_str());
        }
    }
    text
}
