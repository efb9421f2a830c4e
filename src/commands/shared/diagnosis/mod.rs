//! The report of `diagnose stuck`, as text and as a document.

mod document;
pub mod group;
mod monitoring;
mod reason;

use std::collections::HashMap;

use serde_json::Value;

pub use self::document::Document;
use self::document::SHOWN_NOTES;
use self::group::{Detail, FindingGroup};
use super::remedy::Grades;
use crate::api::{Skyhook, Status};
use crate::cluster::attempts::ContainerLog;
use crate::cluster::{Clock, Cluster};
use crate::commands::shared::grouped::grouped;
use crate::commands::shared::rule::{counted, incomplete};
use crate::commands::shared::{cause_table, mutes};
use crate::ctx::Tail;
use crate::error::{Error, Result};
use crate::model::Model;
use crate::rules::support::blockers::Impact;
use crate::rules::support::reason as attempts;
use crate::rules::{self, Finding, Report, Severity, Verdict};
use crate::view::text::{self, Layout, Line, Text};
use crate::view::{View, document, list, plural};
use crate::wait::Blockers;

/// The output of `diagnose stuck`.
pub struct Diagnosis<'a> {
    cluster: &'a Cluster,
    pub grades: Grades<'a>,
    report: Report,
    impact: Impact<'a>,
    /// The arguments of `diagnose stuck` with which the causes have these numbers; `None` if there are none.
    arguments: Option<Vec<String>>,
    unfolded: bool,
    /// The index of the only cause to show.
    chosen: Option<usize>,
    tails: Vec<Tail>,
}

/// Maximum number of lines of the report, unless `--all` or one cause is requested.
const LINES: usize = 40;
/// Number of columns for which lines are counted.
const COLUMNS: usize = 100;
/// Maximum number of codes of rules that could not be checked, for each reason.
const CODES: usize = 8;

impl<'a> Diagnosis<'a> {
    pub fn new(cluster: &'a Cluster, mut report: Report) -> Diagnosis<'a> {
        attempts::add(cluster, &mut report.findings);
        Diagnosis {
            impact: Impact::new(cluster, &Model::new(cluster), &report.findings),
            cluster,
            grades: Grades::of_report(cluster),
            report,
            arguments: Some(Vec::new()),
            unfolded: false,
            chosen: None,
            tails: Vec::new(),
        }
    }

    /// The diagnosis of the findings that ended a wait.
    pub fn of_blockers(blockers: &Blockers) -> Option<Diagnosis<'_>> {
        let (cluster, report) = blockers.found.as_ref()?;
        Some(Diagnosis { arguments: None, ..Diagnosis::new(cluster, report.clone()) })
    }

