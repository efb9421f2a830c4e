//! The progress of each custom resource: bars of its compartments, and a chart of its history.

use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};

use super::fleet::{self, class, word};
use crate::commands::shared::status::item::{Compartment, SkyhookProgress};
use crate::commands::shared::status::{StatusReport, label};
use crate::model::ProgressState;
use crate::view::text::Label;
use crate::view::{Joined, Table, cells, count, plural, sanitize};

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
        @if let Some(chart) = chart_of(status, item) { (chart) }
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
            let note = item.drift(package).map_or_else(String::new, |drift| format!(" ({drift})"));
            let version = format!("{}{note}", package.version);
            let done = if package.uninstalling { package.absent } else { package.complete };
            table.row(cells![
                item.name.as_str(),
                package.name.as_str(),
                version,
                format!("{}/{}", count(done), count(package.nodes)),
                stages.joined(", ")
            ]);
        }
    }
    table
}

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 120.0;
/// Maximum number of steps of a line; times in between are skipped.
const STEPS: usize = 200;

/// Complete nodes over time.
struct Chart {
    /// The completion times of nodes, in ascending order.
    history: Vec<Timestamp>,
    /// Estimated completion times of the other nodes; empty without an estimate.
    estimate: Vec<Timestamp>,
    /// Number of complete nodes without a known time.
    undated: usize,
    total: usize,
    now: Timestamp,
}

/// The chart of a custom resource; `None` if too few times are known.
pub fn chart_of(status: &StatusReport<'_>, item: &SkyhookProgress) -> Option<Markup> {
    let chart = Chart::of(status, item);
    (chart.history.len() > 1 || !chart.estimate.is_empty()).then(|| chart.html(item))
}

impl Chart {
    fn of(status: &StatusReport<'_>, item: &SkyhookProgress) -> Chart {
        let cluster = status.cluster;
        let name = item.name.as_str();
        let states = &item.summary.node_states;
        let complete = status.outlook.on_nodes(name).filter(|(_, on)| on.state == ProgressState::Complete);
        let times = complete.filter_map(|(node, _)| status.outlook.model.completed_at(name, node));
        let mut history: Vec<Timestamp> = times.filter(|at| *at <= cluster.taken_at).collect();
        history.sort_unstable();
        // Show an estimate only if `status` shows one, too.
        let estimated = item.summary.remaining.is_some();
        let completions =
            status.outlook.timeline.completions.iter().filter(|(skyhook, _)| estimated && *skyhook == name);
        let at = |seconds: f64| {
            let after = SignedDuration::from_millis((seconds * 1000.0) as i64);
            cluster.taken_at.checked_add(after).ok()
        };
        Chart {
            undated: states.complete.saturating_sub(history.len()),
            estimate: completions.filter_map(|(_, seconds)| at(*seconds)).collect(),
            history,
            total: states.all(),
            now: cluster.taken_at,
        }
    }

    fn start(&self) -> Timestamp {
        self.history.first().copied().unwrap_or(self.now)
    }

    fn end(&self) -> Timestamp {
        self.estimate.last().copied().unwrap_or(self.now)
    }

    fn x(&self, at: Timestamp) -> f64 {
        let seconds = |from: Timestamp, to: Timestamp| to.duration_since(from).as_secs_f64();
        let all = seconds(self.start(), self.end()).max(1.0);
        WIDTH * seconds(self.start(), at) / all
    }

    fn y(&self, nodes: usize) -> f64 {
        HEIGHT * (1.0 - nodes as f64 / self.total.max(1) as f64)
    }

    /// The SVG points of a stepped line that starts at `start` with `nodes` complete nodes.
    fn line(&self, start: Timestamp, nodes: usize, times: &[Timestamp], end: Timestamp) -> String {
        let mut points = vec![(start, nodes)];
        let step = times.len().div_ceil(STEPS).max(1);
        for (at, time) in times.iter().enumerate() {
            if (at + 1) % step == 0 || at + 1 == times.len() {
                points.push((*time, points.last().map_or(nodes, |(_, nodes)| *nodes)));
                points.push((*time, nodes + at + 1));
            }
        }
        points.push((end, nodes + times.len()));
        let point = |(at, nodes): &(Timestamp, usize)| format!("{:.1},{:.1}", self.x(*at), self.y(*nodes));
        points.iter().map(point).joined(" ")
    }

    fn html(&self, item: &SkyhookProgress) -> Markup {
        let complete = self.undated + self.history.len();
        let (start, end) = (self.start(), self.end());
        let past = self.line(start, self.undated, &self.history, self.now);
        let future = self.line(self.now, complete, &self.estimate, end);
        let remaining = item.summary.remaining.as_deref();
        let label = format!(
            "{} of {} complete since {}{}",
            count(complete),
            plural(self.total, "node"),
            minute(start),
            remaining.map_or_else(String::new, |left| format!(", {left} left")),
        );
        let now = self.x(self.now);
        html! {
            figure.chart {
                div.plot {
                div.scale aria-hidden="true" { span { (count(self.total)) " nodes" } span { "0" } }
                svg viewBox=(format!("-2 -4 {} {}", WIDTH + 4.0, HEIGHT + 8.0)) preserveAspectRatio="none" role="img" aria-label=(label) {
                    line.axis x1="0" x2=(WIDTH) y1=(HEIGHT) y2=(HEIGHT) {}
                    line.axis x1="0" x2=(WIDTH) y1="0" y2="0" stroke-dasharray="2 4" {}
                    line.now x1=(format!("{now:.1}")) x2=(format!("{now:.1}")) y1="0" y2=(HEIGHT) {}
                    polyline.past points=(past) {}
                    @if !self.estimate.is_empty() { polyline.future points=(future) {} }
                }
                }
                figcaption {
                    span { (minute(start)) ": " (count(self.undated)) " complete" }
                    span { (minute(self.now)) ": " b { (count(complete)) " of " (count(self.total)) } }
                    @if let Some(left) = remaining.filter(|_| !self.estimate.is_empty()) {
                        span.estimate { (minute(end)) ": all, at this pace (" (left) " left)" }
                    }
                }
                @if self.undated > 0 {
                    p.dim { (plural(self.undated, "complete node")) " without a completion time" }
                }
            }
        }
    }
}

fn minute(at: Timestamp) -> String {
    at.strftime("%m-%d %H:%M UTC").to_string()
}
