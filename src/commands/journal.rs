//! `journal`: past changes, which can be undone.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::apply::StepResult;
use crate::apply::journal::{Record, Store, Undone};
use crate::args::listing::Sorting;
use crate::commands::shared::command::{command, group};
use crate::ctx::{Ctx, now};
use crate::error::{Error, Exit, Result};
use crate::view::text::{self, Label, Text};
use crate::view::{Columns, Items, Table, View, age, document, plural, result_words, time, to_json};

group! {
    /// Inspect past changes
    Command {
        List(List),
        Show(Show),
    }
}

/// List past changes, newest first
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook journal list
  kubectl skyhook journal list -o wide")]
pub struct List {
    #[command(flatten)]
    sorting: Sorting,
}

/// Show what a command changed
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook journal show
  kubectl skyhook journal show 20261120-174612 -o json")]
pub struct Show {
    /// Journal id, or the beginning of one; default: the newest journal
    #[arg(value_name = "ID", value_parser = crate::args::nodes::journal)]
    id: Option<String>,
}

command! {
    "journal list": List => list,
    prints: { "JournalList": Items<JournalEntry> },
}

command! {
    "journal show": Show => show,
    prints: { "Journal": Record },
}

async fn list(ctx: &mut Ctx, args: &List) -> Result<Exit> {
    let store = ctx.journals()?;
    let (mut records, complaints) = store.all()?;
    warn(ctx, &store, complaints);
    if records.is_empty() {
        ctx.note(format!(
            "No journal in {}: it records changes by this plugin only; `kubectl skyhook status NAME` names the last \
             writer of a spec.",
            store.directory.display()
        ));
    }
    let mut undone = Undone::default();
    records.iter().for_each(|record| undone.note(record));
    let item = |record: &Record| to_json(&JournalEntry::of(record, &undone));
    args.sorting.sort(&mut records, item)?;
    let now = now();
    ctx.show(&Journals { records, undone, now })?;
    Ok(Exit::Done)
}

async fn show(ctx: &mut Ctx, args: &Show) -> Result<Exit> {
    let store = ctx.journals()?;
    let record = match &args.id {
        Some(id) => {
            let record = store.read(id)?;
            warn(ctx, &store, store.complaint(&record).into_iter().collect());
            record
        }
        None => {
            let (records, complaints) = store.all()?;
            warn(ctx, &store, complaints);
            let newest = records.into_iter().next();
            let directory = store.directory.display();
            newest.ok_or_else(|| Error::failed(format!("no journal in {directory}")))?
        }
    };
    ctx.show(&JournalView(record))?;
    Ok(Exit::Done)
}

/// Warns about unreadable journals, and about a journal directory that others could write to.
fn warn(ctx: &mut Ctx, store: &Store, complaints: Vec<String>) {
    for complaint in store.trusted().err().map(|error| format!("{error:#}")).into_iter().chain(complaints) {
        ctx.warn(complaint);
    }
}

struct Journals {
    records: Vec<Record>,
    undone: Undone,
    now: jiff::Timestamp,
}

/// The numbers of applied steps and of all steps of a journal. The plan's own pause and resume count only if
/// they did not succeed.
fn steps(record: &Record) -> (usize, usize) {
    let applied = |result: &Option<&StepResult>| result.is_some_and(StepResult::changed);
    (record.counted().filter(applied).count(), record.counted().count())
}

impl View for Journals {
    fn blocks(&self, wide: bool) -> Text {
        let note = |record: &&Record| match &record.begun.id {
            _ if record.ended.is_none() => Some(Label::Warning.span("interrupted")),
            id if self.undone.without_change(id) => Some(Label::Dim.span("nothing left to revert")),
            id if self.undone.holds(id) => Some(Label::Dim.span("undone")),
            _ => None,
        };
        let columns = Columns::new()
            .with("id", |record: &&Record| text::name(&record.begun.id).into())
            .with("age", |record| age(Some(record.begun.at), self.now).into())
            .with("what", |record| record.begun.plan.title.as_str().into())
            .with("changed", |record| {
                let (done, all) = steps(record);
                format!("{done}/{all}").into()
            })
            .with("note", |record| note(record).into())
            .with_if(wide, "server", |record| record.begun.server.as_str().into());
        columns.table(&self.records).into()
    }

    fn names(&self) -> Vec<String> {
        self.records.iter().map(|r| format!("journal/{}", r.begun.id)).collect()
    }

    fn document(&self) -> Value {
        let items = self.records.iter().map(|record| JournalEntry::of(record, &self.undone));
        document("JournalList", &Items { items: items.collect::<Vec<_>>() })
    }
}

/// One journal, summarized.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct JournalEntry {
    /// The id of the journal.
    id: String,
    /// The time at which the command started.
    at: String,
    /// The purpose of the command's plan.
    title: String,
    /// The command line.
    command: Vec<String>,
    /// The address of the API server.
    server: String,
    /// Number of changes that were made.
    changed: usize,
    /// Number of planned changes. A pause that the command sets and ends itself counts only if setting or
    /// ending it failed.
    steps: usize,
    /// Whether the command was interrupted before it recorded its end.
    incomplete: bool,
    /// The journal that this command undid; absent if it is not an undo.
    #[serde(skip_serializing_if = "Option::is_none")]
    undoes: Option<String>,
    /// Whether the command has been undone, or an undo found nothing left to revert.
    undone: bool,
}

impl JournalEntry {
    fn of(record: &Record, undone: &Undone) -> JournalEntry {
        let (changed, steps) = steps(record);
        JournalEntry {
            id: record.begun.id.clone(),
            at: time(record.begun.at),
            title: record.begun.plan.title.clone(),
            command: record.begun.command.clone(),
            server: record.begun.server.clone(),
            changed,
            steps,
            incomplete: record.ended.is_none(),
            undoes: record.begun.undoes.clone(),
            undone: undone.holds(&record.begun.id),
        }
    }
}

struct JournalView(Record);

impl View for JournalView {
    fn blocks(&self, _wide: bool) -> Text {
        let begun = &self.0.begun;
        let mut text = Text::new();
        text.line(text::heading(&begun.plan.title) + format!("  {}", begun.at));
        text.line(text::dim(begun.command.join(" ")));
        if self.0.ended.is_none() {
            let note = "incomplete: some changes may not have been recorded; undo checks each object";
            text.paragraph(text::warning(note));
        }
        let mut table = Table::new(["object", "result", "change"]).wrap_last();
        for (step, result) in begun.plan.steps().zip(self.0.results.iter().flatten()) {
            let (_, result, reason) =
                result.as_ref().map_or((Label::Warning, "unknown", ""), |result| result_words(result));
            let change =
                if reason.is_empty() { step.change.describe().join("; ") } else { reason.to_owned() };
            table.row([text::name(&step.target).into(), result.into(), change.into()]);
        }
        text.blank().table(table);
        text.line(text::dim(format!(
            "{}; to undo: kubectl skyhook undo {}",
            plural(self.0.counted().count(), "change"),
            begun.id
        )));
        text
    }

    fn names(&self) -> Vec<String> {
        vec![format!("journal/{}", self.0.begun.id)]
    }

    fn document(&self) -> Value {
        document("Journal", &self.0)
    }
}