    /// Sets the arguments that limit the diagnosis to part of the cluster or of the rules.
    pub fn narrowed(self, arguments: Vec<String>) -> Diagnosis<'a> {
        Diagnosis { arguments: Some(arguments), ..self }
    }

    /// Counts only these nodes, and puts causes that are only on others last; all nodes if there are none.
    pub fn on_nodes(mut self, nodes: &[String]) -> Diagnosis<'a> {
        if !nodes.is_empty() {
            let is_selected = |name: &&String| {
                self.cluster.node(name).is_some_and(|node| self.cluster.selecting(node).next().is_some())
            };
            let selected = nodes.iter().filter(is_selected).count();
            self.impact.limit_to(&self.report.findings, nodes, selected);
        }
        self
    }

    /// Sets whether every finding is shown in full, with effects next to their causes.
    pub fn unfolded(self, unfolded: bool) -> Diagnosis<'a> {
        Diagnosis { unfolded, ..self }
    }

    /// Limits the report to the cause with this number, counted from 1, in full.
    ///
    /// # Errors
    ///
    /// There is no such cause.
    pub fn only(self, number: Option<usize>) -> Result<Diagnosis<'a>> {
        let all = self.impact.causes.len();
        let chosen = number.map(|number| match number.checked_sub(1) {
            Some(at) if at < all => Ok(at),
            _ => Err(Error::usage(format!("there is no cause {number}: the list has {all}"))),
        });
        Ok(Diagnosis { chosen: chosen.transpose()?, ..self })
    }

    /// The causes, each with its effects.
    pub fn causes(&self) -> Vec<FindingGroup<'_>> {
        let findings = &self.report.findings;
        let causes = self.impact.causes.iter().map(|cause| FindingGroup {
            blocked: Some(&cause.blocked),
            ..FindingGroup::of(&cause.cause, findings)
        });
        causes.collect()
    }

    /// The groups to show: causes; with `--all` also their effects.
    fn groups(&self) -> Vec<FindingGroup<'_>> {
        let mut groups = Vec::new();
        for (at, cause) in self.causes().into_iter().enumerate() {
            if self.chosen.is_some_and(|chosen| chosen != at) {
                continue;
            }
            let effects = cause.effects();
            groups.push(cause);
            if self.unfolded {
                groups.extend(effects);
            }
        }
        groups
    }

    /// The groups in full if they fit into the lines, or with `--all`, or for one cause. Otherwise the cause above info in
    /// brief, and the messages of few notes.
    fn findings(&self, wide: bool, lines: usize) -> Text {
        if let Some(causes) = self.indexed() {
            return self.index(&causes, lines);
        }
        let groups = self.groups();
        let mut full = Text::new();
        for group in &groups {
            full.blank().append(group.text(&self.grades, wide, Detail::Full));
        }
        if self.unfolded || self.chosen.is_some() || rows(&full, Layout::columns(COLUMNS)) < lines {
            return full;
        }
        let mut text = Text::new();
        let (causes, notes): (Vec<_>, Vec<_>) =
            groups.iter().partition(|group| group.severity > Severity::Info);
        for cause in causes {
            text.blank().append(cause.text(&self.grades, wide, Detail::Brief));
        }
        for note in notes.iter().take(SHOWN_NOTES) {
            text.blank().line(note.title(self.cluster, wide));
            text.indented(2, note.message().into_owned());
        }
        if notes.len() > SHOWN_NOTES {
            text.blank().append(self.notes());
        }
        text.blank().line(text::dim("--all shows every finding with its evidence and remedies"));
        text
    }

    pub fn verdict(&self) -> Line {
        let counts = &self.report.counts;
        let mut parts = counted(counts.errors, counts.warnings);
        if counts.infos > 0 {
            parts.push(plural(counts.infos, "note"));
        }
        let found = if parts.is_empty() { String::new() } else { format!(": {}", list(&parts)) };
        if let Some(stuck) = cause_table::stuck(&self.impact) {
            return stuck;
        }
        let narrowed = self.arguments.as_ref().is_some_and(|arguments| !arguments.is_empty());
        let muted = mutes::counted(counts.muted, counts.muted_without_expiry);
        let apart = muted.map_or_else(String::new, |counted| format!(" apart from {counted}"));
        match self.report.verdict {
            Verdict::Stuck => text::error("Stuck") + found,
            Verdict::Blocked => {
                text::warning("No errors, but some work is blocked until someone intervenes") + found
            }
            // A warning may become an error: nothing is known to be stuck only without one.
            Verdict::Healthy if counts.warnings > 0 => {
                let scope = if narrowed { " in the selected scope" } else { "" };
                text::warning(format!("No errors{scope}")) + found
            }
            Verdict::Healthy => {
                let verdict = if narrowed { "No problems in the selected scope" } else { "Nothing is stuck" };
                text::good(verdict) + apart + found
            }
            Verdict::NotFullyChecked => {
                let unchecked = self.report.not_checked.len();
                let what = format!("{} could not run", plural(unchecked, "rule"));
                let whole = unchecked == counts.rules;
                text::warning(incomplete(&what, whole, &parts, counts.warnings)) + apart
            }
        }
    }

    /// The scope of the diagnosis. The number of rules appears only if rules were selected: it grows with
    /// every release.
    pub fn checked(&self) -> String {
        let counts = &self.report.counts;
        let mut things = vec![
            plural(counts.skyhooks, self.cluster.flavor().kind()),
            plural(counts.nodes, "node"),
            plural(counts.pods, "package pod"),
        ];
        if counts.jobs > 0 {
            things.push(plural(counts.jobs, "job"));
        }
        let things = list(&things);
        let against = if counts.rules == rules::ALL.len() {
            String::new()
        } else {
            format!(" against {}", plural(counts.rules, "rule"))
        };
        let ages = if self.cluster.from_files && self.cluster.clock != Clock::Unknown {
            format!(
                " Ages are relative to {}, {}.",
                self.cluster.taken_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
                self.cluster.clock.words()
            )
        } else {
            String::new()
        };
        let is_open = |s: &Skyhook| s.is_active() && s.status.status != Some(Status::Complete);
        let unfinished = self.impact.causes.is_empty() && self.cluster.skyhooks.iter().any(is_open);
        let doubt = self.cluster.clock.doubt().filter(|_| unfinished);
        let doubt = doubt.map(|doubt| format!(" {doubt}")).unwrap_or_default();
        format!("Checked {things}{against}.{ages}{doubt}")
    }

    /// Muted findings, and mutes that have lapsed.
    pub fn muted(&self) -> Text {
        mutes::section(&self.report)
    }

    /// Rules that could not run, grouped by reason; without `wide`, of each group at most [`CODES`] codes.
    pub fn not_checked(&self, wide: bool) -> Option<Text> {
        let not_checked = &self.report.not_checked;
        if not_checked.is_empty() {
            return None;
        }
        let mut text = Text::new();
        text.line(text::warning(format!("{} could not run", plural(not_checked.len(), "rule"))));
        for (reason, codes) in grouped(not_checked.iter().map(|n| (&n.reason, n.rule.code))) {
            let shown = if wide { codes.len() } else { codes.len().min(CODES) };
            let more = match codes.len() - shown {
                0 => String::new(),
                more => format!(" and {more} more (-o wide)"),
            };
            text.indented(2, Line::from(format!("{}{more}: {reason}", codes[..shown].join(" "))));
        }
        Some(text)
    }
}

