//! Decodes pages of a list leniently into our own types, item by item while they are received.

use std::fmt;
use std::io::{BufRead, Read};

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::protobuf::{self, METADATA_LIST};
use crate::api::Object;
use crate::cluster::json_pieces::{self, Items, Pieces, Stop, TextPosition};
use crate::cluster::{Read as Outcome, lenient};
use crate::error::first_line;

/// A list, or one page of it.
#[derive(Debug)]
pub(super) struct Listed<T> {
    pub items: Vec<T>,
    /// Errors of items without a readable identity, which are missing from `items`.
    pub unidentified: Vec<String>,
    /// Token of the next page; `None` on the last page.
    pub next: Option<String>,
    /// resourceVersion of the list.
    pub version: String,
}

impl<T> Default for Listed<T> {
    fn default() -> Listed<T> {
        Listed { items: Vec::new(), unidentified: Vec::new(), next: None, version: String::new() }
    }
}

impl<T> Listed<T> {
    /// Appends another page, or another list.
    pub fn append(&mut self, page: Listed<T>) {
        self.items.extend(page.items);
        self.unidentified.extend(page.unidentified);
        (self.next, self.version) = (page.next, page.version);
    }

    fn take(&mut self, kind: &str, item: Result<T, String>) {
        match item {
            Ok(item) => self.items.push(item),
            Err(why) => self.unidentified.push(format!("a {kind}: {}", first_line(&why))),
        }
    }
}

impl<T> From<Listed<T>> for Outcome<Vec<T>> {
    fn from(list: Listed<T>) -> Outcome<Vec<T>> {
        match list.unidentified.as_slice() {
            [] => Outcome::Ok(list.items),
            [first, rest @ ..] => {
                let why = match rest.len() {
                    0 => format!("1 item cannot be identified: {first}"),
                    more => format!("{} items cannot be identified: {first} (and {more} more)", more + 1),
                };
                Outcome::Incomplete(list.items, why.into())
            }
        }
    }
}

/// The expected kind of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ListKind {
    pub api_version: String,
    /// Kind of the items.
    pub kind: &'static str,
    /// Whether a list of only the metadata of objects is accepted as well.
    pub metadata: bool,
}

impl ListKind {
    /// Rejects a list of another kind: such a list would falsely prove the absence of objects.
    fn check(&self, kind: &str, api_version: &str) -> Result<(), String> {
        let of_metadata = kind == METADATA_LIST && api_version == "meta.k8s.io/v1";
        let of_kind = kind.strip_suffix("List") == Some(self.kind) && api_version == self.api_version;
        if of_kind || self.metadata && of_metadata {
            return Ok(());
        }
        let found = match (kind, api_version) {
            ("", _) => "no kind".to_owned(),
            (kind, "") => format!("{kind} without apiVersion"),
            (kind, version) => format!("{version} {kind}"),
        };
        Err(format!("expected {} {}List, got {}", self.api_version, self.kind, first_line(&found)))
    }
}

