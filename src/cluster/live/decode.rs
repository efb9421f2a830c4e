//! Pages of a list, decoded leniently into our own types, item by item as they come.

use std::fmt;
use std::io::{BufRead, Read};

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::protobuf;
use crate::cluster::json_pieces::{self, Items, Pieces, Stop, TextPosition};
use crate::cluster::nulls;
use crate::reason::first_line;

/// One page of a list.
pub(super) struct ListPage<T> {
    pub items: Vec<T>,
    /// Where the next page begins; `None` on the last.
    pub next: Option<String>,
    /// The version of the list as a whole.
    pub version: String,
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
    fn page<T>(self, items: Vec<T>) -> ListPage<T> {
        ListPage {
            items,
            next: self.next.filter(|token| !token.is_empty()),
            version: self.version.unwrap_or_default(),
        }
    }
}

/// Decodes a page; says what is wrong with it if that cannot be done. `on_next` is called with the token of the next
/// page before the items are decoded, as servers write it before them.
///
/// An item of JSON decodes as it is, as a rule. One that does not is tried without its nulls, which old clients leave
/// behind where a list or a map should be. `singular` names the kind of item in messages.
pub(super) fn page<T: DeserializeOwned>(
    mut stream: impl BufRead,
    singular: &str,
    on_next: impl FnOnce(&str),
) -> Result<ListPage<T>, String> {
    let mut on_next = Some(on_next);
    let mut on_meta = |meta: &ListMeta| {
        let next = meta.next.as_deref().filter(|token| !token.is_empty());
        if let Some((next, on_next)) = next.zip(on_next.take()) {
            on_next(next);
        }
    };
    let mut begin = Vec::new();
    let magic = protobuf::MAGIC.len() as u64;
    let read = stream.by_ref().take(magic).read_to_end(&mut begin);
    read.map_err(not_a_list)?;
    if begin == protobuf::MAGIC {
        let mut meta = ListMeta::default();
        let items = protobuf::list(stream, |begins: ListMeta| {
            on_meta(&begins);
            meta = begins;
        });
        return Ok(meta.page(items.map_err(not_a_list)?));
    }
    let mut items = JsonItems {
        singular,
        on_meta,
        items: Vec::new(),
    };
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
    Ok(rest.into_meta()?.page(items.items))
}

fn not_a_list(why: impl fmt::Display) -> String {
    format!("the response is not a list: {why}")
}

/// The items of a page in JSON.
struct JsonItems<'a, T, F> {
    singular: &'a str,
    on_meta: F,
    items: Vec<T>,
}

impl<T: DeserializeOwned, F: FnMut(&ListMeta)> Items for JsonItems<'_, T, F> {
    type Error = String;

    fn begin(&mut self, before: &[u8]) -> bool {
        let mut found = None;
        let mut reader = serde_json::Deserializer::from_slice(before);
        // The text ends where the items begin.
        let _ = reader.deserialize_map(Beginning(&mut found));
        if let Some(meta) = found {
            (self.on_meta)(&meta);
        }
        true
    }

    fn take(&mut self, text: &[u8], place: TextPosition) -> Result<(), String> {
        let item = match serde_json::from_slice(text) {
            Ok(item) => item,
            Err(_) => {
                let value = serde_json::from_slice(text);
                let value = value.map_err(|_| not_a_list(json_pieces::syntax(b"", text, place)));
                without_nulls(value?, self.singular)?
            }
        };
        self.items.push(item);
        Ok(())
    }
}

/// The metadata of a list, from the beginning of its text.
struct Beginning<'a>(&'a mut Option<ListMeta>);

impl<'de> Visitor<'de> for Beginning<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "metadata" => {
                    let meta: Option<ListMeta> = map.next_value()?;
                    *self.0 = Some(meta.unwrap_or_default());
                }
                "items" => return Err(A::Error::custom("the beginning ends here")),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

impl<T> Body<T> {
    fn into_meta(self) -> Result<ListMeta, String> {
        // Servers write null for no items, and that it is a list at all says the kind.
        if !self.kind.is_some_and(|kind| kind.ends_with("List")) {
            return Err("the response is not a list".to_owned());
        }
        Ok(self.metadata.unwrap_or_default())
    }
}

