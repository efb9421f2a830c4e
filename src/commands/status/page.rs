//! The screen of `status NAME`: header, compartments, packages, node tree, events, causes.

use super::{overview, tree};
use crate::api::Skyhook;
use crate::cluster::Cluster;
use crate::commands::shared::rows;
use crate::commands::shared::status::item::{Compartment, Nodes, Package, SkyhookProgress};
use crate::commands::shared::status::{StatusReport, label, uninstalls};
use crate::model::{AtOnce, ProgressState};
use crate::outlook::stop_text;
use crate::view::text::{self, Label, Line, Text};
use crate::view::{NodeSet, Table, ago, cells, count, plural, to_come};

/// Maximum number of lines of a page without `-o wide`.
const LINES: usize = 39;
/// The same for the page of a deletion, whose remedies are often longer than a line.
const DELETION_LINES: usize = 32;
/// Maximum number of rows of a table, and of drains, before the rest is counted.
const ROWS: usize = 6;
/// Maximum number of causes.
const CAUSES: usize = 3;
const EVENTS: usize = 4;
/// Maximum number of node-name ranges in a cell.
const RUNS: usize = 3;

pub fn text(status: &StatusReport<'_>, wide: bool) -> Text {
    let document = &status.document;
    let mut text = Text::new();
    for item in &document.items {
        text.blank();
        text.append(page(status, item, wide));
    }
    text.blank().append(overview::end(status));
    text
}

fn page(status: &StatusReport<'_>, item: &SkyhookProgress, wide: bool) -> Text {
    let cluster = status.cluster;
    let most = |shown: usize| if wide { usize::MAX } else { shown };
    let mut head = Text::new();
    head.line(title(item));
    head.indented(2, facts(cluster, item));
    if let Some(nodes) = item.nodes.as_ref().filter(|_| item.exists) {
        head.indented(2, node_counts(nodes, item.deleting, wide));
        if let Some(work) = &item.to_come {
            let work = to_come(&work.effects, &work.rollout);
            let held_up = !item.summary.held_up_by.is_empty();
            let when = if held_up { "to come once the causes are fixed" } else { "to come" };
            head.indented(2, Line::from(format!("{when}: {work}")));
        }
    }
    let deletion = status.deletion(&item.name);
    if let Some(deletion) = deletion.as_ref().filter(|_| !wide) {
        // The deletion names its causes, and nothing is rolled out; the rest is shown where it fits.
        head.blank().append(deletion.text(wide));
        let mut packages = Text::new();
        tables(&mut packages, &[], &item.packages, item, ROWS);
        let work = tree::text(&status.outlook, &item.name, ROWS);
        let mut latest = Text::new();
        let events = events(cluster, &item.name, EVENTS);
        if !events.is_empty() {
            latest.table(events);
        }
        for section in [packages, work, latest] {
            if !section.is_empty() && head.height() + section.height() <= DELETION_LINES {
                head.blank().append(section);
            }
        }
        return head;
    }
    let mut end = Text::new();
    let causes = overview::causes(status, Some(&item.name), most(CAUSES));
    // Without a limit on what follows, the causes would end up far below the first screen.
    let place = if wide { &mut head } else { &mut end };
    if !causes.is_empty() {
        place.blank().append(causes);
    }
    tables(&mut head, &item.compartments, &item.packages, item, most(ROWS));
    if !item.uninstalls.is_empty() {
        head.blank().append(uninstalls::table(&item.uninstalls, wide));
    }
    if let Some(deletion) = deletion {
        head.blank().append(deletion.text(wide));
    }
    let mut latest = Text::new();
    let events = events(cluster, &item.name, most(EVENTS));
    if !events.is_empty() {
        latest.blank().table(events);
    }
    let left = LINES.saturating_sub(head.height() + latest.height() + end.height() + 2).max(CAUSES);
    let tree = tree::text(&status.outlook, &item.name, most(left));
    if !tree.is_empty() {
        head.blank().append(tree);
    }
    head.append(latest);
    head.append(end);
    head
}

