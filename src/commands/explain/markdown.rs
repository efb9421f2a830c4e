//! The manual of a rule as a Markdown page: `explain --markdown`, and the files of `docs/codes`.

use std::collections::BTreeMap;

use super::{TermDocument, blocks};
use crate::lint::{self, LintRule};
use crate::plan::Grade;
use crate::rules::{self, Rule};

/// Every page of `docs/codes` by file name: `SKY101.md`.
pub fn pages() -> BTreeMap<String, String> {
    let rules = rules::ALL.iter().map(|r| (r.code, rule_page(r)));
    let lint = lint::ALL.iter().map(|r| (r.code, lint_page(r)));
    let retired = rules::RETIRED.iter().map(|(code, heir)| (*code, retired_page(code, heir)));
    let all = rules.chain(lint).chain(retired);
    all.map(|(code, page)| (format!("{code}.md"), page)).collect()
}

pub(super) fn rule_page(rule: &Rule) -> String {
    let mut facts = vec![format!("Severity: {}.", rule.severity)];
    if !rule.blocks.is_empty() {
        facts.push(format!("It {}.", blocks(rule)));
    }
    let command = format!("kubectl skyhook diagnose stuck --rule {}", rule.code);
    page(rule.code, rule.name, &facts, rule.docs, &command)
}

pub(super) fn lint_page(rule: &LintRule) -> String {
    let facts = [
        format!("Severity: {}.", rule.severity),
        "Checked by `lint`, before a manifest is applied.".to_owned(),
    ];
    let command = "kubectl skyhook lint -f FILE";
    page(rule.code, rule.name, &facts, rule.docs, command)
}

pub(super) fn grade_page(grade: Grade) -> String {
    let grades = Grade::ALL.iter();
    let rows: String =
        grades.map(|grade| format!("- {grade} ({}): {}\n", grade.word(), grade.meaning())).collect();
    format!(
        "# {grade}: {}\n\nThe grade of a plan or remedy shows its worst possible effect on the cluster:\n\n{rows}",
        grade.meaning()
    )
}

pub(super) fn term_page(term: &TermDocument) -> String {
    format!("# {}\n\n{}\n", term.term, term.meaning)
}

fn page(code: &str, name: &str, facts: &[String], docs: &str, command: &str) -> String {
    let facts = facts.join(" ");
    let docs = body(docs);
    format!(
        "# {code}: {name}\n\n{docs}\n\n## In the command line\n\n{facts}\n\n    {command}\n    kubectl skyhook explain {code}\n"
    )
}

fn retired_page(code: &str, heir: &str) -> String {
    format!("# {code}\n\nThis code is retired; it was replaced by [{heir}]({heir}.md).\n")
}

/// A doc comment with its headings one level down, below the title of the page.
fn body(docs: &str) -> String {
    let mut fenced = false;
    let lines = docs.lines().map(|line| {
        let line = line.strip_prefix(' ').unwrap_or(line).trim_end();
        fenced ^= line.trim_start().starts_with("```");
        if line.starts_with('#') && !fenced { format!("#{line}") } else { line.to_owned() }
    });
    lines.collect::<Vec<_>>().join("\n").trim().to_owned()
}
