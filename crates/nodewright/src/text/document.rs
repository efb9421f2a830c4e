//! Documents for programs: `apiVersion` and `kind`, then the fields of the answer. Lists are under `items`.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::escape::json;

/// The `apiVersion` of the documents that this program prints.
pub const API_VERSION: &str = "kubectl-skyhook/v1";

/// The document of this kind with these fields.
pub fn document<T: Serialize + ?Sized>(kind: &str, fields: &T) -> Value {
    let mut document = head(kind);
    match to_json(fields) {
        Value::Object(own) => document.extend(own),
        other => unreachable!("a document has fields: {other}"),
    }
    Value::Object(document)
}

/// The fields that every document begins with: `apiVersion` and `kind`.
pub fn head(kind: &str) -> Map<String, Value> {
    Map::from_iter(
        [("apiVersion", API_VERSION), ("kind", kind)].map(|(key, value)| (key.to_owned(), value.into())),
    )
}

/// A document, or an item of one, as JSON.
pub fn to_json<T: Serialize + ?Sized>(document: &T) -> Value {
    serde_json::to_value(document).expect("a document is plain data")
}

/// A time in the format of documents: RFC 3339 in UTC, with seconds.
pub fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The items of a cluster's state.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ItemsAt<T> {
    /// The time at which ages are calculated.
    pub taken_at: String,
    /// The items.
    pub items: Vec<T>,
}

/// A list of items of one kind.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Items<T> {
    /// The items.
    pub items: Vec<T>,
}

/// A list document that may be long enough to be printed item by item.
pub struct List<'a> {
    /// The `kind` of the document; `None` for upstream's lists, which are arrays.
    pub kind: Option<&'static str>,
    /// The time at which ages are calculated, for the state of a cluster.
    pub taken_at: Option<Timestamp>,
    pub items: Box<dyn Iterator<Item = Box<dyn Row + 'a>> + 'a>,
}

/// An item of a list.
pub trait Row {
    /// The item as [`json`] writes it.
    fn json(&self) -> String;

    fn value(&self) -> Value;
}

impl<T: Serialize> Row for T {
    fn json(&self) -> String {
        json(self)
    }

    fn value(&self) -> Value {
        to_json(self)
    }
}

impl<'a> List<'a> {
    pub fn new<T: Row + 'a>(kind: &'static str, items: impl Iterator<Item = T> + 'a) -> List<'a> {
        let items = Box::new(items.map(|item| Box::new(item) as Box<dyn Row + 'a>));
        List { kind: Some(kind), taken_at: None, items }
    }

    pub fn at(self, taken_at: Timestamp) -> List<'a> {
        List { taken_at: Some(taken_at), ..self }
    }

    /// The fields before the items.
    fn head(&self, kind: &str) -> Map<String, Value> {
        let taken_at = self.taken_at.map(|at| ("takenAt".to_owned(), time(at).into()));
        head(kind).into_iter().chain(taken_at).collect()
    }

    /// The whole document.
    pub fn document(self) -> Value {
        let head = self.kind.map(|kind| self.head(kind));
        let items = Value::Array(self.items.map(|item| item.value()).collect());
        match head {
            Some(head) => head.into_iter().chain([("items".to_owned(), items)]).collect(),
            None => items,
        }
    }

    /// The document as [`json`] writes it, piece by piece, so that it need not be buffered.
    pub fn pieces(self) -> impl Iterator<Item = String> {
        let (begin, indent, end) = match self.kind {
            Some(kind) => {
                let head = json(&self.head(kind));
                (format!("{},\n    \"items\": [", head.trim_end_matches("\n}\n")), "        ", "    ]\n}\n")
            }
            None => ("[".to_owned(), "    ", "]\n"),
        };
        let mut items = self.items.peekable();
        let mut begun = false;
        std::iter::from_fn(move || {
            let first = !std::mem::replace(&mut begun, true);
            let item = items.next().map(|item| item.json().trim_end().replace('\n', &format!("\n{indent}")));
            let rest = if items.peek().is_some() { ",\n".to_owned() } else { format!("\n{end}") };
            match (first, item) {
                (true, Some(item)) => Some(format!("{begin}\n{indent}{item}{rest}")),
                (true, None) => Some(format!("{begin}{}", end.trim_start())),
                (false, item) => item.map(|item| format!("{indent}{item}{rest}")),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn documents_begin_with_their_kind() {
        assert_eq!(
            json(&document("Node", &json!({"node": "gpu-1"}))),
            "{\n    \"apiVersion\": \"kubectl-skyhook/v1\",\n    \"kind\": \"Node\",\n    \"node\": \"gpu-1\"\n}\n"
        );
    }

    #[test]
    fn pieces_make_up_the_whole() {
        for items in [json!([]), json!([1]), json!([{"a": [], "b": "x\ny"}, {}, [1, {"c": null}]])] {
            let items = items.as_array().expect("a list");
            let list = |kind, taken_at| List { kind, taken_at, ..List::new("", items.iter()) };
            for (kind, taken_at) in
                [(None, None), (Some("Numbers"), None), (Some("Numbers"), Some(Timestamp::UNIX_EPOCH))]
            {
                let whole = json(&list(kind, taken_at).document());
                assert_eq!(list(kind, taken_at).pieces().collect::<String>(), whole);
            }
        }
    }

    #[test]
    fn times_have_whole_seconds() {
        let at = "2026-11-20T11:00:00.123456+01:00".parse().expect("a time");
        assert_eq!(time(at), "2026-11-20T10:00:00Z");
    }
}