#[derive(Deserialize)]
struct Body<T> {
    #[serde(rename = "apiVersion")]
    api_version: Option<String>,
    kind: Option<String>,
    metadata: Option<ListMeta>,
    items: Option<Vec<T>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ListMeta {
    #[serde(rename = "continue")]
    next: Option<String>,
    #[serde(rename = "resourceVersion")]
    version: Option<String>,
}

impl ListMeta {
    fn page<T>(self, page: Listed<T>) -> Listed<T> {
        Listed {
            next: self.next.filter(|token| !token.is_empty()),
            version: self.version.unwrap_or_default(),
            ..page
        }
    }
}

/// Decodes a page. `on_next` receives the token of the next page before the items are decoded, because
/// servers write the token first.
pub(super) fn page<T: Object + DeserializeOwned>(
    mut stream: impl BufRead,
    of: &ListKind,
    on_next: impl FnOnce(&str),
) -> Result<Listed<T>, String> {
    let mut on_next = Some(on_next);
    let mut on_meta = |meta: &ListMeta| {
        let next = meta.next.as_deref().filter(|token| !token.is_empty());
        if let Some((next, on_next)) = next.zip(on_next.take()) {
            on_next(next);
        }
    };
    let mut begin = Vec::new();
    let magic = protobuf::MAGIC.len() as u64;
    stream.by_ref().take(magic).read_to_end(&mut begin).map_err(not_a_list)?;
    let mut listed = Listed::default();
    if begin == protobuf::MAGIC {
        let mut meta = ListMeta::default();
        let begins = |begins: ListMeta| {
            on_meta(&begins);
            meta = begins;
        };
        let item = |item| listed.take(of.kind, item);
        let head = protobuf::list(stream, begins, item).map_err(not_a_list)?;
        of.check(&head.kind, &head.api_version)?;
        return Ok(meta.page(listed));
    }
    let mut items = JsonItems { kind: of.kind, on_meta, listed, begun: false };
    let mut pieces = Pieces::new(begin.chain(stream));
    let mut rest = Vec::new();
    if pieces.skip(b"").map_err(not_a_list)? == Some(b'{') {
        rest = pieces.object(&mut items).map_err(|stop| match stop {
            Stop::Unreadable(error) => not_a_list(error),
            Stop::Syntax(why) => not_a_list(why),
            Stop::Item(why) => why,
        })?;
        pieces.skip(b"").map_err(not_a_list)?;
    }
    rest.extend_from_slice(pieces.rest());
    let rest: Body<IgnoredAny> = serde_json::from_slice(&rest).map_err(not_a_list)?;
    Ok(rest.into_meta(of, items.begun)?.page(items.listed))
}

fn not_a_list(why: impl fmt::Display) -> String {
    format!("the response is not a list: {why}")
}

/// The items of a page in JSON.
struct JsonItems<'a, T, F> {
    kind: &'a str,
    on_meta: F,
    listed: Listed<T>,
    /// Whether the page has `items`, which may be empty.
    begun: bool,
}

impl<T: Object + DeserializeOwned, F: FnMut(&ListMeta)> Items for JsonItems<'_, T, F> {
    type Error = String;

    fn begin(&mut self, before: &[u8]) -> bool {
        self.begun = true;
        if let Some(meta) = metadata(before) {
            (self.on_meta)(&meta);
        }
        true
    }

    fn take(&mut self, text: &[u8], place: TextPosition) -> Result<(), String> {
        let item =
            lenient::decode_text(text).map_err(|_| not_a_list(json_pieces::syntax(b"", text, place)))?;
        self.listed.take(self.kind, item);
        Ok(())
    }
}

/// Decodes the metadata of an object or a list, and skips the rest of the text, which may be incomplete.
pub(super) fn metadata<'de, M: Deserialize<'de>>(text: &'de [u8]) -> Option<M> {
    let mut found = None;
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    // Ignore the error by which the visitor stops.
    let _ = deserializer.deserialize_map(UpToMetadata(&mut found));
    found
}

/// Decodes the metadata, then stops with an error.
struct UpToMetadata<'a, M>(&'a mut Option<M>);

