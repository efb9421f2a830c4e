use serde_json::Value;

use crate::commands::shared::command::command;
use crate::commands::shared::rule::{Document, find_rule, severity};
use crate::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::rules::Rule;
use crate::view::View;
use crate::view::text::{self, Text};

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

command! {
    "explain": Args => run,
    prints: { "Rule": Document, "Rules": Vec<Document> },
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
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
            if !rule.blocks.is_empty() {
                text.line(text::dim(blocks(rule)));
            }
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

/// `blocks installs, every reconcile, for all custom resources; retried automatically`
fn blocks(rule: &Rule) -> String {
    let words: Vec<&str> = rule.blocks.iter().map(|b| b.meaning()).collect();
    let retried = if rule.retried {
        "; retried automatically"
    } else {
        ""
    };
    format!("blocks {}{retried}", words.join(", "))
}
