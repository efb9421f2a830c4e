use serde_json::Value;

use crate::commands::shared::command::command;
use crate::commands::shared::rule;
use crate::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::view::text::Text;
use crate::view::{Items, List, View};

/// List the rules of `diagnose stuck` and `lint`
///
/// Rules from SKY801 on are about manifests (`lint`), the others about clusters. Needs no cluster.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook rules
  kubectl skyhook rules -o jsonpath='{.items[*].code}'")]
pub struct Args {}

command! {
    "rules": Args => run,
    prints: { "Rules": Items<rule::Document> },
}

async fn run(ctx: &mut Ctx, _args: &Args) -> Result<Exit> {
    ctx.show(&Rules)?;
    Ok(Exit::Done)
}

struct Rules;

impl View for Rules {
    fn blocks(&self, _wide: bool) -> Text {
        rule::table(&rule::all()).into()
    }

    fn names(&self) -> Vec<String> {
        let rules = rule::all().into_iter();
        rules.map(|rule| format!("rule/{}", rule.code)).collect()
    }

    fn document(&self) -> Value {
        List::new("Rules", rule::all().into_iter()).document()
    }
}
