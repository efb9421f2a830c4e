use serde_json::Value;

use crate::commands::shared::command::command;
use crate::commands::shared::rule;
use crate::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::rules::ALL;
use crate::view::text::Text;
use crate::view::{View, to_json};

/// List the rules that `diagnose stuck` runs
///
/// Needs no cluster.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook rules
  kubectl skyhook rules -o jsonpath='{.items[*].code}'")]
pub struct Args {}

command! {
    "rules": Args => run,
    prints: { "Rules": Vec<rule::Document> },
}

async fn run(ctx: &mut Ctx, _args: &Args) -> Result<Exit> {
    ctx.show(&Rules)?;
    Ok(Exit::Done)
}

struct Rules;

impl View for Rules {
    fn blocks(&self, _wide: bool) -> Text {
        rule::table(ALL).into()
    }

    fn names(&self) -> Vec<String> {
        ALL.iter().map(|r| format!("rule/{}", r.code)).collect()
    }

    fn document(&self) -> Value {
        let rules = ALL.iter().map(|r| to_json(&rule::Document::of(r)));
        rules.collect()
    }
}
