//! Comments that suppress findings: `# kubectl-skyhook: allow SKY803 reason`.

use super::yaml::{Parsed, Range};

const PREFIX: &str = "kubectl-skyhook:";

/// A suppression of one rule for the field below or beside its comment, including everything in that field.
#[derive(Debug, Clone)]
pub struct Suppression {
    pub line: usize,
    /// Code or name of the rule; empty if the comment has none.
    pub rule: String,
    pub reason: String,
    /// The lines that the comment covers.
    pub range: Range,
}

impl Suppression {
    /// All suppressions in a document.
    pub fn all(parsed: &Parsed) -> Vec<Suppression> {
        let comments = parsed.comments.iter();
        let found = comments.filter_map(|(line, text)| {
            let text = text.trim().strip_prefix(PREFIX)?.trim();
            let words = text.strip_prefix("allow").unwrap_or_default().trim();
            let (rule, reason) = words.split_once(char::is_whitespace).unwrap_or((words, ""));
            Some(Suppression {
                line: *line,
                rule: rule.to_owned(),
                reason: reason.trim().to_owned(),
                range: covered(parsed, *line),
            })
        });
        found.collect()
    }

    /// Whether the comment suppresses a finding of this rule at this line.
    pub fn covers(&self, code: &str, name: &str, line: usize) -> bool {
        let rule = self.rule.as_str();
        let same = rule.eq_ignore_ascii_case(code) || rule == name;
        same && self.line.min(self.range.first) <= line && line <= self.range.last
    }
}

/// The lines of the largest field that begins on the line of the comment, else of the next field below.
fn covered(parsed: &Parsed, line: usize) -> Range {
    let ranges = || parsed.ranges.values().filter(|range| range.first >= line);
    let first = ranges().map(|range| range.first).min().unwrap_or(line);
    let last = ranges().filter(|range| range.first == first);
    Range { first, last: last.map(|range| range.last).max().unwrap_or(line) }
}
