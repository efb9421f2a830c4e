use serde_json::Value;

use super::deletion::Deletion;
use super::document::Document;
use super::report::FinalizerStatus;
use crate::api::Skyhook;
use crate::args::named;
use crate::cluster::{Cluster, Source};
use crate::commands::shared::command::command;
use crate::commands::shared::{scope, selection};
use crate::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::rules::Scope;
use crate::view::text::Text;
use crate::view::{Items, List, View};

/// Show whether deletions are progressing, and what they wait for
///
/// Shows whether the deletion is progressing, slow or blocked, which packages have to be uninstalled first
/// and where, the findings, every remedy, least disruptive first, and the remedy to use now. The result is
/// based on running work and on findings, never on age alone. Without a NAME, all custom resources that are
/// being deleted are shown, each with its next command; with -o wide, each in full.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook finalizer status
  kubectl skyhook finalizer status gpu-tune
  kubectl skyhook finalizer status gpu-tune -o json")]
pub struct Args {
    /// The custom resources; default: all that are being deleted
    #[arg(value_name = "NAME", value_parser = named::skyhook)]
    names: Vec<String>,
}

command! {
    "finalizer status": Args => run,
    needs: Scope::default().needs(),
    prints: {
        "FinalizerStatus": Document,
        "FinalizerStatusList": Items<Document>
    },
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    let needs = Scope::default().needs();
    let cluster = ctx.load(&needs).await?;
    let items = items(&cluster, args)?;
    scope::warn_unreadable(ctx, &cluster, &needs);
    if let ([_], [item]) = (args.names.as_slice(), items.as_slice()) {
        ctx.show(item)?;
        return Ok(Exit::Done);
    }
    if items.is_empty() {
        ctx.note("No custom resource is being deleted.");
    }
    ctx.show(&FinalizerStatuses { items })?;
    Ok(Exit::Done)
}

fn items<'a>(cluster: &'a Cluster, args: &Args) -> Result<Vec<FinalizerStatus<'a>>> {
    let mut skyhooks: Vec<&Skyhook> = Vec::new();
    if args.names.is_empty() {
        selection::complete(cluster, Source::Skyhooks)?;
        selection::not_left_out(cluster, "")?;
        let all = cluster.skyhooks.items().iter();
        skyhooks.extend(all.filter(|skyhook| skyhook.deleting()));
    }
    for name in &args.names {
        skyhooks.push(selection::existing(cluster, name)?);
    }
    selection::complete(cluster, Source::Nodes)?;
    let item = |skyhook| FinalizerStatus { cluster, deletion: Deletion::of(cluster, skyhook) };
    Ok(skyhooks.into_iter().map(item).collect())
}

/// Deletions, sorted by name.
pub struct FinalizerStatuses<'a> {
    pub items: Vec<FinalizerStatus<'a>>,
}

impl View for FinalizerStatuses<'_> {
    fn blocks(&self, wide: bool) -> Text {
        let mut text = Text::new();
        let whole = wide || self.items.len() == 1;
        for (at, item) in self.items.iter().enumerate() {
            if at > 0 {
                text.blank();
            }
            text.append(if whole { item.blocks(wide) } else { item.summary() });
        }
        text
    }

    fn names(&self) -> Vec<String> {
        let items = self.items.iter();
        items.map(|item| item.deletion.skyhook.reference()).collect()
    }

    fn document(&self) -> Value {
        let items = self.items.iter().map(|item| Document::of(item.cluster, &item.deletion));
        List::new("FinalizerStatusList", items).document()
    }
}
