//! The report of `diagnose stuck`, as text and as a document.

mod contrast;
mod document;
pub mod group;
mod logs;
mod reason;

use serde_json::Value;

pub use self::document::Document;
use self::group::{Detail, FindingGroup};
use crate::cluster::Cluster;
use crate::commands::shared::grouped::grouped;
use crate::commands::shared::rule::{counted, incomplete};
use crate::ctx::Tail;
use crate::rules::causes::Causes;
use crate::rules::{self, Report, Verdict, reason as attempts};
use crate::view::text::{self, Layout, Line, Text};
use crate::view::{View, list, plural, to_json};

/// What `diagnose stuck` answers.
pub struct Diagnosis<'a> {
    cluster: &'a Cluster,
    report: Report,
    narrowed: bool,
    unfolded: bool,
    /// What became of the logs that were asked for.
    tails: Vec<Tail>,
}

/// How many lines the report takes at the most, unless all of it is asked for.
const LINES: usize = 40;
/// The width of the terminal for which its lines are counted.
const COLUMNS: usize = 100;

impl<'a> Diagnosis<'a> {
    pub fn new(cluster: &'a Cluster, mut report: Report) -> Diagnosis<'a> {
        attempts::add(cluster, &mut report.findings);
        Diagnosis {
            cluster,
            report,
            narrowed: false,
            unfolded: false,
            tails: Vec::new(),
        }
    }

    /// Says that the answer is about a part of the cluster, or of the rules.
    pub fn narrowed(self, narrowed: bool) -> Diagnosis<'a> {
        Diagnosis { narrowed, ..self }
    }

    /// Shows every finding in full, effects beside their causes.
    pub fn unfolded(self, unfolded: bool) -> Diagnosis<'a> {
        Diagnosis { unfolded, ..self }
    }

    /// The causes, each with its effects.
    fn causes(&self) -> Vec<FindingGroup<'_>> {
        let findings = &self.report.findings;
        let causes = Causes::of(findings).ranked(findings).into_iter();
        causes.map(|c| FindingGroup::of(&c, findings)).collect()
    }

    /// What is shown: the causes; with `--all` also each of their effects on its own.
    fn groups(&self) -> Vec<FindingGroup<'_>> {
        let mut groups = Vec::new();
        for cause in self.causes() {
            let effects = cause.effects();
            groups.push(cause);
            if self.unfolded {
                groups.extend(effects);
            }
        }
        groups
    }

    /// The groups, those at the top in more detail, on at most so many lines unless all is asked for.
    fn findings(&self, wide: bool, lines: usize) -> Text {
        let groups = self.groups();
        let render = |detail| {
            let each = groups.iter().map(move |group| {
                let mut text = Text::new();
                text.blank().append(group.text(self.cluster, wide, detail));
                text
            });
            each.collect::<Vec<Text>>()
        };
        let full = render(Detail::Full);
        if self.unfolded || height(&full) <= lines {
            return joined(full);
        }
        let mut shown = render(Detail::Short);
        let lines = lines.saturating_sub(2);
        while height(&shown) > lines && shown.len() > 1 {
            shown.pop();
        }
        for (at, more) in render(Detail::Brief).into_iter().chain(full).enumerate() {
            let at = at % groups.len();
            if at < shown.len() {
                let before = std::mem::replace(&mut shown[at], more);
                if height(&shown) > lines {
                    shown[at] = before;
                }
            }
        }
        let left_out = groups.len() - shown.len();
        let mut text = joined(shown);
        let more = match left_out {
            0 => "--all shows every finding with its evidence and remedies".to_owned(),
            n => format!(
                "{} not shown; --all shows everything",
                plural(n, "more cause")
            ),
        };
        text.blank().line(text::dim(more));
        text
    }

    fn verdict(&self) -> Line {
        let counts = &self.report.counts;
        let mut parts = counted(counts.errors, counts.warnings);
        if counts.infos > 0 {
            parts.push(format!("{} info", counts.infos));
        }
        let causes = self.groups().len();
        let from = if causes < counts.errors + counts.warnings + counts.infos && !self.unfolded {
            format!(", from {}", plural(causes, "cause"))
        } else {
            String::new()
        };
        let found = if parts.is_empty() {
            String::new()
        } else {
            format!(": {}{from}", list(&parts))
        };
        match self.report.verdict {
            Verdict::Stuck => text::error("Stuck") + found,
            Verdict::Blocked => {
                text::warning("No errors, but some work is blocked until someone intervenes")
                    + found
            }
            Verdict::Healthy if self.narrowed => {
                text::good("No problems in the selected scope") + found
            }
            Verdict::Healthy => text::good("Nothing is stuck") + found,
            Verdict::Incomplete => {
                let unchecked = self.report.not_checked.len();
                let what = format!("{} could not be checked", plural(unchecked, "rule"));
                let whole = unchecked == counts.rules;
                text::warning(incomplete(&what, whole, counts.warnings)) + found
            }
        }
    }

    /// What the rules ran over. Their number is said only where it was chosen: it grows with every release.
    fn checked(&self) -> String {
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
        let ages = if self.cluster.from_files {
            format!(
                " Ages are relative to {}, {}.",
                self.cluster.taken_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
                self.cluster.clock.words()
            )
        } else {
            String::new()
        };
        format!("Checked {things}{against}.{ages}")
    }

    /// Rules that could not be checked, those of one reason together.
    fn not_checked(&self) -> Option<Text> {
        let not_checked = &self.report.not_checked;
        if not_checked.is_empty() {
            return None;
        }
        let mut text = Text::new();
        text.line(text::warning(format!(
            "{} could not be checked",
            plural(not_checked.len(), "rule")
        )));
        for (reason, codes) in grouped(not_checked.iter().map(|n| (&n.reason, n.rule.code))) {
            text.indented(2, Line::from(format!("{}: {reason}", codes.join(" "))));
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
        if let Some(not_checked) = self.not_checked() {
            end.blank().append(not_checked);
        }
        end.blank().paragraph(text::dim(self.checked()));
        let taken = 1 + 1 + rows(&end);
        text.append(self.findings(wide, LINES.saturating_sub(taken)));
        text.append(end);
        text
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for finding in &self.report.findings {
            let subject = &finding.subject;
            let name = format!("{}/{}", subject.kind.to_lowercase(), subject.name);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    fn document(&self) -> Value {
        to_json(&Document::of(self))
    }
}

/// Lines of texts, each with the empty line before it.
fn height(texts: &[Text]) -> usize {
    let each = texts.iter().map(|text| rows(text) + 1);
    each.sum()
}

/// Lines on a terminal of [`COLUMNS`]; what is not wrapped, as commands are not, goes on in the next line there.
fn rows(text: &Text) -> usize {
    let lines = text.lines(Layout::columns(COLUMNS)).into_iter();
    let rows = lines.map(|line| line.plain().chars().count().div_ceil(COLUMNS).max(1));
    rows.sum()
}

fn joined(texts: Vec<Text>) -> Text {
    let mut all = Text::new();
    for text in texts {
        all.append(text);
    }
    all
}
