//! The documents of upstream's CLI, for `--compat`.

use quick_junit::Report;
use serde_json::{Map, Value, json};

use super::openmetrics::Metrics;
use super::text::Text;
use super::{List, View};

/// The kinds of the documents that upstream's CLI prints as well.
const KINDS: [&str; 3] = ["NodeList", "NodeStatus", "PackageStatus"];
/// The fields of the items of a kind that have other names.
const NAMES: [(&str, &str, &str); 4] = [
    ("Node", "name", "nodeName"),
    ("Node", "state", "status"),
    ("", "node", "nodeName"),
    ("", "skyhook", "skyhookName"),
];

/// A view whose documents have upstream's shape, if upstream's CLI has them.
pub struct Upstream<'a>(pub &'a dyn View);

impl View for Upstream<'_> {
    fn blocks(&self, wide: bool) -> Text {
        self.0.blocks(wide)
    }

    fn names(&self) -> Vec<String> {
        self.0.names()
    }

    fn document(&self) -> Value {
        document(self.0.document())
    }

    fn junit(&self) -> Option<Report> {
        self.0.junit()
    }

    fn sarif(&self) -> Option<Value> {
        self.0.sarif()
    }

    fn openmetrics(&self) -> Option<Metrics> {
        self.0.openmetrics()
    }

    fn list(&self) -> Option<List<'_>> {
        let list = self.0.list()?;
        let kind = list.kind.filter(|kind| KINDS.contains(kind));
        Some(match kind {
            Some(kind) => {
                let rows = list.items.map(move |row| self::row(kind, row.value()));
                List { kind: None, ..List::new(kind, rows) }
            }
            None => list,
        })
    }
}

/// Converts a document: a list becomes an array, and a list of one custom resource an object with `nodes`.
fn document(mut document: Value) -> Value {
    let Some(kind) = KINDS.into_iter().find(|kind| document["kind"] == **kind) else {
        return document;
    };
    let items = document["items"].as_array_mut().map(std::mem::take);
    let rows: Value = items.into_iter().flatten().map(|item| row(kind, item)).collect();
    match &document["skyhook"] {
        Value::Null => rows,
        skyhook => json!({"skyhookName": skyhook, "nodes": rows}),
    }
}

/// A row with upstream's names. `package status` omits `restarts` if zero, and always has `stage`.
fn row(kind: &str, row: Value) -> Value {
    let omitted = |key: &str, value: &Value| kind == "PackageStatus" && key == "restarts" && *value == 0;
    match row {
        Value::Object(mut fields) => {
            if let Some(at) = fields.keys().position(|key| kind == "PackageStatus" && key == "restarts")
                && !fields.contains_key("stage")
            {
                fields.shift_insert(at, "stage".to_owned(), "".into());
            }
            let fields = fields.into_iter().filter(|(key, value)| !omitted(key, value));
            let fields = fields.map(|(key, value)| {
                let name = NAMES.into_iter().find(|(of, ours, _)| kind.starts_with(of) && *ours == key);
                let value = if key == "packages" { self::row("", value) } else { value };
                (name.map_or(key, |(.., theirs)| theirs.to_owned()), value)
            });
            Value::Object(fields.collect::<Map<_, _>>())
        }
        Value::Array(rows) => rows.into_iter().map(|one| self::row(kind, one)).collect(),
        other => other,
    }
}