impl<'de, M: Deserialize<'de>> Visitor<'de> for UpToMetadata<'_, M> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if key == "metadata" {
                *self.0 = Some(map.next_value()?);
                return Err(A::Error::custom("read"));
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

impl<T> Body<T> {
    fn into_meta(self, of: &ListKind, has_items: bool) -> Result<ListMeta, String> {
        let [kind, api_version] = [self.kind, self.api_version].map(Option::unwrap_or_default);
        of.check(&kind, &api_version)?;
        if !has_items {
            return Err(format!("the response is a {kind} without items"));
        }
        Ok(self.metadata.unwrap_or_default())
    }
}

/// Decodes a page item by item. `on_event` receives the kind of the list, then each item with its text.
pub(super) fn each<T: Object + DeserializeOwned>(
    body: &[u8],
    of: &ListKind,
    mut on_event: impl FnMut(ListEvent<'_, T>),
) -> Result<Listed<T>, String> {
    let mut raw: Body<&RawValue> = serde_json::from_slice(body).map_err(not_a_list)?;
    let texts = raw.items.take();
    let meta = raw.into_meta(of, texts.is_some())?;
    on_event(ListEvent::List { api_version: &of.api_version, kind: &format!("{}List", of.kind) });
    let mut listed = Listed::default();
    for text in texts.unwrap_or_default() {
        let item = lenient::decode_text(text.get().as_bytes()).map_err(not_a_list)?;
        if let Ok(item) = &item {
            on_event(ListEvent::Item(item, text));
        }
        listed.take(of.kind, item);
    }
    Ok(meta.page(listed))
}

/// Events of [`each`].
pub(super) enum ListEvent<'a, T> {
    List { api_version: &'a str, kind: &'a str },
    Item(&'a T, &'a RawValue),
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::cluster::Node;

    fn nodes() -> ListKind {
        ListKind { api_version: "v1".to_owned(), kind: "Node", metadata: false }
    }

    fn names(body: &str) -> Result<Vec<String>, String> {
        let page: Listed<Node> = page(body.as_bytes(), &nodes(), |_| {})?;
        Ok(page.items.iter().map(|n| n.name.to_string()).collect())
    }

    #[test]
    fn the_token_of_the_next_page_is_known_before_the_items_are_decoded() {
        let early_token = |body: &str| {
            let mut token = None;
            let _ = page::<Node>(body.as_bytes(), &nodes(), |next| token = Some(next.to_owned()));
            token
        };
        let cut = r#"{"kind": "NodeList", "metadata": {"continue": "abc"}, "items": [{"metad"#;
        assert_eq!(early_token(cut), Some("abc".into()));
        let last = r#"{"kind": "NodeList", "metadata": {"continue": ""}, "items": []}"#;
        assert_eq!(early_token(last), None);
        let late =
            r#"{"apiVersion": "v1", "kind": "NodeList", "items": [], "metadata": {"continue": "abc"}}"#;
        assert_eq!(early_token(late), None);
        let page: Listed<Node> = page(late.as_bytes(), &nodes(), |_| {}).expect("a list");
        assert_eq!(page.next, Some("abc".into()));
    }

    #[test]
    fn nulls_within_items_are_as_good_as_absent() {
        let body = r#"{"kind": "NodeList", "apiVersion": "v1", "metadata": null, "items": [
            {"metadata": {"name": "a", "labels": null}, "spec": null},
            {"metadata": {"name": "b"}}
        ]}"#;
        assert_eq!(names(body), Ok(vec!["a".into(), "b".into()]));
    }

    #[test]
    fn only_a_list_of_the_kind_with_items_is_a_list() {
        let list = |rest: &str| format!(r#"{{"kind": "NodeList", "apiVersion": "v1"{rest}}}"#);
        assert_eq!(names(&list(r#", "items": []"#)), Ok(vec![]));
        for rest in ["", r#", "items": null"#, r#", "items": {}"#] {
            let why = names(&list(rest)).expect_err("no items");
            assert!(why.contains("items") || why.contains("expected a sequence"), "{why}");
        }
        for (body, found) in [
            ("{}", "no kind"),
            (r#"{"items": []}"#, "no kind"),
            (r#"{"kind": "Status", "apiVersion": "v1"}"#, "v1 Status"),
            (r#"{"kind": "NodeList", "items": []}"#, "NodeList without apiVersion"),
            (r#"{"kind": "Node", "apiVersion": "v1", "items": []}"#, "v1 Node"),
            (r#"{"kind": "PodList", "apiVersion": "v1", "items": []}"#, "v1 PodList"),
            (r#"{"kind": "NodeList", "apiVersion": "v2", "items": []}"#, "v2 NodeList"),
        ] {
            let why = format!("expected v1 NodeList, got {found}");
            assert_eq!(names(body), Err(why), "{body}");
        }
        let why = "the response is not a list: expected value at line 1 column 1";
        assert_eq!(names("<html>"), Err(why.into()));
        let why = names("null").expect_err("null is no list");
        assert!(why.starts_with("the response is not a list"), "{why}");
    }

    #[test]
    fn items_that_cannot_be_identified_leave_the_others() {
        let body = r#"{"kind": "NodeList", "apiVersion": "v1", "items": [
            {"metadata": {"name": 7}}, {"metadata": {"name": "a", "labels": 7}}, {}, "b"
        ]}"#;
        let page: Listed<Node> = page(body.as_bytes(), &nodes(), |_| {}).expect("a list");
        let Outcome::Incomplete(items, why) = Outcome::from(page) else {
            panic!("the result must be incomplete");
        };
        let names: Vec<&str> = items.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["a"]);
        let wanted = "3 items cannot be identified: a Node: metadata.name cannot be read (7) (and 2 more)";
        assert_eq!(why.message, wanted);
    }
}