/// The title line: `gpu-tune  Degraded, 78% (31/40), 2 failed, ~6m left`.
fn title(item: &SkyhookProgress) -> Line {
    let summary = &item.summary;
    let assessment = label(summary.assessment).span(format!("{:?}", summary.assessment));
    let mut title = text::heading(&item.name) + "  " + assessment;
    if summary.complete_percent.is_some() {
        let uninstalls = item.deleting && item.packages.iter().any(|package| package.uninstalling);
        let uninstalled = if uninstalls { " uninstalled" } else { "" };
        title = title + ", " + summary.complete() + uninstalled;
    }
    if summary.node_states.failed > 0 {
        title = title + ", " + text::error(format!("{} failed", count(summary.node_states.failed)));
    }
    match (&summary.remaining, &summary.no_estimate) {
        (Some(remaining), _) => title + format!(", {remaining} left"),
        (None, Some(why)) if summary.assessment == ProgressState::Progressing => {
            title + format!(", no estimate: {why}")
        }
        _ => title,
    }
}

/// The message, then the operator's status, deletion, pause and priority.
fn facts(cluster: &Cluster, item: &SkyhookProgress) -> Text {
    let mut text = Text::new();
    let summary = &item.summary;
    // The next line has the deletion, the pause and their ages; a deletion has a section of its own.
    let repeated = item.deletion.is_some()
        || matches!(
            summary.assessment,
            ProgressState::Paused | ProgressState::Disabled | ProgressState::Deleting
        );
    if !summary.message.is_empty() && !repeated {
        text.paragraph(summary.message.as_str());
    }
    if !item.exists {
        return text;
    }
    let status = Label::of_status(&item.status).span(&item.status);
    let mut line = match item.status.as_str() {
        "unknown" if cluster.skyhook(&item.name).is_none_or(|skyhook| skyhook.status.status.is_none()) => {
            Line::from("the operator reports no status yet")
        }
        _ => "the operator reports " + status,
    };
    if item.deleting {
        let since = item.deleting_since.as_deref().and_then(|at| at.parse().ok());
        let since = ago(since, cluster.taken_at);
        line = line + ", " + text::warning(format!("deletion started {since}"));
    }
    if let Some(stop) = cluster.skyhook(&item.name).and_then(Skyhook::stop) {
        let stop = stop_text(&stop, cluster.taken_at);
        if stop != item.status {
            line = line + ", " + text::warning(stop);
        }
    }
    line = line + format!(", priority {}", item.priority);
    if !item.deployment_policy.is_empty() {
        line = line + format!(", deployment policy {}", item.deployment_policy);
    }
    text.line(line);
    if let Some(writer) = &item.spec_writer {
        let at = writer.at.as_deref().and_then(|at| at.parse().ok());
        let when = ago(at, cluster.taken_at);
        text.line(format!("spec last written by {} {when} (generation {})", writer.manager, item.generation));
    }
    text
}

/// The node counts, `3 nodes: 2 complete, 1 erroring; 1 ignored`, and with `wide` the names of unfinished
/// nodes.
fn node_counts(nodes: &Nodes, deleting: bool, wide: bool) -> Text {
    let mut line = Line::from(plural(nodes.selected, "node"));
    // The operator's status does not count the nodes that are done with their uninstalls.
    let first = if deleting { " by the operator's status: " } else { ": " };
    for (at, (status, n)) in nodes.histogram().into_iter().enumerate() {
        let sign = if at == 0 { first } else { ", " };
        line = line + sign + Label::of_status(status).span(format!("{} {status}", count(n)));
    }
    for (number, label, what) in [
        (nodes.ignored, Label::Plain, "ignored"),
        (nodes.malformed, Label::Error, "with unreadable state"),
        (nodes.left_behind, Label::Plain, "no longer selected"),
    ] {
        if number > 0 {
            line = line + "; " + label.span(format!("{} {what}", count(number)));
        }
    }
    let mut text = Text::new();
    text.paragraph(line);
    let shown = if wide { nodes.draining.len() } else { CAUSES };
    for draining in nodes.draining.iter().take(shown) {
        let summary = format!("{}: {}", draining.node, draining.drain.summary);
        text.indented(2, Line::from(summary));
    }
    if nodes.draining.len() > shown {
        let more = plural(nodes.draining.len() - shown, "more node");
        text.indented(2, Line::from(format!("{more} being drained")));
    }
    for (status, names) in nodes.names.iter().filter(|(s, _)| wide && *s != "complete") {
        let set = NodeSet::of(names);
        text.indented(2, Line::from(format!("{status}: {set}")));
    }
    text
}

