use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::commands::shared::command::command;
use crate::commands::shared::rule::{Document, find_rule, severity};
use crate::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::lint::{self, LintRule};
use crate::plan::Grade;
use crate::rules::Rule;
use crate::view::text::{self, Text};
use crate::view::{View, to_json};

/// Explain a rule: what it means, how to confirm it, how to fix it
///
/// Also explains the grades that previews and remedies carry, from B0 to B4. Needs no cluster.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook explain SKY101
  kubectl skyhook explain migration-hold
  kubectl skyhook explain B4")]
pub struct Args {
    /// Code or name of the rule, or a grade
    #[arg(value_name = "CODE|NAME", required = true)]
    topics: Vec<String>,
}

command! {
    "explain": Args => run,
    prints: { "Rule": Document, "Rules": Vec<Document>, "Grade": GradeDocument },
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    let topics = args.topics.iter().map(|t| Topic::named(t));
    let topics = topics.collect::<Result<_>>()?;
    ctx.show(&Explanation(topics))?;
    Ok(Exit::Done)
}

enum Topic {
    Rule(&'static Rule),
    Lint(&'static LintRule),
    Grade(Grade),
}

/// The worst effect of a command on the cluster.
#[derive(Serialize, JsonSchema)]
struct GradeDocument {
    grade: Grade,
    meaning: &'static str,
}

impl Topic {
    fn named(name: &str) -> Result<Topic> {
        if let Some(grade) = Grade::named(name) {
            return Ok(Topic::Grade(grade));
        }
        match lint::find(name) {
            Some(rule) => Ok(Topic::Lint(rule)),
            None => find_rule(name).map(Topic::Rule),
        }
    }

    fn text(&self) -> Text {
        let mut text = Text::new();
        match self {
            Topic::Rule(rule) => {
                let title = text::name(rule.code) + " " + text::heading(rule.name);
                text.line(title + " (" + severity(rule.severity) + ")");
                if !rule.blocks.is_empty() {
                    text.line(text::dim(blocks(rule)));
                }
                text.blank();
                text.indented(2, Text::markdown(rule.docs));
            }
            Topic::Lint(rule) => {
                let title = text::name(rule.code) + " " + text::heading(rule.name);
                text.line(title + " (" + severity(rule.severity) + ")");
                text.line(text::dim("checked by lint, before a manifest is applied"));
                text.blank();
                text.indented(2, Text::markdown(rule.docs));
            }
            Topic::Grade(grade) => {
                text.line(text::name(grade) + " (grade): " + grade.meaning());
                text.blank();
                let mut all = Text::new();
                all.paragraph(
                    "The grade of a plan or remedy shows its worst possible effect on the cluster:",
                );
                for grade in Grade::ALL {
                    all.item("- ", format!("{grade}: {}", grade.meaning()));
                }
                text.indented(2, all);
            }
        }
        text
    }

    fn reference(&self) -> String {
        match self {
            Topic::Rule(rule) => format!("rule/{}", rule.code),
            Topic::Lint(rule) => format!("rule/{}", rule.code),
            Topic::Grade(grade) => format!("grade/{grade}"),
        }
    }

    fn document(&self) -> Value {
        match self {
            Topic::Rule(rule) => to_json(&Document::of(rule)),
            Topic::Lint(rule) => to_json(&Document::of_lint(rule)),
            Topic::Grade(grade) => to_json(&GradeDocument {
                grade: *grade,
                meaning: grade.meaning(),
            }),
        }
    }
}

struct Explanation(Vec<Topic>);

impl View for Explanation {
    fn blocks(&self, _wide: bool) -> Text {
        let mut text = Text::new();
        for topic in &self.0 {
            text.blank();
            text.append(topic.text());
        }
        text
    }

    fn names(&self) -> Vec<String> {
        self.0.iter().map(Topic::reference).collect()
    }

    fn document(&self) -> Value {
        match self.0.as_slice() {
            [one] => one.document(),
            several => several.iter().map(Topic::document).collect(),
        }
    }
}

/// `blocks installs; every reconcile, for all custom resources; retried automatically`
fn blocks(rule: &Rule) -> String {
    let words: Vec<&str> = rule.blocks.iter().map(|b| b.meaning()).collect();
    let retried = if rule.retried {
        "; retried automatically"
    } else {
        ""
    };
    format!("blocks {}{retried}", words.join("; "))
}
