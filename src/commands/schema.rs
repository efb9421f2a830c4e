//! `schema`: the shapes of the documents that `-o json` prints.

use clap::builder::PossibleValuesParser;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::{
    diagnose, explain, finalizer, journal, leftovers, node, package, status, teardown, uninstall,
    version, wait,
};
use crate::ctx::{Ctx, OutcomeDocument, PlanDocument};
use crate::error::{Error, Exit, Result};
use crate::plan::Saved;
use crate::view::schema::Published;
use crate::view::text::{self, Text};
use crate::view::{OutputFormat, Table, View, cells};

/// Print the JSON Schema of a document
///
/// Of what -o json and -o yaml print, and of the files that --plan-out writes. Without a DOCUMENT all are listed. New
/// fields may come; those that are there stay. Needs no cluster.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook schema
  kubectl skyhook schema Diagnosis")]
pub struct Args {
    /// The document, as the list has it
    #[arg(value_name = "DOCUMENT", ignore_case = true, hide_possible_values = true,
        value_parser = PossibleValuesParser::new(DOCUMENTS.iter().map(|d| d.published.kind)))]
    document: Option<String>,
}

/// A document that commands print.
#[derive(Debug)]
pub struct Document {
    pub published: Published,
    /// The commands, by their words.
    pub printed_by: &'static [&'static str],
}

/// The commands that change something: a plan with --dry-run, and else what came of it.
const WRITERS: &[&str] = &[
    "node reset",
    "node ignore",
    "node unignore",
    "reset",
    "pause",
    "resume",
    "disable",
    "enable",
    "package rerun",
    "deployment-policy reset",
    "update-state",
    "uninstall",
    "finalizer strip",
    "leftovers",
    "undelete",
    "cordon release",
    "apply-plan",
    "undo",
];

macro_rules! documents {
    ($($kind:literal $type:ty, $printed_by:expr;)*) => {
        &[$(Document {
            published: Published::of::<$type>($kind),
            printed_by: $printed_by,
        }),*]
    };
}

/// Every document: its kind, the type that it is made from, and the commands that print it.
pub const DOCUMENTS: &[Document] = documents! {
    "Diagnosis" diagnose::view::Document, &["diagnose stuck", "wait"];
    "FinalizerStatus" finalizer::document::Document, &["finalizer status"];
    "Journal" journal::Document<'static>, &["journal show"];
    "JournalList" journal::ListDocument, &["journal list"];
    "LeftoverList" leftovers::page::Document, &["leftovers"];
    "NodeList" node::list::Document<'static>, &["node list"];
    "NodeStatus" Vec<node::row::Row>, &["node status"];
    "Outcome" OutcomeDocument, WRITERS;
    "PackageStatus" Vec<package::row::Row>, &["package status"];
    "Plan" PlanDocument, WRITERS;
    "Rule" explain::Document, &["explain"];
    "Rules" Vec<explain::Document>, &["rules", "explain"];
    "Schemas" Vec<Item>, &["schema"];
    "SavedPlan" Saved, &[];
    "Status" status::page::Document, &["status"];
    "Teardown" teardown::page::Document, &["teardown"];
    "UninstallStatus" uninstall::table::Document<'static>, &["uninstall status"];
    "Version" version::Document, &["version"];
    "Waited" wait::waited::Document, &["wait"];
};

pub fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    let asked = |d: &&Document| {
        let kind = args.document.as_deref();
        kind.is_some_and(|kind| d.published.kind.eq_ignore_ascii_case(kind))
    };
    match DOCUMENTS.iter().find(asked) {
        Some(document) => {
            let schema = document.published.schema();
            match ctx.global().output.format {
                OutputFormat::Table | OutputFormat::Json => {
                    ctx.print(&crate::view::format::json(&schema))?;
                }
                OutputFormat::Yaml => {
                    let yaml = crate::view::format::yaml(&schema);
                    ctx.print(&yaml.expect("a schema is plain data"))?;
                }
                _ => {
                    let why = "a schema is printed as -o json or -o yaml";
                    return Err(Error::usage(why));
                }
            }
        }
        None => ctx.show(&Listed)?,
    }
    Ok(Exit::Done)
}

struct Listed;

/// A document, in the list of all.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Item {
    kind: &'static str,
    /// The commands that print it, by their words.
    printed_by: &'static [&'static str],
}

impl View for Listed {
    fn blocks(&self, _wide: bool) -> Text {
        let mut table = Table::new(["document", "printed by"]).prose();
        for document in DOCUMENTS {
            let by = match document.printed_by {
                [] => "--plan-out FILE".to_owned(),
                commands => commands.join(", "),
            };
            table.row(cells![text::name(document.published.kind), by]);
        }
        table.into()
    }

    fn names(&self) -> Vec<String> {
        let kinds = DOCUMENTS.iter().map(|d| d.published.kind);
        kinds.map(|kind| format!("document/{kind}")).collect()
    }

    fn document(&self) -> Value {
        let items = DOCUMENTS.iter().map(|d| Item {
            kind: d.published.kind,
            printed_by: d.printed_by,
        });
        let items: Vec<Item> = items.collect();
        serde_json::to_value(items).expect("a document is plain data")
    }
}
