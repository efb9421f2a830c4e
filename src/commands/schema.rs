//! `schema`: the JSON Schemas of the documents that `-o json` prints.

use clap::builder::PossibleValuesParser;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::commands::shared::command::command;
use crate::ctx::Ctx;
use crate::error::{Error, Exit, Result};
use crate::plan::SavedPlan;
use crate::view::schema::Published;
use crate::view::text::{self, Text};
use crate::view::{Items, List, OutputFormat, Table, View, cells, format};

/// Print the JSON Schema of a document
///
/// Covers the output of -o json and -o yaml, and the files of --plan-out. Without a DOCUMENT, all are listed.
/// New fields may be added; existing fields are kept. Needs no cluster.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook schema
  kubectl skyhook schema Diagnosis")]
pub struct Args {
    /// Document name; omit to list all documents
    #[arg(value_name = "DOCUMENT", ignore_case = true, hide_possible_values = true,
        value_parser = PossibleValuesParser::new(documents().iter().map(|d| d.published.kind)))]
    document: Option<String>,
}

/// A document that commands print.
#[derive(Debug)]
pub struct Document {
    pub published: Published,
    /// The commands that print the document.
    pub printed_by: Vec<&'static str>,
}

/// Every document by its kind, with the commands that print it.
pub fn documents() -> Vec<Document> {
    // The saved plan is a file, not the output of a command.
    let saved = Published::file::<SavedPlan>("SavedPlan");
    let mut documents = vec![Document { published: saved, printed_by: Vec::new() }];
    for command in super::all() {
        for published in command.documents() {
            match documents.iter_mut().find(|d| d.published.kind == published.kind) {
                Some(document) => document.printed_by.push(command.words),
                None => documents.push(Document { published, printed_by: vec![command.words] }),
            }
        }
    }
    documents.sort_by_key(|document| document.published.kind);
    documents
}

command! {
    "schema": Args => run,
    prints: { "Schemas": Items<SchemaEntry> },
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    let asked = |d: &&Document| {
        let kind = args.document.as_deref();
        kind.is_some_and(|kind| d.published.kind.eq_ignore_ascii_case(kind))
    };
    match documents().iter().find(asked) {
        Some(document) => {
            let schema = document.published.schema();
            match ctx.global().output.format {
                OutputFormat::Table | OutputFormat::Json => {
                    ctx.print(&format::json(&schema))?;
                }
                OutputFormat::Yaml => {
                    let yaml = format::yaml(&schema);
                    ctx.print(&yaml.expect("a schema is plain data"))?;
                }
                _ => {
                    let why = "schema supports only -o json and -o yaml";
                    return Err(Error::usage(why));
                }
            }
        }
        None => ctx.show(&Listed(documents()))?,
    }
    Ok(Exit::Done)
}

struct Listed(Vec<Document>);

/// A document that has a schema.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct SchemaEntry {
    /// The name of the document: the argument of `schema`.
    kind: &'static str,
    /// The commands that print the document.
    printed_by: Vec<&'static str>,
}

impl View for Listed {
    fn blocks(&self, _wide: bool) -> Text {
        let mut table = Table::new(["document", "printed by"]).wrap_last();
        for document in &self.0 {
            let by = match document.printed_by.as_slice() {
                [] => "--plan-out FILE".to_owned(),
                commands => commands.join(", "),
            };
            table.row(cells![text::name(document.published.kind), by]);
        }
        table.into()
    }

    fn names(&self) -> Vec<String> {
        self.0.iter().map(|d| d.published.kind).map(|kind| format!("document/{kind}")).collect()
    }

    fn document(&self) -> Value {
        let items =
            self.0.iter().map(|d| SchemaEntry { kind: d.published.kind, printed_by: d.printed_by.clone() });
        List::new("Schemas", items).document()
    }
}
