use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::diagnose::stuck::find_rule;
use crate::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::rules::{Rule, Severity};
use crate::view::text::{self, Label, Text};
use crate::view::{Table, View, cells};

/// Explain a rule: what it means, how to confirm it, how to fix it
///
/// Needs no cluster.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook explain SKY101
  kubectl skyhook explain migration-hold")]
pub struct Args {
    /// Code or name of the rule
    #[arg(value_name = "CODE|NAME", required = true)]
    rules: Vec<String>,
}

pub fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    let rules = args
        .rules
        .iter()
        .map(|r| find_rule(r))
        .collect::<Result<_>>()?;
    ctx.show(&Explanation(rules))?;
    Ok(Exit::Done)
}

struct Explanation(Vec<&'static Rule>);

impl View for Explanation {
    fn blocks(&self, _wide: bool) -> Text {
        let mut text = Text::new();
        for rule in &self.0 {
            text.blank();
            text.line(
                text::name(rule.code)
                    + " "
                    + text::heading(rule.name)
                    + " ("
                    + severity(rule.severity)
                    + ")",
            );
            text.blank();
            text.indented(2, Text::manual(rule.docs));
        }
        text
    }

    fn names(&self) -> Vec<String> {
        self.0.iter().map(|r| format!("rule/{}", r.code)).collect()
    }

    fn document(&self) -> Value {
        let rules: Vec<Document> = self.0.iter().map(|r| Document::of(r)).collect();
        let document = match rules.as_slice() {
            [one] => serde_json::to_value(one),
            several => serde_json::to_value(several),
        };
        document.expect("a document is plain data")
    }
}

pub(super) fn severity(severity: Severity) -> text::Span {
    match severity {
        Severity::Error => Label::Error,
        Severity::Warning => Label::Warning,
        Severity::Info => Label::Info,
    }
    .on(severity)
}

/// A rule, and its manual.
#[derive(Serialize, JsonSchema)]
pub struct Document {
    code: String,
    name: String,
    severity: Severity,
    summary: String,
    /// What has to be read for the rule to say that all is well.
    needs: Vec<String>,
    /// What makes its findings surer or better explained.
    also: Vec<String>,
    /// What it means, how to confirm it, how to fix it.
    explanation: String,
}

impl Document {
    pub(super) fn of(rule: &Rule) -> Document {
        let sources = |sources: &[crate::cluster::Source]| -> Vec<String> {
            sources.iter().map(ToString::to_string).collect()
        };
        Document {
            code: rule.code.to_owned(),
            name: rule.name.to_owned(),
            severity: rule.severity,
            summary: rule.summary().to_owned(),
            needs: sources(rule.needs),
            also: sources(rule.also),
            explanation: Text::manual(rule.docs).plain(),
        }
    }
}

/// The table of all rules.
pub(super) fn table(rules: &[&'static Rule]) -> Table {
    let mut table = Table::new(["code", "name", "severity", "says"]).prose();
    for rule in rules {
        table.row(cells![
            text::name(rule.code),
            rule.name,
            severity(rule.severity),
            rule.summary()
        ]);
    }
    table
}
