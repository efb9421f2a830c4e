//! The output of several contexts in one: tables with a CONTEXT column, documents with `context` in each
//! item.

use quick_junit::Report;
use serde_json::{Map, Value, json};

use super::monitoring::{self, Metrics};
use super::text::{Block, Content, Text, heading};
use super::{API_VERSION, OutputFormat, Table, View};

/// The views that a command has shown for one context, in the requested format.
#[derive(Debug, Default)]
pub struct Captured {
    pub context: String,
    text: Text,
    names: Vec<String>,
    documents: Vec<Value>,
    junit: Option<Report>,
    metrics: Option<Metrics>,
}

/// The result of a command for one context.
#[derive(Debug)]
pub struct ContextAnswer {
    pub exit_code: u8,
    /// Why the output is missing or incomplete.
    pub error: Option<String>,
    pub captured: Captured,
}

/// The results of all contexts, in the order in which they were named.
pub struct Contexts(pub Vec<ContextAnswer>);

impl Captured {
    pub fn of(context: &str) -> Captured {
        Captured { context: context.to_owned(), ..Captured::default() }
    }

    pub fn add(&mut self, view: &dyn View, format: &OutputFormat) {
        match format {
            OutputFormat::Table => drop(self.text.append(view.blocks(false))),
            OutputFormat::Wide => drop(self.text.append(view.blocks(true))),
            OutputFormat::Name => self.names.extend(view.names()),
            OutputFormat::Junit => self.junit = view.junit(),
            OutputFormat::OpenMetrics(_) => self.metrics = view.openmetrics(),
            _ => self.documents.push(view.document()),
        }
    }
}

impl View for Contexts {
    /// Joins tables with the same columns. Other lines follow, below the name of their context.
    fn blocks(&self, _wide: bool) -> Text {
        let mut tables: Vec<Table> = Vec::new();
        let mut others = Text::new();
        for ContextAnswer { captured, .. } in &self.0 {
            let context = &captured.context;
            let mut own = Text::new();
            for Block { indent, content } in &captured.text.blocks {
                match content {
                    Content::Table(table) => add(&mut tables, table.in_context(context)),
                    content => own.blocks.push(Block { indent: *indent, content: content.clone() }),
                }
            }
            if !own.is_empty() {
                others.blank().line(heading(context)).indented(2, own);
            }
        }
        let mut text = Text::new();
        for table in tables {
            text.blank().table(table);
        }
        text.append(others);
        text
    }

    /// The names as `CONTEXT resource/name`.
    fn names(&self) -> Vec<String> {
        let names = |answer: &ContextAnswer| {
            let names = answer.captured.names.iter();
            names.map(|name| format!("{} {name}", answer.captured.context)).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(names).collect()
    }

    /// `None` if the command supports no report: a context without an error has none.
    fn junit(&self) -> Option<Report> {
        let without = |answer: &ContextAnswer| answer.captured.junit.is_none() && answer.error.is_none();
        if self.0.iter().any(without) {
            return None;
        }
        let answers = self.0.iter().map(|answer| {
            let report = answer.captured.junit.as_ref();
            (answer.captured.context.as_str(), report, answer.error.as_deref())
        });
        Some(monitoring::of_contexts(answers))
    }

    /// Contexts without a result have no samples. `None` as for [`Contexts::junit`].
    fn openmetrics(&self) -> Option<Metrics> {
        let without = |answer: &ContextAnswer| answer.captured.metrics.is_none() && answer.error.is_none();
        if self.0.iter().any(without) {
            return None;
        }
        let mut all = Metrics::default();
        for answer in &self.0 {
            if let Some(metrics) = &answer.captured.metrics {
                all.add_context(&answer.captured.context, metrics);
            }
        }
        Some(all)
    }

    /// The items of all lists. A document that is no list is one item. The other fields of lists are under
    /// `contexts`.
    fn document(&self) -> Value {
        let mut items = Vec::new();
        let mut contexts = Vec::new();
        for answer in &self.0 {
            let mut summary = Map::new();
            summary.insert("context".to_owned(), answer.captured.context.as_str().into());
            summary.insert("exitCode".to_owned(), answer.exit_code.into());
            if let Some(error) = &answer.error {
                summary.insert("error".to_owned(), error.as_str().into());
            }
            for document in &answer.captured.documents {
                let own = match document.clone() {
                    Value::Array(list) => list,
                    Value::Object(mut fields) => match fields.shift_remove("items") {
                        Some(Value::Array(list)) => {
                            summary.insert("document".to_owned(), fields.into());
                            list
                        }
                        _ => vec![document.clone()],
                    },
                    other => vec![other],
                };
                items.extend(own.into_iter().map(|item| with(&answer.captured.context, item)));
            }
            contexts.push(Value::Object(summary));
        }
        json!({"apiVersion": API_VERSION, "kind": "Contexts", "contexts": contexts, "items": items})
    }
}

/// The item with its context as the first field.
fn with(context: &str, item: Value) -> Value {
    let mut fields = Map::new();
    fields.insert("context".to_owned(), context.into());
    match item {
        Value::Object(own) => fields.extend(own),
        value => drop(fields.insert("value".to_owned(), value)),
    }
    Value::Object(fields)
}

/// Appends to the table with the same columns, or adds the table.
fn add(tables: &mut Vec<Table>, table: Table) {
    match tables.iter_mut().find(|known| known.has_columns_of(&table)) {
        Some(known) => known.join(table),
        None => tables.push(table),
    }
}
