//! The tables of the pages in `docs`.

use std::fmt::Write as _;

use clap::Command;
use kubectl_skyhook::commands;
use kubectl_skyhook::commands::schema::documents;
use kubectl_skyhook::error::Exit;
use kubectl_skyhook::lint;
use kubectl_skyhook::plan::Refusal;
use kubectl_skyhook::program::Program;
use kubectl_skyhook::rules::{self, Grade, Severity};
use serde_json::Value;

use crate::support::run::Run;

/// Pages with generated sections.
pub const PAGES: [&str; 5] =
    ["SKILL.md", "docs/commands.md", "docs/lint.md", "docs/rules.md", "docs/teams.md"];

/// The text with every section between markers regenerated.
pub fn filled(text: &str) -> String {
    let sections = [
        ("commands", commands()),
        ("rules", rules()),
        ("lint-rules", lint_rules()),
        ("exit-codes", exit_codes()),
        ("refusals", refusals()),
        ("grades", grades()),
        ("rbac-of-diagnose", rbac_of_diagnose()),
        ("diagnosis-fields", diagnosis_fields()),
        ("reading-commands", commands_that(true)),
        ("changing-commands", commands_that(false)),
    ];
    sections.iter().fold(text.to_owned(), |text, (name, table)| {
        let begin = format!("<!-- generated: {name} -->\n");
        let Some((before, rest)) = text.split_once(&begin) else {
            return text;
        };
        let (_, after) =
            rest.split_once("<!-- /generated -->").unwrap_or_else(|| panic!("section {name} has no end"));
        format!("{before}{begin}\n{table}\n<!-- /generated -->{after}")
    })
}

/// The rows of [`commands`] that only read, or those that may change something.
fn commands_that(only_read: bool) -> String {
    let all = commands::all();
    let table = commands();
    let mut lines = table.lines();
    let mut rows: String = lines.by_ref().take(2).map(|l| format!("{l}\n")).collect();
    for line in lines {
        let words = line.split('`').nth(1).expect("a command");
        let words = words.strip_prefix("kubectl skyhook ").expect("the program's name");
        let info = all.iter().find(|c| c.words == words);
        if info.is_some_and(|c| c.only_reads() == only_read && (c.is_online() || only_read)) {
            writeln!(rows, "{line}").expect("a string");
        }
    }
    rows
}

/// `| Command | What it does |`, with a row for each command that is not only a group.
pub fn commands() -> String {
    let mut rows = String::from("| Command | What it does |\n| --- | --- |\n");
    for command in Program::SKYHOOK.tree().get_subcommands() {
        row(command, &Program::SKYHOOK.words(), &mut rows);
    }
    rows
}

fn row(command: &Command, before: &str, rows: &mut String) {
    let words = format!("{before} {}", command.get_name());
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let alone = command.is_args_conflicts_with_subcommands_set();
    let spoken_for =
        command.get_subcommands().any(|c| c.get_about().map(ToString::to_string).as_ref() == Some(&about));
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
    let mut rows = String::from("| Code | Name | Severity | What it means |\n| --- | --- | --- | --- |\n");
    for (code, name, severity, summary) in rules {
        let summary = summary.replace('|', "\\|");
        rows.push_str(&format!("| [{code}](codes/{code}.md) | `{name}` | {severity} | {summary} |\n"));
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

fn refusals() -> String {
    let mut rows = String::from("| When | Why | Message |\n| --- | --- | --- |\n");
    for (moment, why, message) in Refusal::ALL {
        let message = message.replace(":?}", "}");
        rows.push_str(&format!("| {} |{why} | {message} |\n", moment.words()));
    }
    rows
}

fn rbac_of_diagnose() -> String {
    let role = Run::new(["rbac", "--for", "diagnose stuck"]).output().stdout;
    format!("```yaml\n{role}```\n")
}

fn grades() -> String {
    let mut rows = String::from("| Grade | Meaning |\n| --- | --- |\n");
    for grade in Grade::ALL {
        rows.push_str(&format!("| {grade} | {} |\n", grade.meaning()));
    }
    rows
}

/// `| Field | Meaning |` of the document of `diagnose stuck`, with the fields of its findings, causes and
/// remedies.
fn diagnosis_fields() -> String {
    let documents = documents();
    let diagnosis = documents.iter().find(|d| d.published.kind == "Diagnosis");
    let schema = diagnosis.expect("a document").published.schema();
    let mut rows = String::from("| Field | Meaning |\n| --- | --- |\n");
    fields(&schema, &schema, "", &mut rows);
    rows
}

fn fields(schema: &Value, of: &Value, path: &str, rows: &mut String) {
    for (name, field) in of["properties"].as_object().into_iter().flatten() {
        let (field, suffix) = match &field["items"] {
            Value::Null => (field.clone(), ""),
            items => {
                let mut item = items.clone();
                item["description"] = field["description"].clone();
                (item, "[]")
            }
        };
        let path = format!("{path}{name}{suffix}");
        let target = match field["$ref"].as_str() {
            Some(reference) => &schema["$defs"][reference.trim_start_matches("#/$defs/")],
            None => &Value::Null,
        };
        let values = constants(target);
        let described = field["description"].as_str();
        let meaning = described.or(target["description"].as_str());
        let meaning = meaning.unwrap_or_default().replace('\n', " ");
        let meaning = [meaning, values].join(" ");
        writeln!(rows, "| `{path}` | {} |", meaning.trim()).expect("a string");
        fields(schema, target, &format!("{path}."), rows);
    }
}

/// The values of an enumeration with their meanings: `stuck`: at least one finding is an error.
fn constants(schema: &Value) -> String {
    let variants = schema["oneOf"].as_array().into_iter().flatten();
    let described = variants.filter_map(|variant| {
        let value = variant["const"].as_str()?;
        let meaning = variant["description"].as_str().unwrap_or_default();
        Some(format!("`{value}`: {}", meaning.replace('\n', " ")))
    });
    described.collect::<Vec<_>>().join(" ")
}
