//! A chart of a rollout's history and estimate.

use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};

use crate::commands::shared::status::StatusReport;
use crate::commands::shared::status::item::SkyhookProgress;
use crate::model::ProgressState;
use crate::view::{count, plural};

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
pub fn html(status: &StatusReport<'_>, item: &SkyhookProgress) -> Option<Markup> {
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
        let completions = status.outlook.timeline.completions.iter();
        let completions = completions.filter(|(skyhook, _)| estimated && *skyhook == name);
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
        points.iter().map(point).collect::<Vec<_>>().join(" ")
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