/// Compartments and packages.
fn tables(text: &mut Text, parts: &[Compartment], packages: &[Package], item: &SkyhookProgress, rows: usize) {
    if !parts.is_empty() {
        text.blank().table(compartments(
            &parts[..parts.len().min(rows)],
            if rows == usize::MAX { rows } else { RUNS },
        ));
    }
    if !packages.is_empty() {
        text.blank().table(package_table(item, &packages[..packages.len().min(rows)]));
    }
    let hidden = parts.len().saturating_sub(rows) + packages.len().saturating_sub(rows);
    if hidden > 0 {
        text.line(text::dim(format!("{}; -o wide shows all", plural(hidden, "more row"))));
    }
}

fn compartments(parts: &[Compartment], runs: usize) -> Table {
    let mut table = Table::new(["compartment", "batch", "complete", "max", "failures", "rollout", "next"])
        .truncate_last();
    for part in parts {
        let rollout = match part.assessment {
            ProgressState::Complete => text::good("done"),
            _ if part.stopped => text::error("stopped"),
            ProgressState::Progressing => text::plain("running"),
            state => label(state).span(state.word()),
        };
        table.row(cells![
            part.title(),
            count(part.batch),
            format!("{}/{}", count(part.completed), count(part.nodes)),
            max(part.bound),
            count(part.failed),
            rollout,
            part.next_nodes.summary(runs)
        ]);
    }
    table
}

fn max(bound: AtOnce) -> String {
    match bound {
        AtOnce::UpTo(nodes) => count(nodes),
        AtOnce::Varies => "grows".to_owned(),
        AtOnce::Unknown => "unknown".to_owned(),
    }
}

fn package_table(item: &SkyhookProgress, packages: &[Package]) -> Table {
    let mut table = Table::new(["package", "version", "complete", "stages"]).truncate_last();
    for package in packages {
        let mut stages = Line::default();
        for stage in &package.stages {
            if !stages.is_empty() {
                stages = stages + ", ";
            }
            let place = stage.place("/");
            let label = match stage.state.as_str() {
                "erroring" => Label::Error,
                _ => Label::Plain,
            };
            stages = stages + label.span(format!("{} {place}", count(stage.nodes)));
            if let Some(since) = &stage.since {
                stages = stages + text::dim(format!(" ({})", since.age));
            }
        }
        if let Some(drift) = item.drift(package).filter(|_| item.exists) {
            stages = stages + text::dim(format!(" ({drift})"));
        }
        table.row(cells![package.name.as_str(), package.version.as_str(), done(package), stages]);
    }
    table
}

/// The number of finished nodes: `2/3`, or `2/3 absent` for a package that is to be uninstalled; empty for a
/// package that is not in the spec.
fn done(package: &Package) -> Line {
    let (done, suffix) =
        if package.uninstalling { (package.absent, " absent") } else { (package.complete, "") };
    let text = format!("{}/{}{suffix}", count(done), count(package.nodes));
    if !package.in_spec {
        Line::default()
    } else if done == package.nodes {
        text::good(text).into()
    } else {
        text.into()
    }
}

/// The latest events about a custom resource, its pods and jobs.
fn events(cluster: &Cluster, name: &str, most: usize) -> Table {
    let mut rows = rows::rows(cluster, &[name], None);
    rows.reverse();
    rows.truncate(most);
    rows::table(&rows, cluster.taken_at)
}
