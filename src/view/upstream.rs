//! The documents of upstream's CLI, for `--compat`.

use std::cmp::Ordering;
use std::str::FromStr;

use quick_junit::Report;
use serde_json::{Map, Value, json};

use super::format::fields;
use super::jsonpath::Path;
use super::monitoring::Metrics;
use super::text::Text;
use super::{FormatError, List, View, natural};
use crate::view::distinct;

/// The kinds of the documents that upstream's CLI prints as well.
const KINDS: [&str; 3] = ["NodeList", "NodeStatus", "PackageStatus"];
/// The fields of the items of a kind that have other names.
const NAMES: [(&str, &str, &str); 3] =
    [("PackageStatus", "package", "name"), ("", "node", "nodeName"), ("", "skyhook", "skyhookName")];

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
                let rows = list.items.map(move |item| row(kind, item.value()));
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
fn row(kind: &str, item: Value) -> Value {
    let omitted = |key: &str, value: &Value| kind == "PackageStatus" && key == "restarts" && *value == 0;
    match item {
        Value::Object(mut fields) => {
            if let Some(at) = fields.keys().position(|key| kind == "PackageStatus" && key == "restarts")
                && !fields.contains_key("stage")
            {
                fields.shift_insert(at, "stage".to_owned(), "".into());
            }
            let fields =
                fields.into_iter().filter(|(key, value)| !omitted(key, value)).map(|(key, value)| {
                    let name = NAMES.into_iter().find(|(of, ours, _)| kind.starts_with(of) && *ours == key);
                    let value = if key == "packages" { row("", value) } else { value };
                    (name.map_or(key, |(.., theirs)| theirs.to_owned()), value)
                });
            Value::Object(fields.collect::<Map<_, _>>())
        }
        Value::Array(rows) => rows.into_iter().map(|one| row(kind, one)).collect(),
        other => other,
    }
}

/// A path by whose value the items of a list are sorted.
#[derive(Debug, Clone, PartialEq)]
pub struct SortBy {
    spelled: String,
    path: Path,
}

/// The names of items, for `.metadata.name`, which is the name of an object of kubectl.
const ITEM_NAMES: [&str; 3] = ["name", "node", "package"];

impl FromStr for SortBy {
    type Err = FormatError;

    fn from_str(text: &str) -> Result<SortBy, FormatError> {
        let path = Path::parse(text).map_err(|error| FormatError(error.to_string()))?;
        Ok(SortBy { spelled: text.to_owned(), path })
    }
}

impl SortBy {
    /// Sorts items by the first value at the path; `document` returns an item in the form of `-o json`.
    ///
    /// As in kubectl, numbers within texts are compared by value, and items without the value come first. The sort is
    /// stable.
    ///
    /// # Errors
    ///
    /// No item has a value at the path, or the values cannot be compared.
    pub fn sort<T>(&self, items: &mut Vec<T>, document: impl Fn(&T) -> Value) -> Result<(), FormatError> {
        let mut keyed = Vec::with_capacity(items.len());
        let mut first = Value::Null;
        for item in items.drain(..) {
            let document = document(&item);
            let of_name = self.spelled.trim_matches(['{', '.', '}']) == "metadata.name";
            let found = if of_name {
                ITEM_NAMES.iter().find_map(|name| document.get(*name))
            } else {
                self.path.find(&document)?.into_iter().next()
            };
            keyed.push((found.filter(|v| !v.is_null()).cloned(), item));
            if first.is_null() {
                first = document;
            }
        }
        let result = self.comparable(keyed.iter().map(|(key, _)| key.as_ref()), &first);
        if result.is_ok() {
            keyed.sort_by(|(a, _), (b, _)| order(a.as_ref(), b.as_ref()));
        }
        items.extend(keyed.into_iter().map(|(_, item)| item));
        result
    }

    fn comparable<'a>(
        &self,
        keys: impl ExactSizeIterator<Item = Option<&'a Value>>,
        first: &Value,
    ) -> Result<(), FormatError> {
        let none = keys.len() == 0;
        let kinds = distinct(keys.flatten().map(kind));
        let spelled = &self.spelled;
        match kinds.as_slice() {
            [] if none => Ok(()),
            [] => Err(FormatError(format!(
                "--sort-by {spelled} matches nothing in any item; {}",
                fields(first)
            ))),
            [one @ ("lists" | "objects")] => {
                Err(FormatError(format!("--sort-by {spelled} matches {one}, which cannot be sorted")))
            }
            [_] => Ok(()),
            several => Err(FormatError(format!(
                "--sort-by {spelled} matches {}, which cannot be compared",
                several.join(" and ")
            ))),
        }
    }
}

fn order(a: Option<&Value>, b: Option<&Value>) -> Ordering {
    match (a, b) {
        (Some(Value::String(a)), Some(Value::String(b))) => natural(a, b),
        (Some(Value::Number(a)), Some(Value::Number(b))) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => a.cmp(&b),
            _ => a.as_f64().unwrap_or_default().total_cmp(&b.as_f64().unwrap_or_default()),
        },
        (Some(Value::Bool(a)), Some(Value::Bool(b))) => a.cmp(b),
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "strings",
        Value::Number(_) => "numbers",
        Value::Bool(_) | Value::Null => "booleans",
        Value::Array(_) => "lists",
        Value::Object(_) => "objects",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sorted(by: &str, items: Value) -> Result<Vec<Value>, String> {
        let by: SortBy = by.parse().expect("a path");
        let mut items = items.as_array().expect("a list").clone();
        by.sort(&mut items, Clone::clone).map(|()| items).map_err(|error| error.to_string())
    }

    #[test]
    fn numbers_count_by_their_value_and_what_is_missing_comes_first() {
        let names = json!([{"n": "gpu-10"}, {"n": "gpu-9"}, {"x": 1}, {"n": null}, {"n": "a"}]);
        for path in [".n", "n", "{.n}", "{n}"] {
            assert_eq!(
                sorted(path, names.clone()),
                Ok(vec![
                    json!({"x": 1}),
                    json!({"n": null}),
                    json!({"n": "a"}),
                    json!({"n": "gpu-9"}),
                    json!({"n": "gpu-10"})
                ]),
                "{path}"
            );
        }
        assert_eq!(
            sorted(".n", json!([{"n": 10}, {"n": 9.5}, {"n": -1}])),
            Ok(vec![json!({"n": -1}), json!({"n": 9.5}), json!({"n": 10})])
        );
        assert_eq!(
            sorted(".list[0]", json!([{"list": ["b"]}, {"list": ["a"]}])),
            Ok(vec![json!({"list": ["a"]}), json!({"list": ["b"]})])
        );
        assert_eq!(sorted(".n", json!([])), Ok(vec![]));
    }

    #[test]
    fn what_cannot_be_ordered_is_said() {
        let error = |items| sorted(".n", items).expect_err("no order");
        assert_eq!(error(json!([{"m": 1}])), "--sort-by .n matches nothing in any item; the fields are m");
        assert_eq!(error(json!([{"n": []}])), "--sort-by .n matches lists, which cannot be sorted");
        assert_eq!(
            error(json!([{"n": "a"}, {"n": 1}])),
            "--sort-by .n matches numbers and strings, which cannot be compared"
        );
    }
}
