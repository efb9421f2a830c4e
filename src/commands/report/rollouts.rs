//! The progress of each custom resource: bars of its compartments, and a chart of its history.

use maud::{Markup, html};

use super::chart;
use super::fleet::{self, class, word};
use crate::commands::shared::status::item::{Compartment, SkyhookProgress};
use crate::commands::shared::status::{StatusReport, label};
use crate::view::text::Label;
use crate::view::{Table, cells, count, sanitize};

pub fn html(status: &StatusReport<'_>) -> Markup {
    html! {
        @for item in &status.document.items {
            article.rollout { (rollout(status, item)) }
        }
        @if status.document.items.is_empty() {
            p { "No custom resources." }
        }
    }
}

fn rollout(status: &StatusReport<'_>, item: &SkyhookProgress) -> Markup {
    let summary = &item.summary;
    let word = format!("{:?}", summary.assessment);
    html! {
        h3 {
            (sanitize(&item.name)) " "
            span class=(badge(label(summary.assessment))) { (word) }
        }
        p {
            (summary.complete()) " complete"
            @if summary.node_states.failed > 0 {
                ", " span.error { (count(summary.node_states.failed)) " failed" }
            }
            @if let Some(left) = &summary.remaining { ", " (left) " left" }
            @if !summary.message.is_empty() { ". " (sanitize(&summary.message)) }
        }
        (states(status, item))
        // The bar of a single compartment would repeat that of the custom resource.
        @if let [one] = item.compartments.as_slice() {
            p { "Batch " (one.batch) @if one.stopped { ", " span.error { "stopped" } } }
        } @else if !item.compartments.is_empty() {
            div.scroll role="region" aria-label="Compartments" tabindex="0" {
                table.bars {
                    thead {
                        tr { th scope="col" { "compartment" } th scope="col" { "complete" } th scope="col" { "progress" } th scope="col" { "batch" } }
                    }
                    tbody { @for part in &item.compartments { (compartment(part)) } }
                }
            }
        }
        @if let Some(chart) = chart::html(status, item) { (chart) }
    }
}

fn badge(label: Label) -> String {
    format!("badge {}", format!("{label:?}").to_lowercase())
}

/// A bar of the nodes by status, complete ones first.
fn states(status: &StatusReport<'_>, item: &SkyhookProgress) -> Markup {
    let counts = fleet::counted(status.outlook.on_nodes(&item.name).map(|(_, on)| Some(on.counted())));
    let parts: Vec<(&str, String, usize)> =
        counts.into_iter().rev().map(|(state, nodes)| (class(state), word(state), nodes)).collect();
    bar(&parts, item.summary.node_states.all())
}

fn compartment(part: &Compartment) -> Markup {
    let number = |n: i64| usize::try_from(n).unwrap_or(0);
    let (nodes, completed) = (number(part.nodes), number(part.completed));
    let (failed, in_progress) = (number(part.failed), number(part.in_progress));
    let parts = [
        ("C", "complete".to_owned(), completed),
        ("R", "in progress".to_owned(), in_progress),
        ("F", "failed".to_owned(), failed.min(nodes.saturating_sub(completed + in_progress))),
    ];
    html! {
        tr {
            th scope="row" { (sanitize(part.title())) }
            td { (count(completed)) "/" (count(nodes)) }
            td.wide { (bar(&parts, nodes)) }
            td {
                (part.batch)
                @if part.failed > 0 { ", " span.error { (part.failed) " failed" } }
                @if part.stopped { ", " span.error { "stopped" } }
            }
        }
    }
}

/// A bar with one piece per part, whose width is its share of all nodes.
fn bar(parts: &[(&str, String, usize)], all: usize) -> Markup {
    let shown = || parts.iter().filter(|(_, _, nodes)| *nodes > 0);
    let words: Vec<String> = shown().map(|(_, word, nodes)| format!("{} {word}", count(*nodes))).collect();
    let label = if words.is_empty() { "no progress".to_owned() } else { words.join(", ") };
    let share = |nodes: usize| 100.0 * nodes as f64 / all.max(1) as f64;
    let pieces = shown().scan(0, |end, (class, _, nodes)| {
        let start = *end;
        *end += nodes;
        Some((class, share(start), share(*nodes)))
    });
    html! {
        svg.bar viewBox="0 0 100 10" preserveAspectRatio="none" role="img" aria-label=(label) {
            title { (label) }
            @for (class, x, width) in pieces {
                rect class=(class) x=(format!("{x:.2}")) width=(format!("{width:.2}")) height="10" {}
            }
        }
    }
}

/// The versions of each package.
pub fn packages(status: &StatusReport<'_>) -> Table {
    let mut table = Table::new(["custom resource", "package", "version", "complete", "stages"]);
    for item in &status.document.items {
        for package in &item.packages {
            let stages =
                package.stages.iter().map(|stage| format!("{} {}", count(stage.nodes), stage.place(" ")));
            let note = if package.in_spec { "" } else { " (not in the spec)" };
            let version = format!("{}{note}", package.version);
            let done = if package.uninstalling { package.absent } else { package.complete };
            table.row(cells![
                item.name.as_str(),
                package.name.as_str(),
                version,
                format!("{}/{}", count(done), count(package.nodes)),
                stages.collect::<Vec<_>>().join(", ")
            ]);
        }
    }
    table
}
