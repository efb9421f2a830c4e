//! The headline and the table of causes in `status` and `diagnose stuck`. Errors count as causes; warnings
//! and notes are counted separately.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::diagnosis::group::FindingGroup;
use super::rule::label_of;
use crate::cluster::Cluster;
use crate::rules::support::blockers::{CauseImpact, Impact};
use crate::rules::{Finding, Severity};
use crate::view::text::{self, Line};
use crate::view::{Columns, Table, age, count, list, plural};

/// The headline: `STUCK: 3 causes block 120 of 120 nodes; 2 warnings; 1 note`; `None` without an error.
pub fn stuck(impact: &Impact<'_>) -> Option<Line> {
    let blocked = blocked(impact)?;
    let others = [(Severity::Warning, "warning"), (Severity::Info, "note")];
    let others = others.map(|(severity, noun)| {
        let number = impact.count(severity);
        let block = if number == 1 { "blocks" } else { "block" };
        // A note, such as that of a pause, is intended.
        let blocked = if severity == Severity::Info { 0 } else { impact.blocked_nodes(severity) };
        match (number, blocked) {
            (0, _) => String::new(),
            (_, 0) => format!("; {}", plural(number, noun)),
            _ => format!("; {} {block} {}", plural(number, noun), count(blocked)),
        }
    });
    Some(text::error("STUCK") + format!(": {blocked}") + others.concat())
}

/// Counts causes of these severities: `1 more cause and 2 more warnings`; empty without any.
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

/// The causes and the nodes that they block: `3 causes block 120 of 120 nodes`; `None` without an error.
fn blocked(impact: &Impact<'_>) -> Option<String> {
    let errors = impact.count(Severity::Error);
    let (blocked, selected) = (impact.blocked_nodes(Severity::Error), impact.selected);
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

/// One row per cause, numbered from 1; `whole`: with as many lines as its message needs.
pub fn table<'i>(
    cluster: &Cluster,
    findings: &[Finding],
    causes: impl Iterator<Item = (usize, &'i CauseImpact<'i>)>,
    whole: bool,
) -> Table {
    type Row<'r> = (usize, &'r CauseImpact<'r>, FindingGroup<'r>);
    let number = |n: usize| match n {
        0 => "-".into(),
        n => count(n).into(),
    };
    let age = |since: Option<_>| since.map_or("-".to_owned(), |at| age(Some(at), cluster.taken_at));
    let columns = Columns::new()
        .with("#", |(at, ..): &Row<'_>| (at + 1).into())
        .with("code", |(_, impact, group)| label_of(impact.severity()).span(group.first().rule.code).into())
        .with("on", |(_, _, group)| (group.place() + &group.on_nodes()).into())
        .with("nodes", |(_, _, group)| number(group.node_count()))
        .with("blocks", |(_, impact, _)| number(impact.nodes().len()))
        .with("age", |(_, _, group)| age(group.since()).into())
        .with("cause", |(_, _, group)| group.message().into_owned().into());
    let rows = causes.map(|(at, impact)| (at, impact, FindingGroup::of(&impact.cause, findings)));
    let table = columns.table(rows);
    if whole { table.wrap_last() } else { table.truncate_last() }
}