/// Decodes a page item by item. `on_event` gets what it is a list of, then each item with its text.
pub(super) fn each<T: DeserializeOwned>(
    body: &[u8],
    singular: &str,
    mut on_event: impl FnMut(ListEvent<'_, T>),
) -> Result<ListPage<T>, String> {
    let mut raw: Body<&RawValue> = serde_json::from_slice(body).map_err(not_a_list)?;
    let (api_version, kind) = (raw.api_version.clone(), raw.kind.clone());
    let texts = raw.items.take().unwrap_or_default();
    let meta = raw.into_meta()?;
    on_event(ListEvent::List {
        api_version: api_version.as_deref().unwrap_or_default(),
        kind: kind.as_deref().unwrap_or_default(),
    });
    let mut items = Vec::with_capacity(texts.len());
    for text in texts {
        let item = item(text, singular)?;
        on_event(ListEvent::Item(&item, text));
        items.push(item);
    }
    Ok(meta.page(items))
}

/// What [`each`] reports.
pub(super) enum ListEvent<'a, T> {
    List { api_version: &'a str, kind: &'a str },
    Item(&'a T, &'a RawValue),
}

/// Decodes one object as leniently; says what is wrong with it if that cannot be done.
pub(super) fn item<T: DeserializeOwned>(raw: &RawValue, singular: &str) -> Result<T, String> {
    let text = raw.get().as_bytes();
    if let Ok(item) = serde_json::from_slice(text) {
        return Ok(item);
    }
    let value = serde_json::from_slice(text).map_err(|e| e.to_string())?;
    without_nulls(value, singular)
}

fn without_nulls<T: DeserializeOwned>(value: Value, singular: &str) -> Result<T, String> {
    let name = value["metadata"]["name"].as_str().unwrap_or("?").to_owned();
    nulls::decode(value)
        .map_err(|why| format!("{singular} {}: {}", first_line(&name), first_line(&why)))
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::cluster::Node;

    fn names(body: &str) -> Result<Vec<String>, String> {
        let page: ListPage<Node> = page(body.as_bytes(), "node", |_| {})?;
        Ok(page.items.iter().map(|n| n.name.to_string()).collect())
    }

    #[test]
    fn the_token_of_the_next_page_is_known_before_the_items_are_decoded() {
        let early_token = |body: &str| {
            let mut token = None;
            let _ = page::<Node>(body.as_bytes(), "node", |next| {
                token = Some(next.to_owned())
            });
            token
        };
        let cut = r#"{"kind": "NodeList", "metadata": {"continue": "abc"}, "items": [{"metad"#;
        assert_eq!(early_token(cut), Some("abc".into()));
        let last = r#"{"kind": "NodeList", "metadata": {"continue": ""}, "items": []}"#;
        assert_eq!(early_token(last), None);
        let late = r#"{"kind": "NodeList", "items": [], "metadata": {"continue": "abc"}}"#;
        assert_eq!(early_token(late), None);
        let page: ListPage<Node> = page(late.as_bytes(), "node", |_| {}).expect("a list");
        assert_eq!(page.next, Some("abc".into()));
    }

    #[test]
    fn nulls_are_as_good_as_absent() {
        assert_eq!(names(r#"{"kind": "NodeList", "items": null}"#), Ok(vec![]));
        assert_eq!(
            names(r#"{"kind": "NodeList", "metadata": null}"#),
            Ok(vec![])
        );
        let body = r#"{"kind": "NodeList", "items": [
            {"metadata": {"name": "a", "labels": null}, "spec": null},
            {"metadata": {"name": "b"}}
        ]}"#;
        assert_eq!(names(body), Ok(vec!["a".into(), "b".into()]));
    }

    #[test]
    fn what_does_not_decode_is_named() {
        let body = r#"{"kind": "NodeList", "items": [{"metadata": {"name": "a", "labels": 7}}]}"#;
        let why = "node a: invalid type: integer `7`, expected a map";
        assert_eq!(names(body), Err(why.into()));
        let why = "the response is not a list: expected value at line 1 column 1";
        assert_eq!(names("<html>"), Err(why.into()));
        for body in ["{}", r#"{"items": []}"#, r#"{"kind": "Status"}"#] {
            let why = "the response is not a list";
            assert_eq!(names(body), Err(why.into()), "{body}");
        }
        let why = names("null").expect_err("null is no list");
        assert!(why.starts_with("the response is not a list"), "{why}");
    }
}