impl View for Diagnosis<'_> {
    fn blocks(&self, wide: bool) -> Text {
        let mut text = Text::new();
        text.line(self.verdict());
        let mut end = Text::new();
        if let Some(unread) = self.logs_not_read() {
            end.blank().paragraph(unread);
        }
        if let Some(not_checked) = self.not_checked(wide) {
            end.blank().append(not_checked);
        }
        let muted = self.muted();
        if !muted.is_empty() {
            end.blank().append(muted);
        }
        end.blank().paragraph(text::dim(self.checked()));
        let taken = 1 + 1 + rows(&end, Layout::columns(COLUMNS));
        text.append(self.findings(wide, LINES.saturating_sub(taken)));
        text.append(end);
        text
    }

    fn names(&self) -> Vec<String> {
        self.cause_names()
    }

    fn document(&self) -> Value {
        document("Diagnosis", &Document::of(self))
    }

    fn junit(&self) -> Option<quick_junit::Report> {
        Some(self.junit_report())
    }

    fn openmetrics(&self) -> Option<crate::view::monitoring::Metrics> {
        Some(self.metrics())
    }
}

/// Number of lines on a terminal with [`COLUMNS`] columns, where unwrapped text such as commands continues on
/// the next line.
fn rows(text: &Text, layout: Layout) -> usize {
    let lines = text.lines(layout).into_iter();
    lines.map(|line| line.plain().chars().count().div_ceil(COLUMNS).max(1)).sum()
}

/// Maximum number of log requests.
const MOST: usize = 50;

impl Diagnosis<'_> {
    /// The logs to request, at most `MOST`: for one finding of each group that has logs, causes first. Each
    /// item lists candidates, best first.
    pub fn logs(&self) -> Vec<Vec<ContainerLog>> {
        self.log_requests().into_iter().map(|(_, pieces)| pieces).collect()
    }

    /// Adds the results of the log requests, in order.
    pub fn with_logs(mut self, tails: Vec<Tail>) -> Self {
        for ((findings, pieces), tail) in self.log_requests().into_iter().zip(&tails) {
            for at in findings {
                let Some(reason) = &mut self.report.findings[at].reason else {
                    continue;
                };
                match tail {
                    Ok(Some((piece, lines))) => reason.set_log(&pieces[*piece], lines),
                    Ok(None) => {}
                    Err(why) => reason.log_error = Some(why.clone()),
                }
            }
        }
        self.tails = tails;
        self
    }

    /// The findings with the logs to request; findings with the same logs share a request.
    fn log_requests(&self) -> Vec<(Vec<usize>, Vec<ContainerLog>)> {
        let findings = self.report.findings.iter().enumerate();
        let places: HashMap<*const Finding, usize> =
            findings.map(|(at, finding)| (std::ptr::from_ref(finding), at)).collect();
        let causes = self.causes();
        let effects: Vec<_> = causes.iter().flat_map(FindingGroup::effects).collect();
        let mut asked: Vec<(Vec<usize>, Vec<ContainerLog>)> = Vec::new();
        for group in causes.iter().chain(&effects) {
            let with_logs = |f: &&&Finding| f.reason.as_ref().is_some_and(|r| !r.pieces.is_empty());
            let Some(finding) = group.findings.iter().find(with_logs) else {
                continue;
            };
            let at = places.get(&std::ptr::from_ref(*finding)).copied();
            let (Some(at), Some(reason)) = (at, &finding.reason) else {
                continue;
            };
            let room = asked.len() < MOST;
            match asked.iter_mut().find(|(_, pieces)| *pieces == reason.pieces) {
                Some((places, _)) if places.contains(&at) => {}
                Some((places, _)) => places.push(at),
                None if room => asked.push((vec![at], reason.pieces.clone())),
                None => {}
            }
        }
        asked
    }

    /// One line on the logs that could not be read.
    pub fn logs_not_read(&self) -> Option<Line> {
        let unread = self.tails.iter().filter_map(|tail| Some((tail.as_ref().err()?.as_str(), tail)));
        let parts: Vec<String> = grouped(unread)
            .into_iter()
            .map(|(why, logs)| format!("{} ({why})", plural(logs.len(), "log")))
            .collect();
        (!parts.is_empty()).then(|| text::warning("Not read") + format!(": {}", list(&parts)))
    }
}
