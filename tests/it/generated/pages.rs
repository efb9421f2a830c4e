//! The tables of the pages in `docs`.

use clap::Command;
use kubectl_skyhook::error::Exit;
use kubectl_skyhook::lint;
use kubectl_skyhook::program::Program;
use kubectl_skyhook::rules::{self, Severity};

/// The pages that hold something generated.
pub const PAGES: [&str; 3] = ["docs/commands.md", "docs/lint.md", "docs/rules.md"];

/// The text with every section between markers regenerated.
pub fn filled(text: &str) -> String {
    let sections = [
        ("commands", commands()),
        ("rules", rules()),
        ("lint-rules", lint_rules()),
        ("exit-codes", exit_codes()),
    ];
    sections
        .iter()
        .fold(text.to_owned(), |text, (name, table)| {
            let begin = format!("<!-- generated: {name} -->\n");
            let Some((before, rest)) = text.split_once(&begin) else {
                return text;
            };
            let (_, after) = rest
                .split_once("<!-- /generated -->")
                .unwrap_or_else(|| panic!("section {name} has no end"));
            format!("{before}{begin}\n{table}\n<!-- /generated -->{after}")
        })
}

/// `| Command | What it does |`, a row for each command that does something by itself.
pub fn commands() -> String {
    let mut rows = String::from("| Command | What it does |\n| --- | --- |\n");
    for command in Program::SKYHOOK.tree().get_subcommands() {
        row(command, &Program::SKYHOOK.words(), &mut rows);
    }
    rows
}

fn row(command: &Command, before: &str, rows: &mut String) {
    let words = format!("{before} {}", command.get_name());
    let about = command
        .get_about()
        .map(ToString::to_string)
        .unwrap_or_default();
    let alone = command.is_args_conflicts_with_subcommands_set();
    let spoken_for = command
        .get_subcommands()
        .any(|c| c.get_about().map(ToString::to_string).as_ref() == Some(&about));
    if !command.has_subcommands() || (alone && !spoken_for) {
        let about = about.replace('|', "\\|");
        rows.push_str(&format!("| `{words}` | {about} |\n"));
    }
    for command in command.get_subcommands() {
        row(command, &words, rows);
    }
}

fn rules() -> String {
    let rules = rules::ALL.iter();
    rule_table(rules.map(|r| (r.code, r.name, r.severity, r.summary())))
}

fn lint_rules() -> String {
    let rules = lint::ALL.iter();
    rule_table(rules.map(|r| (r.code, r.name, r.severity, r.summary())))
}

/// A table of codes, names, severities and summaries.
fn rule_table<'a>(rules: impl Iterator<Item = (&'a str, &'a str, Severity, &'a str)>) -> String {
    let mut rows =
        String::from("| Code | Name | Severity | What it means |\n| --- | --- | --- | --- |\n");
    for (code, name, severity, summary) in rules {
        let summary = summary.replace('|', "\\|");
        rows.push_str(&format!("| {code} | `{name}` | {severity} | {summary} |\n"));
    }
    rows
}

fn exit_codes() -> String {
    let mut rows = String::from("| Code | Meaning |\n| --- | --- |\n");
    for (exit, meaning) in Exit::ALL {
        rows.push_str(&format!("| {} | {meaning} |\n", exit.code()));
    }
    rows
}
