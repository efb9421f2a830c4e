//! The headline and the table of causes in `status` and `diagnose stuck`. Errors count as causes; warnings and notes are
//! counted separately.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::diagnosis::group::FindingGroup;
use super::rule::label_of;
use crate::cluster::Cluster;
use crate::rules::impact::{CauseImpact, Impact};
use crate::rules::{Finding, Severity};
use crate::view::text::{self, Line};
use crate::view::{Table, age, cells, count, list, plural};

/// `STUCK: 3 causes block 120 of 120 nodes; 2 warnings; 1 note`; `None` without an error.
pub fn stuck(impact: &Impact<'_>) -> Option<Line> {
    let blocked = blocked(impact)?;
    let others = [(Severity::Warning, "warning"), (Severity::Info, "note")];
    let others = others.map(|(severity, noun)| match impact.count(severity) {
        0 => String::new(),
        number => format!("; {}", plural(number, noun)),
    });
    Some(text::error("STUCK") + format!(": {blocked}") + others.concat())
}

/// `1 more cause and 2 more warnings`, of causes of these severities; empty without any.
pub fn left_out(severities: impl Iterator<Item = Severity>) -> String {
    let mut numbers = BTreeMap::new();
    severities.for_each(|severity| *numbers.entry(Reverse(severity)).or_insert(0) += 1);
    let words = numbers.into_iter().map(|(Reverse(severity), number)| match severity {
        Severity::Error => plural(number, "more cause"),
        Severity::Warning => plural(number, "more warning"),
        Severity::Info => plural(number, "more note"),
    });
    list(&words.collect::<Vec<_>>())
}

/// `3 causes block 120 of 120 nodes`; `None` without an error.
fn blocked(impact: &Impact<'_>) -> Option<String> {
    let errors = impact.count(Severity::Error);
    let (blocked, selected) = (impact.blocked_nodes(), impact.selected);
    let causes = plural(errors, "cause");
    let block = if errors == 1 { "blocks" } else { "block" };
    match errors {
        0 => None,
        _ if blocked == 0 => Some(causes),
        // Nodes that no custom resource selects may be blocked, too.
        _ if blocked > selected => Some(format!("{causes} {block} {}", plural(blocked, "node"))),
        _ => Some(format!("{causes} {block} {} of {}", count(blocked), plural(selected, "node"))),
    }
}

/// One row per cause, numbered from 1.
pub fn table<'i>(
    cluster: &Cluster,
    findings: &[Finding],
    causes: impl Iterator<Item = (usize, &'i CauseImpact<'i>)>,
) -> Table {
    let mut table = Table::new(["#", "code", "on", "nodes", "blocks", "age", "cause"]).truncate_last();
    for (at, impact) in causes {
        let group = FindingGroup::of(&impact.cause, findings);
        let since = group.since();
        let nodes = group.node_count();
        let blocks = impact.nodes().len();
        let number = |n: usize| match n {
            0 => "-".to_owned(),
            n => count(n),
        };
        table.row(cells![
            at + 1,
            label_of(impact.severity).span(group.first().rule.code),
            group.place(),
            number(nodes),
            number(blocks),
            since.map_or("-".to_owned(), |since| age(Some(since), cluster.taken_at)),
            group.message()
        ]);
    }
    table
}
